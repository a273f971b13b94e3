package read

import (
	"context"
	"fmt"
	"time"
)

// OneSided is what the node does while reads go on that it should not notice, and
// while none do.
type OneSided struct {
	Transport Transport `json:"transport"`
	Reads     int       `json:"reads"` // of the window with the fewest
	Seconds   float64   `json:"seconds"`
	Busy      Spread    `json:"busy_usec"`
	Idle      Spread    `json:"idle_usec"`
	// Ratio is busy by idle, and Excess busy less idle for each read, window by
	// window.
	Ratio  Spread `json:"ratio"`
	Excess Spread `json:"excess_nsec_per_read"`
	// BusyWakes and IdleWakes say how often the node's threads were woken: a
	// process that serves a read must be. Nil where that is not known.
	BusyWakes *Spread `json:"busy_wakes,omitempty"`
	IdleWakes *Spread `json:"idle_wakes,omitempty"`
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

// window is what the node did in a part of the measurement.
type window struct {
	reads int
	took  time.Duration
	cpu   time.Duration
	wakes int // -1: not known
}

// during measures the node while do runs, which returns the reads that it made.
func (s *session) during(do func() (reads int, err error)) (w window, err error) {
	cpu, _ := s.n.CPU()
	wakes, began := wakesOf(s.n.PID()), time.Now()
	if w.reads, err = do(); err != nil {
		return w, err
	}
	w.took = time.Since(began)
	after, _ := s.n.CPU()
	w.cpu = after - cpu
	if w.wakes = wakesOf(s.n.PID()); w.wakes >= 0 {
		w.wakes -= wakes
	}
	return w, nil
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
	if _, known := s.n.CPU(); !known {
		return one, nil
	}
	length := s.c.OneSidedFor
	busy := func() (window, error) {
		return s.during(func() (reads int, err error) {
			for began := time.Now(); reads < s.c.OneSided || time.Since(began) < s.c.OneSidedFor; {
				n, err := lane.step(time.Now().Add(patience))
				if err == nil {
					err = ctx.Err()
				}
				if err != nil {
					return reads, err
				}
				reads += n
			}
			return reads, nil
		})
	}
	idle := func() (window, error) {
		return s.during(func() (int, error) { return 0, pause(ctx, length) })
	}
	var pairs []pair
	for round := range s.c.Rounds {
		var p pair
		if round%2 == 1 {
			if p.idle, err = idle(); err != nil {
				return one, err
			}
		}
		if p.busy, err = busy(); err != nil {
			return one, err
		}
		length = p.busy.took
		if round%2 == 0 {
			if p.idle, err = idle(); err != nil {
				return one, err
			}
		}
		pairs = append(pairs, p)
	}
	one.from(pairs)
	return one, nil
}

// pair is a window with reads, and one without beside it.
type pair struct{ busy, idle window }

// from fills the figures. What an idle window had counts for as long as the busy
// one beside it took: reads go on until there are enough, and may take a little
// longer or shorter than those before.
func (o *OneSided) from(pairs []pair) {
	var busy, idle, ratios, excess, seconds, busyWakes, idleWakes []float64
	for _, p := range pairs {
		scale := p.busy.took.Seconds() / max(p.idle.took.Seconds(), 1e-9)
		b, i := micros(p.busy.cpu), micros(p.idle.cpu)*scale
		busy, idle, seconds = append(busy, b), append(idle, i), append(seconds, p.busy.took.Seconds())
		ratios, excess = append(ratios, b/max(i, 1)), append(excess, (b-i)*1e3/float64(max(p.busy.reads, 1)))
		if o.Reads == 0 || p.busy.reads < o.Reads {
			o.Reads = p.busy.reads
		}
		if p.busy.wakes >= 0 && p.idle.wakes >= 0 {
			busyWakes, idleWakes = append(busyWakes, float64(p.busy.wakes)), append(idleWakes, float64(p.idle.wakes)*scale)
		}
	}
	o.Seconds, o.Busy, o.Idle, o.Ratio, o.Excess = spread(seconds).Median, spread(busy), spread(idle), spread(ratios), spread(excess)
	if len(pairs) > 0 && len(busyWakes) == len(pairs) {
		o.BusyWakes, o.IdleWakes = new(spread(busyWakes)), new(spread(idleWakes))
	}
}

// noBusier says that the node did no more while it was read than it does idle: the
// usual window with reads is not above all of those without. Of two quantities
// that are the same the median of one is below the other's as often as above, and
// a process that is idle is not so evenly.
func (o *OneSided) noBusier() bool { return o.Busy.Median <= o.Idle.Most }
