//go:build !race

package chunkstore

const slow = false
