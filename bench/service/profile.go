package service

import (
	"bytes"
	"fmt"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
)

const (
	blockRate     = 20_000 // ns: shorter waits are sampled
	mutexFraction = 5
)

// profile is the sum of waits until now, by what was waited for, in seconds.
type profile map[string]Waits

// startProfiles switches the profiles on, and returns what switches them off.
func startProfiles() (stop func()) {
	runtime.SetBlockProfileRate(blockRate)
	before := runtime.SetMutexProfileFraction(mutexFraction)
	return func() {
		runtime.SetBlockProfileRate(0)
		runtime.SetMutexProfileFraction(before)
	}
}

// readProfiles reads both profiles. They only grow: differences are what counts.
func readProfiles() profile {
	second := cyclesPerSecond()
	all := profile{}
	add := func(records []runtime.BlockProfileRecord, set func(*Waits, float64)) {
		for _, r := range records {
			what := waitedFor(r.Stack())
			if what == "" {
				continue
			}
			w := all[what]
			set(&w, float64(r.Cycles)/second)
			all[what] = w
		}
	}
	add(grow(runtime.BlockProfile), func(w *Waits, s float64) { w.Blocked += s })
	add(grow(runtime.MutexProfile), func(w *Waits, s float64) { w.Mutex += s })
	return all
}

// grow reads a profile of unknown size.
func grow(read func([]runtime.BlockProfileRecord) (int, bool)) []runtime.BlockProfileRecord {
	n, _ := read(nil)
	for {
		records := make([]runtime.BlockProfileRecord, n+50)
		var ok bool
		if n, ok = read(records); ok {
			return records[:n]
		}
	}
}

// cyclesPerSecond is the unit of the profiles, which only their text form tells.
func cyclesPerSecond() float64 {
	var text bytes.Buffer
	if err := pprof.Lookup("block").WriteTo(&text, 1); err == nil {
		for line := range strings.Lines(text.String()) {
			var v float64
			if _, err := fmt.Sscanf(line, "cycles/second=%f", &v); err == nil && v > 0 {
				return v
			}
		}
	}
	return 1e9
}

// waitedFor names what a stack waits for; empty: what idles by nature.
func waitedFor(stack []uintptr) string {
	frames := runtime.CallersFrames(stack)
	for {
		f, more := frames.Next()
		switch name := f.Function; {
		case strings.Contains(name, "bench/service.(*load)"), strings.Contains(name, "bench/service.(*client)"), strings.Contains(name, "wire.(*Client)"), strings.Contains(name, "bench/service.Run"), strings.Contains(name, "bench/service.measure"):
			return "" // the load itself
		case strings.Contains(name, "logging.(*queue).run"), strings.Contains(name, "tcp.(*Conn).watch"), strings.Contains(name, "chunkstore/server"), strings.Contains(name, "signal"):
			return "" // goroutines that wait for something to do
		case strings.Contains(name, "logging.(*queue)"), strings.Contains(name, "logging.(*limiter)"):
			return "the log queue's mutex"
		case strings.Contains(name, "log/slog"):
			return "slog's mutex"
		}
		if !more {
			return "others"
		}
	}
}

// since returns what was waited for since an earlier profile, most first.
func (p profile) since(before profile) (all []Waits) {
	for what, w := range p {
		w.For = what
		w.Blocked -= before[what].Blocked
		w.Mutex -= before[what].Mutex
		if w.Blocked > 1e-3 || w.Mutex > 1e-3 {
			all = append(all, w)
		}
	}
	slices.SortFunc(all, func(a, b Waits) int {
		if x, y := a.Blocked+a.Mutex, b.Blocked+b.Mutex; x != y {
			if x > y {
				return -1
			}
			return 1
		}
		return strings.Compare(a.For, b.For)
	})
	return all
}
