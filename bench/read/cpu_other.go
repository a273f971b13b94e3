//go:build !linux

package read

import "time"

// ownCPU is known on Linux only.
func ownCPU() time.Duration { return 0 }

func wakesOf(int) int { return -1 }
