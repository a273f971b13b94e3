//go:build !linux

package sink

import "time"

// exactly has no better clock here.
func exactly(d time.Duration) { time.Sleep(d) }
