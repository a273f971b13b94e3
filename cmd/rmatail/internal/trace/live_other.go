//go:build !linux

package trace

// LiveConfig says how to capture. The zero value is usable.
type LiveConfig struct {
	Snaplen int // how much of each frame is taken
	Buffer  int // bytes of frames that are not taken yet
}

// OpenLive returns ErrUnsupported.
func OpenLive(string, LiveConfig) (Source, error) { return nil, ErrUnsupported }
