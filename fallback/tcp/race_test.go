//go:build race

package tcp

// raceEnabled: the race detector allocates on its own account.
const raceEnabled = true
