package server

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"slices"
	"strconv"
	"strings"
	"time"
)

// pprofMax bounds a profile over time.
const pprofMax = time.Minute

// newProfiles serves what `go tool pprof` and `go tool trace` read, below
// /debug/pprof/. It is not net/http/pprof, whose import adds the same to
// http.DefaultServeMux: a program that embeds a node may serve that to everybody.
func newProfiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/{$}", profileNames)
	mux.HandleFunc("GET /debug/pprof/profile", overTime(30*time.Second, pprof.StartCPUProfile, pprof.StopCPUProfile))
	mux.HandleFunc("GET /debug/pprof/trace", overTime(time.Second, trace.Start, trace.Stop))
	mux.HandleFunc("GET /debug/pprof/{name}", snapshotProfile)
	return mux
}

func profileNames(w http.ResponseWriter, _ *http.Request) {
	var names []string
	for _, p := range pprof.Profiles() {
		names = append(names, p.Name())
	}
	slices.Sort(names)
	say(w, http.StatusOK, fmt.Sprintf("%s\nprofile?seconds=30\ntrace?seconds=1\n\ngo tool pprof http://HOST/debug/pprof/NAME; ?debug=1 is text", strings.Join(names, "\n")))
}

// snapshotProfile serves a profile of now.
func snapshotProfile(w http.ResponseWriter, r *http.Request) {
	p := pprof.Lookup(r.PathValue("name"))
	if p == nil {
		say(w, http.StatusNotFound, "no such profile")
		return
	}
	debug, _ := strconv.Atoi(r.FormValue("debug")) // what is no number is 0
	if p.Name() == "heap" && r.FormValue("gc") != "" {
		runtime.GC()
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if debug > 0 {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	} else {
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", p.Name()))
	}
	_ = p.WriteTo(w, debug) // the client has gone
}

// overTime serves what is collected for ?seconds, or a default.
func overTime(standard time.Duration, start func(io.Writer) error, stop func()) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		d := standard
		if text := r.FormValue("seconds"); text != "" {
			seconds, err := strconv.ParseFloat(text, 64)
			if err != nil || !(seconds > 0 && seconds <= pprofMax.Seconds()) {
				say(w, http.StatusBadRequest, fmt.Sprintf("seconds=%.20q, want more than 0, at most %.0f", text, pprofMax.Seconds()))
				return
			}
			d = time.Duration(seconds * float64(time.Second))
		}
		if err := http.NewResponseController(w).SetReadDeadline(time.Time{}); err != nil { // else the request seems cancelled after its bound
			say(w, http.StatusInternalServerError, "this connection cannot wait")
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		if err := start(w); err != nil {
			w.Header().Del("Content-Type")
			say(w, http.StatusConflict, err.Error()) // there is one already
			return
		}
		defer stop()
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-r.Context().Done():
		}
	}
}
