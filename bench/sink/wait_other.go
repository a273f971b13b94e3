//go:build !linux

package sink

import "time"

// There is no better clock here.
func newAlarm() (clock, error) { return sleeper(time.Sleep), nil }

func hold(d time.Duration) { time.Sleep(d) }
