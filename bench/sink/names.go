package sink

import "fmt"

// Mode is what stands between the loop and the sink.
type Mode int

// The modes, in the order of the table.
const (
	Direct Mode = iota
	Semaphore
	Queue
	Blocking
	Appender
)

func (m Mode) String() string {
	return [...]string{"direct", "semaphore", "queue", "blocking", "appender"}[m]
}

// MarshalText implements encoding.TextMarshaler.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *Mode) UnmarshalText(text []byte) error {
	for v := Direct; v <= Appender; v++ {
		if v.String() == string(text) {
			*m = v
			return nil
		}
	}
	return fmt.Errorf("mode %q", text)
}

// Wait is how the sink takes its time.
type Wait int

// The waits.
const (
	Sleep Wait = iota // time.Sleep
	Exact             // parked like Sleep, until the kernel's clock says so
	Held              // as exact, in a system call that holds its thread
	Store             // no simulation: a durable store
)

func (w Wait) String() string { return [...]string{"sleep", "exact", "held", "store"}[w] }

// MarshalText implements encoding.TextMarshaler.
func (w Wait) MarshalText() ([]byte, error) { return []byte(w.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (w *Wait) UnmarshalText(text []byte) error {
	for v := Sleep; v <= Store; v++ {
		if v.String() == string(text) {
			*w = v
			return nil
		}
	}
	return fmt.Errorf("wait %q, want sleep, exact, held or store", text)
}
