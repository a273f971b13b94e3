//go:build race

package server

// killedRecords is a tenth of what it is without the race detector, which makes
// everything slower by as much.
const killedRecords = 100_000
