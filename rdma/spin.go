package rdma

import "time"

// spinner decides how long a waiting caller polls before it sleeps. Polling pays
// when the completion is nearer than a sleep and a wake-up would take; past that
// it only burns a CPU. It follows how long waits took lately. Only the leader
// uses it.
type spinner struct {
	max   time.Duration // bound of one spin; 0: never spin
	usual time.Duration // moving average of the time to a completion
	turn  uint
	waits uint // that began by spinning
}

// probeEvery is how many waits in a row go to sleep at once before one spins to
// see whether reads have become fast: a wait that sleeps looks slower than it
// was.
const probeEvery = 32

// lookEvery is how many waits that were short in a row are timed once.
const lookEvery = 8

// due says whether the next wait is to be timed. While waits are short one is like
// the next, and the clock takes as long as half of all else that is done for a
// READ; a long one does not end while spinning.
func (s *spinner) due() bool {
	s.waits++
	return s.usual > s.max || s.waits%lookEvery == 0
}

// budget returns how long to spin in the next wait.
func (s *spinner) budget() time.Duration {
	if s.max <= 0 {
		return 0
	}
	if s.usual <= s.max {
		return min(2*s.usual+time.Microsecond, s.max)
	}
	if s.turn++; s.turn%probeEvery == 0 {
		return s.max
	}
	return 0
}

// took tells how long a wait was until the first completion.
func (s *spinner) took(d time.Duration) {
	d = max(d, 0)
	if s.max <= 0 {
		return
	}
	// One long wait (an idle second, a retry) counts as slow, not as a second.
	d = min(d, 4*s.max)
	s.usual += (d - s.usual) / 8
	// A fast one after slow ones is believed at once.
	if d <= s.max/2 && s.usual > s.max {
		s.usual = s.max
	}
}
