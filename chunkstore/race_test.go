//go:build race

package chunkstore

// slow says that the race detector makes everything about ten times slower:
// repetitions are cut, nothing is left out.
const slow = true
