//go:build race

package wire

// raceEnabled: the race detector allocates on its own account.
const raceEnabled = true
