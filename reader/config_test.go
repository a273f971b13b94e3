package reader

import (
	"errors"
	"testing"
	"time"

	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/rdma"
)

func TestConfigRefuses(t *testing.T) {
	for name, c := range map[string]Config{
		"nothing":               {},
		"no port":               {Server: "node", Dir: "d"},
		"empty port":            {Server: "node:"},
		"empty path":            {Server: "unix:"},
		"unknown transport":     {Server: "node:1", Transport: TCP + 1},
		"negative transport":    {Server: "node:1", Transport: -1},
		"transport, no server":  {Dir: "d", Transport: SHM},
		"server and cluster":    {Server: "node:1", Cluster: cluster.Single("node:1")},
		"negative hedge":        {Server: "node:1", HedgeDelay: -1},
		"poll maximum":          {Server: "node:1", PollMin: time.Second, PollMax: time.Millisecond},
		"busy poll":             {Server: "node:1", PollMin: 1},
		"negative poll":         {Server: "node:1", PollMin: -1},
		"negative timeout":      {Server: "node:1", ReadTimeout: -1},
		"negative delay":        {Server: "node:1", DurableDelay: -1},
		"negative concurrency":  {Server: "node:1", DurableConcurrency: -1},
		"negative rate":         {Server: "node:1", DurableBytesPerSecond: -1},
		"small prefetch":        {Server: "node:1", Prefetch: 1},
		"large prefetch":        {Server: "node:1", Prefetch: 17 << 20},
		"rdma out of its range": {Server: "node:1", RDMA: rdma.Config{Retries: 7}},
	} {
		if _, err := c.withDefaults(); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, c := range map[string]Config{
		"host and port": {Server: "node:1"}, "address": {Server: "[::1]:1"}, "path": {Server: "unix:/run/x"}, "directory": {Dir: "d"},
		"slow poll": {Server: "node:1", PollMin: time.Second}, "cluster": {Cluster: cluster.Single("node:1"), Transport: TCP},
	} {
		if got, err := c.withDefaults(); err != nil || got.Prefetch != 1<<20 || got.RDMA.GIDIndex != -1 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestNamesOfTransportsAndSources(t *testing.T) {
	for transport := Auto; transport <= TCP; transport++ {
		if got, err := ParseTransport(transport.String()); got != transport || err != nil {
			t.Errorf("%v: %v, %v", transport, got, err)
		}
	}
	if _, err := ParseTransport("udp"); !errors.Is(err, ErrConfig) {
		t.Error(err)
	}
	if a, b := (TCP + 1).String(), (FromDurable + 1).String(); a != "transport 4" || b != "source 4" {
		t.Error(a, b)
	}
	for s := FromSHM; s <= FromDurable; s++ {
		if !Auto.allows(s) || SHM.allows(s) != (s == FromSHM) || RDMA.allows(s) != (s == FromRDMA) || TCP.allows(s) != (s == FromTCP) {
			t.Errorf("%v", s)
		}
	}
}
