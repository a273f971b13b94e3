package reader

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// scenarios are explored in turn. The first ones promise more than right bytes.
var scenarios = []scenario{
	{name: "nothing lost", prompt: true, noDurable: true},
	{name: "one node lost", prompt: true, noDurable: true, victims: 1},
	{name: "one node after the other", prompt: true, noDurable: true, victims: 5, rolling: true},
	{name: "two writers", prompt: true, rivals: true},
	{name: "two nodes lost", prompt: true, victims: 2, evictions: true},
	{name: "everything", victims: 5, deaths: true, rivals: true, storeAway: true, evictions: true, moves: true},
	{name: "nodes leave and join", prompt: true, moves: true, deaths: true},
}

// rapidChooser lets rapid choose, and shrink.
type rapidChooser struct{ t *rapid.T }

var below = func() (g [64]*rapid.Generator[int]) {
	for i := range g {
		g[i] = rapid.IntRange(0, max(i-1, 0))
	}
	return g
}()

func (c rapidChooser) choose(n int, what string) int { return below[n].Draw(c.t, what) }

// explore runs one history: events with faults, then the end of all faults.
func explore(c chooser, s scenario, broken breakage, fail func(string, ...any)) *world {
	w := newWorld(c, s, broken, fail)
	for range 50 + 10*c.choose(30, "tens of steps") {
		w.step()
	}
	w.heal()
	w.settle()
	w.recover()
	return w
}

// modelTime is how long the model is explored: RMATAIL_MODEL_TIME, else little.
func modelTime(t *testing.T) time.Duration {
	s := os.Getenv("RMATAIL_MODEL_TIME")
	if s == "" {
		return 6 * time.Second
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatalf("RMATAIL_MODEL_TIME: %v", err)
	}
	return d
}

// TestClusterModel: after every step what each reader has been given is a prefix
// of what was appended, and once faults end everything is delivered, and the cache
// serves again.
func TestClusterModel(t *testing.T) {
	seed := rand.Uint64() >> 1
	if s := os.Getenv("RMATAIL_MODEL_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("RMATAIL_MODEL_SEED: %v", err)
		}
	}
	t.Logf("RMATAIL_MODEL_SEED=%d", seed)
	t.Cleanup(func() { flag.Set("rapid.seed", "0") }) // of the package's other tests
	each := modelTime(t) / time.Duration(len(scenarios))
	all := 0
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			steps, histories, cache, store := 0, 0, 0, 0
			for end := time.Now().Add(each); time.Now().Before(end); seed++ {
				if err := flag.Set("rapid.seed", strconv.FormatUint(seed<<20+1, 10)); err != nil {
					t.Fatal(err)
				}
				rapid.Check(quiet{t}, func(t *rapid.T) {
					w := explore(rapidChooser{t}, s, sound, t.Fatalf)
					steps += w.steps
					cache, store = cache+w.by[FromTCP], store+w.by[FromDurable]
					histories++
				})
			}
			all += steps
			t.Logf("%d steps in %d histories, %d bytes from the cache, %d from the store", steps, histories, cache, store)
			if cache < histories || (store > 0) == s.noDurable {
				t.Errorf("the histories do not try what they promise")
			}
		})
	}
	t.Logf("report: model of the cluster: %d steps explored, 0 wrong bytes, 0 gaps, 0 stuck", all)
}

// quiet keeps rapid from a line for each hundred histories.
type quiet struct{ *testing.T }

func (q quiet) Logf(format string, args ...any) {
	if q.Failed() {
		q.T.Logf(format, args...)
	}
}

// seededChooser chooses by a seed, fast.
type seededChooser struct{ *rand.Rand }

func (c seededChooser) choose(n int, _ string) int { return c.IntN(n) }

// violation is what a broken rule ends a history with.
type violation string

// search looks for a violation among histories of consecutive seeds.
func search(s scenario, broken breakage, most int) (found string, histories int) {
	for seed := range most {
		err := func() (v violation) {
			defer func() {
				if r := recover(); r != nil {
					v = r.(violation)
				}
			}()
			explore(seededChooser{rand.New(rand.NewPCG(uint64(seed), 5))}, s, broken, func(format string, args ...any) {
				panic(violation(fmt.Sprintf(format, args...)))
			})
			return ""
		}()
		if err != "" {
			return string(err), seed + 1
		}
	}
	return "", most
}

// TestClusterModelHasTeeth: with a rule broken, the model finds a violation.
func TestClusterModelHasTeeth(t *testing.T) {
	nothing, one, rolling, rivals, lost, everything := scenarios[0], scenarios[1], scenarios[2], scenarios[3], scenarios[4], scenarios[5]
	for _, c := range []struct {
		name   string
		broken breakage
		in     scenario
	}{
		{"put before the append is durable", putBeforeDurable, everything},
		{"publish before put", publishBeforePut, nothing},
		{"cold after one hole", coldAfterOneHole, one},
		{"stale ballots are taken", staleBallots, rivals},
		{"unproven bytes are delivered", unprovenBytes, lost},
		{"never durable", neverDurable, everything},
		{"no repair", noRepair, rolling},
		{"heartbeats without a look at the store", blindBeats, rivals},
		{"any difference of beats is life", anyBeat, everything},
	} {
		t.Run(c.name, func(t *testing.T) {
			const most = 50_000
			found, histories := search(c.in, c.broken, most)
			if found == "" {
				t.Fatalf("not noticed in %d histories of %q", most, c.in.name)
			}
			t.Logf("noticed in history %d: %s", histories, found)
		})
	}
}
