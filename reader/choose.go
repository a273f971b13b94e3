package reader

import "time"

// option is a replica that may be asked now.
type option struct {
	tier    Source        // of its path: less is better
	latency time.Duration // that is expected of it
	known   bool          // where it has the bytes: that saves reading their place
}

// notAnOption is the tier of one that may not, and only keeps its place.
const notAnOption = Source(sources)

// choose returns which option a relaxed read asks: of those with the best transport
// two drawn by dice, or one with known bytes and one drawn, and the quicker one of
// them; -1 without options. A difference
// of less than a quarter is noise, and the draw decides. (Power of two choices:
// the least of all would send every reader to the same replica.)
func choose(options []option, dice uint64) int {
	best, n, known := notAnOption, 0, -1
	for i := range options {
		switch t := options[i].tier; {
		case t == notAnOption:
			continue
		case t < best:
			best, n, known = t, 1, -1
		case t == best:
			n++
		default:
			continue
		}
		if known < 0 && options[i].known {
			known = n - 1
		}
	}
	if n == 0 {
		return -1
	}
	nth := dice % uint64(n)
	if known >= 0 {
		nth = uint64(known)
	}
	first := drawn(options, best, nth)
	if n == 1 {
		return first
	}
	other := dice / uint64(n) % uint64(n-1)
	if other >= nth {
		other++
	}
	second := drawn(options, best, other)
	takes := max(options[second].latency, latencyNoise)
	if options[first].known && !options[second].known {
		takes *= 2 // its place is read first
	}
	if 4*takes < 3*options[first].latency {
		return second
	}
	return first
}

// latencyNoise is what makes no difference.
const latencyNoise = 10 * time.Microsecond

// drawn returns the index of the nth option of a tier.
func drawn(options []option, tier Source, nth uint64) int {
	for i := range options {
		if options[i].tier != tier {
			continue
		}
		if nth == 0 {
			return i
		}
		nth--
	}
	return -1
}
