package read

import (
	"context"
	"fmt"
	"time"
)

// OneSided is the node's processor time while reads go on that it should not
// notice, and while none do.
type OneSided struct {
	Transport Transport `json:"transport"`
	Reads     int       `json:"reads"` // of the window with the fewest
	Seconds   float64   `json:"seconds"`
	Busy      Spread    `json:"busy_usec"`
	Idle      Spread    `json:"idle_usec"`
	// Ratio is busy by idle, window by window.
	Ratio Spread `json:"ratio"`
}

// oneSided measures the transports that are, in as many windows as rounds.
func (s *session) oneSided(ctx context.Context) (all []OneSided, err error) {
	if s.c.OneSided < 0 {
		return nil, nil
	}
	for _, t := range s.c.Transports {
		if t == TCP {
			continue
		}
		one, err := s.windows(ctx, t)
		if err != nil {
			return nil, fmt.Errorf("%s, node's processor time: %w", t, err)
		}
		all = append(all, one)
	}
	return all, nil
}

// windows takes turns of reading and not reading, equally long. The first turn of
// a pair alternates.
func (s *session) windows(ctx context.Context, t Transport) (one OneSided, err error) {
	one.Transport = t
	lane, err := newLane(s.paths[t][0], s.at, cell{t, Raw, Rate, largest(s.c.Batches)}, 1, 0, 1)
	if err != nil {
		return one, err
	}
	defer lane.release()
	clock := s.n.cpu()
	if _, known := clock(); !known {
		return one, nil
	}
	var busy, idle, ratios, seconds []float64
	length := s.c.OneSidedFor
	for range s.c.Rounds {
		before, _ := clock()
		began, reads := time.Now(), 0
		for reads < s.c.OneSided || time.Since(began) < s.c.OneSidedFor {
			n, err := lane.step(time.Now().Add(patience))
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return one, err
			}
			reads += n
		}
		length = time.Since(began)
		between, _ := clock()
		if err := pause(ctx, length); err != nil {
			return one, err
		}
		after, _ := clock()
		if one.Reads == 0 || reads < one.Reads {
			one.Reads = reads
		}
		seconds = append(seconds, length.Seconds())
		busy, idle = append(busy, micros(between-before)), append(idle, micros(after-between))
		ratios = append(ratios, micros(between-before)/max(micros(after-between), 1))
	}
	one.Seconds, one.Busy, one.Idle, one.Ratio = spread(seconds).Median, spread(busy), spread(idle), spread(ratios)
	return one, nil
}
