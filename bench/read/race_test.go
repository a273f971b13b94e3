//go:build race

package read

// raceEnabled: the detector allocates by itself.
const raceEnabled = true
