//go:build !race

package server

const killedRecords = 1_000_000
