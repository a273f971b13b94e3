package service

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConfigIsChecked(t *testing.T) {
	for _, c := range []Config{{Lines: -1}, {Clients: -1}, {Clients: 5000}, {For: time.Microsecond}, {Rounds: -1}} {
		if _, err := Run(t.Context(), c); !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestMediansAndRatios(t *testing.T) {
	phase := func(name string, path Path, rate float64) Phase {
		return Phase{Name: name, Path: path, Calls: None, RequestsPerSecond: rate}
	}
	r := Result{}
	for _, rates := range [][2]float64{{100, 50}, {300, 10}, {200, 60}} {
		r.Rounds = append(r.Rounds, []Phase{phase("off", Nowhere, rates[0]), phase("sync", Sync, rates[1])})
	}
	r.medians()
	if r.Phases[0].RequestsPerSecond != 200 || r.Phases[1].RequestsPerSecond != 50 || r.Phases[1].OfOff != 0.25 {
		t.Errorf("medians: %+v", r.Phases)
	}
}

func TestRealVolumeRules(t *testing.T) {
	res, err := Run(t.Context(), Config{For: 100 * time.Millisecond, Clients: 8, Lines: 1000, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range res.Phases {
		if p.Requests == 0 && p.Lines < 1000 || p.Words == "" {
			t.Errorf("phase measured nothing: %+v", p)
		}
		if p.Lines == 1000 && p.Calls == Enabled && p.Path != Limited && p.OfOff > 0.5 {
			t.Errorf("%d lines a request (%s) leave %.0f %% of the throughput", p.Lines, p.Name, 100*p.OfOff)
		}
		if p.Path == Limited && p.Lines > 0 && p.Held == 0 {
			t.Errorf("nothing was held back: %+v", p)
		}
	}
	var text, js bytes.Buffer
	if err := errors.Join(res.Write(&text), json.NewEncoder(&js).Encode(res)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "node, default logging") || !strings.Contains(js.String(), `"requests_per_s"`) {
		t.Errorf("output:\n%s", text.String())
	}
	t.Logf("report:\n%s", text.String())
}
