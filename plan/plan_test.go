package plan

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

func published() Needs {
	return Needs{Streams: 2, Shards: 120, ShardMbps: 62e3 / 7950 / 8, Consumers: 7950, Follows: 4, DataNodes: 9, MetadataNodes: 6}.WithDefaults()
}

// TestPublishedExperiment: the plan of 7,950 consumers keeps what is claimed of them.
func TestPublishedExperiment(t *testing.T) {
	p, err := Of(published())
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(p.UsefulGbps-62) > 0.01 || p.MovedGbps > 63 || p.Requests > 2.1e6 || p.MovedGbps < p.UsefulGbps {
		t.Errorf("%.2f Gb/s moved for %.2f, %.0f requests/s", p.MovedGbps, p.UsefulGbps, p.Requests)
	}
	if p.ArenaBytes > 8<<30 || p.ArenaBytes < 100<<20 {
		t.Errorf("arenas of %.0f bytes", p.ArenaBytes)
	}
}

// TestMoreOfOneThing: each need moves what depends on it, and in the right direction.
func TestMoreOfOneThing(t *testing.T) {
	base, err := Of(published())
	if err != nil {
		t.Fatal(err)
	}
	of := func(change func(*Needs)) *Plan {
		n := published()
		change(&n)
		p, err := Of(n)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if p := of(func(n *Needs) { n.Consumers *= 2 }); math.Abs(p.Requests/base.Requests-2) > 1e-9 || p.ArenaBytes != base.ArenaBytes {
		t.Errorf("twice the consumers: %.0f requests of %.0f", p.Requests, base.Requests)
	}
	if p := of(func(n *Needs) { n.Poll /= 10 }); p.PageReads <= 9*base.PageReads || p.DataReads <= 5*base.DataReads || p.P99 >= base.P99/3 {
		t.Errorf("ten times the polls: %.0f page reads, %.0f data reads, p99 %v", p.PageReads, p.DataReads, p.P99)
	}
	if p := of(func(n *Needs) { n.AppendBytes = 1 << 20 }); p.DataReads >= base.DataReads {
		t.Errorf("rare appends: %.0f data reads of %.0f", p.DataReads, base.DataReads)
	}
	if p := of(func(n *Needs) { n.DataNodes, n.Lost = 0, 2 }); p.DataNodes < 5 || p.DataGbps > 0.6*25 {
		t.Errorf("%d data nodes of %.1f Gb/s", p.DataNodes, p.DataGbps)
	}
	if p := of(func(n *Needs) { n.TTL *= 2 }); p.ArenaBytes < 1.8*base.ArenaBytes {
		t.Errorf("twice the time to live: %.0f bytes of %.0f", p.ArenaBytes, base.ArenaBytes)
	}
}

// TestEveryNumberHasItsFormula in what is printed.
func TestEveryNumberHasItsFormula(t *testing.T) {
	p, err := Of(published())
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := p.Write(&out); err != nil {
		t.Fatal(err)
	}
	for _, i := range p.Items {
		if i.Formula == "" || math.IsNaN(i.Value) || math.IsInf(i.Value, 0) || i.Value < 0 || strings.Contains(i.Formula, "%!") {
			t.Errorf("%+v", i)
		}
		if !strings.Contains(out.String(), i.Formula) {
			t.Errorf("%s is not printed", i.Name)
		}
	}
}

func TestNeedsThatMakeNoSense(t *testing.T) {
	for name, change := range map[string]func(*Needs){
		"no shards":               func(n *Needs) { n.Shards = 0 },
		"more than there are":     func(n *Needs) { n.Follows = n.Shards + 1 },
		"no rate":                 func(n *Needs) { n.ShardMbps = 0 },
		"negative poll":           func(n *Needs) { n.Poll = -time.Second },
		"all nodes lost":          func(n *Needs) { n.Lost = n.DataNodes },
		"use of more than a card": func(n *Needs) { n.Use = 2 },
	} {
		n := published()
		change(&n)
		if _, err := Of(n); !errors.Is(err, ErrNeeds) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
