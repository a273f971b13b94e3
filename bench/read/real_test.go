package read

import (
	"bytes"
	"errors"
	"math"
	"runtime"
	"testing"
	"time"
)

// TestRealReads runs everything for a moment. It asserts what does not depend on
// how busy the host is.
func TestRealReads(t *testing.T) {
	c := testConfig(t)
	c.Readers, c.Shards, c.InFlight = 2, 3, 2
	told := 0
	c.Progress = func(int, Row) { told++ }
	res, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	cells := 2 * (5*4 + 1)
	if len(res.Rows) != cells || len(res.Rounds) != 2 || told != 2*cells {
		t.Fatalf("%d rows in %d rounds, told of %d, want %d", len(res.Rows), len(res.Rounds), told, cells)
	}
	for _, r := range res.Rows {
		for name, f := range map[string]*Figures{"ours": &r.Ours, "floor": r.Floor} {
			switch {
			case f == nil:
				t.Errorf("%s has no floor", r.name())
			case f.Reads < 1 || f.MsgRate <= 0 || f.BWAverage <= 0 || f.BWPeak < f.BWAverage*0.999 || f.Seconds < c.For.Seconds():
				t.Errorf("%s, %s: %+v", r.name(), name, f)
			case (r.cell().timing() == timed) != (f.TTypical > 0 && f.TMin <= f.TTypical && f.TTypical <= f.TMax):
				t.Errorf("%s, %s: %+v", r.name(), name, f)
			case math.Abs(f.BWAverage-f.MsgRate*1e6*float64(r.Bytes)/mib) > f.BWAverage*0.01:
				t.Errorf("%s, %s: %v MB/s, %v million reads of %d B", r.name(), name, f.BWAverage, f.MsgRate, r.Bytes)
			}
		}
		if r.Ratio == nil || r.Ratio.Least > r.Ratio.Median || r.Ratio.Median > r.Ratio.Most || r.Ratio.Least <= 0 {
			t.Errorf("%s: ratio %+v", r.name(), r.Ratio)
		}
		if runtime.GOOS == "linux" && (r.Ours.ClientCPU <= 0 || r.Ours.ServerCPU == nil || r.Transport == TCP && *r.Ours.ServerCPU <= 0) {
			t.Errorf("%s: processor times %+v", r.name(), r.Ours)
		}
		if r.Ours.Allocs == nil || *r.Ours.Allocs > 20 { // a few for each of few reads
			t.Errorf("%s: allocations %+v", r.name(), r.Ours)
		}
	}
	if len(res.OneSided) != 1 || res.OneSided[0].Transport != SHM || res.OneSided[0].Reads < c.OneSided || res.OneSided[0].Seconds <= 0 {
		t.Errorf("one-sided: %+v", res.OneSided)
	}
	if res.Claims != nil || res.Device != nil || res.Settings.Readers != 2 || res.Environment.Kernel == "" {
		t.Errorf("%d claims of two rounds, device %+v, settings %+v", len(res.Claims), res.Device, res.Settings)
	}
	var b bytes.Buffer
	if err := errors.Join(res.Write(&b), res.WritePNG(&b)); err != nil {
		t.Error(err)
	}
}

// TestRealFailures: what cannot be started is an error, and leaves nothing.
func TestRealFailures(t *testing.T) {
	good := testConfig(t)
	for name, change := range map[string]func(*Config){
		"no such node":     func(c *Config) { c.Node = []string{"/does/not/exist"} },
		"a node that ends": func(c *Config) { c.Node = []string{"false"} },
		"no such floor":    func(c *Config) { c.TCPFloor = []string{"/does/not/exist"} },
		"address":          func(c *Config) { c.Listen = "203.0.113.1:0" },
		"no device":        func(c *Config) { c.Transports, c.Device = []Transport{RDMA}, "none" },
	} {
		c := good
		change(&c)
		if res, err := Run(t.Context(), c); err == nil || res != nil {
			t.Errorf("%s: %v, %v", name, res, err)
		}
	}
}

// lanesOf connects over shm and tcp to a node with two shards.
func lanesOf(t *testing.T) (paths map[Transport]*path, at *places) {
	c, err := testConfig(t).withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	c.Shards = 2
	n, err := startNode(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.stop(); err != nil {
			t.Error(err)
		}
	})
	paths = map[Transport]*path{}
	for _, tr := range []Transport{SHM, TCP} {
		p, err := connect(t.Context(), n, tr, "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.close() })
		paths[tr] = p
	}
	if at, err = n.published(t.Context(), paths[TCP]); err != nil {
		t.Fatal(err)
	}
	return paths, at
}

// TestRealVerificationIsReal: reads that verify find each wrong bit of what proves
// the bytes, and those that do not, do not look.
func TestRealVerificationIsReal(t *testing.T) {
	paths, at := lanesOf(t)
	if want := 2 << 20 / 4096; len(at.chunks) != want || len(at.deltas) != 2 || len(at.words) != 2 {
		t.Fatalf("%d chunks, %d deltas, %d words", len(at.chunks), len(at.deltas), len(at.words))
	}
	broken := *at
	broken.chunks = append([]place(nil), at.chunks...)
	broken.deltas = append([]delta(nil), at.deltas...)
	for i := range broken.chunks {
		broken.chunks[i].chunk ^= 16
	}
	broken.deltas[1].crc ^= 1
	for tr, p := range paths {
		for _, k := range []Kind{Word, Line, Raw, Chunk, Delta} {
			for _, inFlight := range []int{1, 3} {
				for _, wrong := range []*places{nil, &broken} {
					places := at
					if wrong != nil {
						places = wrong
					}
					lane, err := newLane(p, places, cell{tr, k, Rate, 16}, inFlight, 0, 1)
					if err != nil {
						t.Fatal(err)
					}
					for range 2 * len(at.chunks) / 16 {
						if _, err = lane.step(time.Now().Add(patience)); err != nil {
							break
						}
					}
					if want := wrong != nil && k.verified(); want != errors.Is(err, errWrong) || !want && err != nil {
						t.Errorf("%v %v, %d in flight, broken %v: %v", tr, k, inFlight, wrong != nil, err)
					}
					if err := lane.drain(); err != nil {
						t.Error(err)
					}
					lane.release()
				}
			}
		}
	}
}

// TestRealVerifiedReadsAllocateNothing over shm and tcp, whatever the batch.
func TestRealVerifiedReadsAllocateNothing(t *testing.T) {
	paths, at := lanesOf(t)
	for tr, p := range paths {
		for _, k := range []Kind{Chunk, Delta} {
			for _, batch := range []int{1, 64} {
				lane, err := newLane(p, at, cell{tr, k, Rate, batch}, 1, 0, 1)
				if err != nil {
					t.Fatal(err)
				}
				step := func() {
					if _, err := lane.step(time.Now().Add(patience)); err != nil {
						t.Fatal(err)
					}
				}
				for range 50 {
					step()
				}
				if n := testing.AllocsPerRun(300, step); n != 0 && !raceEnabled {
					t.Errorf("%v %v, batch %d: %v allocations", tr, k, batch, n)
				}
				lane.release()
			}
		}
	}
}
