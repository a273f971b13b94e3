//go:build race

package producer

// raceEnabled: the race detector allocates on its own account.
const raceEnabled = true
