//go:build race

package server

import "time"

// killedRecords is a tenth of what it is without the race detector, which makes
// everything slower by as much.
const killedRecords = 100_000

// siegeFloor is a delay of readers under siege that tells nothing: with the race
// detector, accepting connections costs ten times as much, and keeps the node busy.
const siegeFloor = 5 * time.Second

// siegeConnections are those of a siege: for the same reason not 10,000.
const siegeConnections = 2_000
