//go:build !race

package server

import "time"

const killedRecords = 1_000_000

// siegeFloor is a delay of readers under siege that tells nothing: a busy machine
// has as much by itself.
const siegeFloor = 250 * time.Millisecond

// siegeConnections are those of a siege.
const siegeConnections = 10_000
