package server

import (
	"bytes"
	"context"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
	"github.com/rmatail/rmatail/rdma"
)

// rxeAddress is the address of the node's soft-RoCE device.
func rxeAddress(t *testing.T) string {
	t.Helper()
	if os.Getenv("RMATAIL_RXE") == "" {
		t.Skip("needs soft-RoCE: run it by scripts/test --ring rxe")
	}
	addr := os.Getenv("RMATAIL_RXE_ADDR0")
	if addr == "" {
		t.Fatal("RMATAIL_RXE is set, RMATAIL_RXE_ADDR0 is not")
	}
	return addr
}

// connectRDMA goes the way of a consumer: offer, RDMAConnect, finish.
func connectRDMA(t *testing.T, c *wire.Client, node string) *rdma.Conn {
	t.Helper()
	cfg := rdma.DefaultConfig()
	cfg.Device = os.Getenv("RMATAIL_RXE_DEV1")
	d, err := rdma.Prepare(cfg, netip.MustParseAddr(node))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	answer, err := c.Call(ctx, wire.OpRDMAConnect, d.Offer(), nil)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := d.Finish(ctx, answer)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestRxeNodeIsReadOneSidedly(t *testing.T) {
	node := rxeAddress(t)
	s := serve(t, func(c *Config) { c.Listen, c.RDMAMode = node+":0", RDMARequire })
	c := dial(t, s)
	if c.Hello().Features&wire.FeatureRDMA == 0 {
		t.Fatal("RDMA is not announced")
	}
	conn := connectRDMA(t, c, node)
	defer conn.Close()
	b, err := conn.NewBatch(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	store, length := durable.NewRemote(c), uint64(0)
	for range 10 {
		appendPattern(t, store, shardA, length, length+30_001)
		length += 30_001
		info, err := store.Stat(t.Context(), shardA.String())
		if err != nil {
			t.Fatal(err)
		}
		before := s.Stats()
		if n, want := overBatch(t, b).check(t, shardA, info.Incarnation, length), int(length/4096)+1; n != want {
			t.Errorf("%d of %d chunks over RDMA", n, want)
		}
		if after := s.Stats(); after.ArenaReads != before.ArenaReads {
			t.Error("the node served a read itself")
		}
	}
	if n := s.main().export.(rdmaExport).Stats().QPs; n != 1 {
		t.Errorf("%d queue pairs for one consumer", n)
	}
}

func TestRxeQueuePairsComeAndGo(t *testing.T) {
	node := rxeAddress(t)
	s := serve(t, func(c *Config) { c.Listen, c.RDMAMode = node+":0", RDMARequire })
	files := openFiles(t)
	for range 5 {
		c := dial(t, s)
		first, second := connectRDMA(t, c, node), connectRDMA(t, c, node)
		if n := s.Stats().QueuePairs; n != 2 {
			t.Errorf("%d queue pairs", n)
		}
		c.Close() // the right to read ends with the connection
		eventually(t, "no queue pair is left", func() bool {
			return s.Stats().QueuePairs == 0 && s.main().export.(rdmaExport).Stats().QPs == 0
		})
		b, err := first.NewBatch(4096)
		if err != nil {
			t.Fatal(err)
		}
		b.Add(0, 4096)
		if err := b.Post(time.Now().Add(patience)); err == nil {
			err = b.Wait()
			if err == nil {
				t.Error("a read went through after its connection had ended")
			}
		}
		b.Release()
		first.Close()
		second.Close()
	}
	eventually(t, "no descriptor is left", func() bool { return openFiles(t) <= files })
	if st := s.main().export.(rdmaExport).Stats(); st.MRs != st.Devices {
		t.Errorf("%d registrations on %d devices", st.MRs, st.Devices)
	}
}

func TestRxeBadOffers(t *testing.T) {
	node := rxeAddress(t)
	s := serve(t, func(c *Config) { c.Listen, c.RDMAMode = node+":0", RDMARequire })
	c := dial(t, s)
	for n := 1; n <= wire.MaxOpaque; n = n*2 + 1 {
		if _, err := c.Call(t.Context(), wire.OpRDMAConnect, noise(n), nil); err == nil {
			t.Errorf("an offer of %d bytes of noise was accepted", n)
		}
	}
	if st := s.Stats(); st.QueuePairs != 0 || st.Panics != 0 {
		t.Errorf("%d queue pairs, %d panics", st.QueuePairs, st.Panics)
	}
}

// Where an answer to an offer says what may be read: see the format in package rdma.
const (
	answerBase, answerRKey, answerRKeyEnd = 64, 80, 84
)

// A consumer of tenant A reads, over RDMA, its own tenant's memory and not one byte of
// B's: not with B's true address, length and key, which it was told, and not with keys
// near B's, on a queue pair that the node has made for it.
func TestRxeTenants(t *testing.T) {
	node := rxeAddress(t)
	a := twoTenants(t, func(c *Config) { c.Listen, c.RDMAMode = node+":0", RDMARequire })
	cfg := rdma.DefaultConfig()
	cfg.Device = os.Getenv("RMATAIL_RXE_DEV1")
	clients := map[string]*wire.Client{}
	var stolen []byte
	// read connects a client's queue pair, by an answer that change may bend, and reads
	// the header of what the answer says.
	read := func(who string, change func(answer []byte)) ([]byte, error) {
		d, err := rdma.Prepare(cfg, netip.MustParseAddr(node))
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		answer, err := clients[who].Call(ctx, wire.OpRDMAConnect, d.Offer(), nil)
		if err != nil {
			t.Fatal(err)
		}
		change(answer)
		conn, err := d.Finish(ctx, answer)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		b, err := conn.NewBatch(layout.HeaderSize)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Release()
		dst := b.Add(0, layout.HeaderSize)
		clear(dst)
		if err = b.Post(time.Now().Add(patience)); err == nil {
			err = b.Wait()
		}
		return bytes.Clone(dst), err
	}
	epoch := func(p []byte) uint64 {
		h, err := layout.ParseHeader(p)
		if err != nil {
			t.Fatal(err)
		}
		return h.Epoch
	}
	for _, who := range []string{"alice", "bob"} {
		c := a.as(who)
		clients[who] = c
		p, err := read(who, func(answer []byte) { stolen = bytes.Clone(answer[answerBase:answerRKeyEnd]) })
		if err != nil || epoch(p) != c.Hello().Epoch {
			t.Fatalf("%s reads its own memory: %v", who, err)
		}
	}
	tries := 0
	for guess := range 9 { // bob's key, and those that differ from it in a bit
		tries++
		p, err := read("alice", func(answer []byte) {
			copy(answer[answerBase:], stolen)
			if guess > 0 {
				answer[answerRKey] ^= 1 << (guess - 1)
			}
		})
		if err == nil || !bytes.Equal(p, make([]byte, len(p))) {
			t.Errorf("with bob's address and key, guess %d: %v, %d bytes", guess, err, len(p))
		}
	}
	// The node and its other consumers are none the worse.
	if p, err := read("bob", func([]byte) {}); err != nil || epoch(p) != clients["bob"].Hello().Epoch {
		t.Errorf("bob: %v", err)
	}
	if !t.Failed() {
		t.Logf("report: %d reads of another tenant's memory over RDMA through a node, none answered", tries)
	}
}
