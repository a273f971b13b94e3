package server

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
)

func hello(t testing.TB) []byte {
	t.Helper()
	p, err := wire.HelloRequest{Version: wire.Version}.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	return frame(wire.Header{Op: wire.OpHello}, p)
}

// recrc makes a header check again after it was bent.
func recrc(b []byte) []byte {
	binary.LittleEndian.PutUint32(b[20:], crc32.Checksum(b[:20], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

func noise(n int) []byte {
	b := make([]byte, n)
	rand.Read(b)
	return b
}

// garbage are first bytes that no client sends.
func garbage(t testing.TB) map[string][]byte {
	bend := func(b []byte, at int, to ...byte) []byte {
		b = bytes.Clone(b)
		copy(b[at:], to)
		return recrc(b)
	}
	good := hello(t)
	after := func(b []byte) []byte { return append(bytes.Clone(good), b...) }
	ping := frame(wire.Header{Op: wire.OpPing, ID: 1}, nil)
	return map[string][]byte{
		"nothing":               nil,
		"one byte":              {0},
		"noise":                 noise(5000),
		"zeros":                 make([]byte, 5000),
		"ones":                  bytes.Repeat([]byte{0xff}, 5000),
		"http":                  []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		"tls":                   append([]byte{0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3}, noise(500)...),
		"ssh":                   []byte("SSH-2.0-OpenSSH_9.2\r\n"),
		"ping before hello":     ping,
		"huge hello":            bend(good, 0, 0xff, 0xff, 0xff, 0x7f),
		"long hello":            bend(good, 0, 100),
		"hello flags":           bend(good, 6, 1),
		"hello as a reply":      bend(good, 5, 3),
		"hello wrong crc":       append(bytes.Clone(good[:23]), append([]byte{good[23] ^ 1}, good[24:]...)...),
		"hello wrong magic":     append(bytes.Clone(good[:24]), append([]byte("XMAT"), good[28:]...)...),
		"half a header":         good[:13],
		"half a hello":          good[:len(good)-1],
		"hello then noise":      after(noise(5000)),
		"hello then huge":       after(bend(ping, 0, 0xff, 0xff, 0xff, 0xff)),
		"hello then long ping":  after(bend(ping, 0, 1)),
		"hello then long put":   after(bend(frame(wire.Header{Op: wire.OpPut}, nil), 0, 0, 0x20)),
		"hello then a status":   after(bend(ping, 5, 1)),
		"hello then half frame": after(frame(wire.Header{Op: wire.OpAppend, ID: 2}, noise(5000))[:4000]),
		"hello then odd op":     after(frame(wire.Header{Op: 200, ID: 2}, noise(400))),
	}
}

func TestRealGarbage(t *testing.T) {
	s := serve(t, nil)
	good := dial(t, s)
	for name, b := range garbage(t) {
		t.Run(name, func(t *testing.T) {
			nc := rawDial(t, s)
			if _, err := nc.Write(b); err != nil {
				t.Logf("cut off while writing: %v", err)
			}
			nc.(*net.TCPConn).CloseWrite()
			closedByPeer(t, nc)
			if _, err := good.Call(t.Context(), wire.OpPing, nil, nil); err != nil {
				t.Errorf("another client: %v", err)
			}
		})
	}
	eventually(t, "only the good client is left", func() bool { return s.Stats().Connections == 1 })
	if st := s.Stats(); st.ConnectionsBroken < uint64(len(garbage(t)))-4 || st.Panics != 0 {
		t.Errorf("%d broken connections, %d panics", st.ConnectionsBroken, st.Panics)
	}
}

// Payloads that are noise, in frames that are right.
func TestRealNoisePayloads(t *testing.T) {
	s := serve(t, nil)
	nc := rawDial(t, s)
	greet(t, nc)
	id := uint64(0)
	for op := wire.OpReadArena; op <= wire.OpAwaitArena+1; op++ {
		if op == wire.OpAppend {
			continue // noise can be a fair append
		}
		for n := range 70 {
			id++
			p := noise(n)
			if (op == wire.OpPing || op == wire.OpNodeStat) && n > 0 || op == wire.OpStat && n > 60 || op == wire.OpReadDurable && n > 60 {
				continue
			}
			send(t, nc, wire.Header{Op: op, ID: id}, p)
			if h, _ := receive(t, nc); h.ID != id || h.Op != op {
				t.Fatalf("%v with %d bytes of noise: reply to %d %v", op, n, h.ID, h.Op)
			}
		}
	}
	if n := s.Stats().Panics; n != 0 {
		t.Errorf("%d panics", n)
	}
}

func TestRealVersion(t *testing.T) {
	s := serve(t, nil)
	nc := rawDial(t, s)
	p, _ := wire.HelloRequest{Version: 99}.AppendTo(nil)
	send(t, nc, wire.Header{Op: wire.OpHello}, p)
	h, reply := receive(t, nc)
	e, err := wire.ParseError(h.Status, reply)
	if err != nil || !errors.Is(e, wire.ErrVersion) || e.Arg0 != wire.Version {
		t.Errorf("hello of version 99: %v, %v", e, err)
	}
	closedByPeer(t, nc)
}

// drip sends bytes one by one, forever, until the node has enough.
func drip(t testing.TB, nc net.Conn, b []byte) {
	t.Helper()
	if err := nc.SetDeadline(time.Time{}); err != nil { // it is the node that shall end it
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		io.Copy(io.Discard, nc)
	}()
	tick, deadline := time.NewTicker(5*time.Millisecond), time.After(patience)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ended:
			return
		case <-deadline:
			nc.Close()
			t.Fatal("a deadline moves with each byte")
		case <-tick.C:
			nc.Write(b[i%len(b):][:1]) // fails when the node has closed
		}
	}
}

// alive pings for a while.
func alive(t testing.TB, c *wire.Client, d time.Duration) {
	t.Helper()
	tick, end := time.NewTicker(5*time.Millisecond), time.After(d)
	defer tick.Stop()
	for {
		if _, err := c.Call(t.Context(), wire.OpPing, nil, nil); err != nil {
			t.Fatal(err)
		}
		select {
		case <-end:
			return
		case <-tick.C:
		}
	}
}

func TestRealHandshakeDeadline(t *testing.T) {
	s := serve(t, func(c *Config) { c.Limits.Handshake, c.Limits.Frame = 100*time.Millisecond, time.Hour })
	closedByPeer(t, rawDial(t, s))
	nc := rawDial(t, s)
	nc.Write(hello(t)[:20])
	closedByPeer(t, nc)
	drip(t, rawDial(t, s), hello(t)[:1])
	alive(t, dial(t, s), 300*time.Millisecond) // it ends with the handshake
}

func TestRealFrameDeadline(t *testing.T) {
	s := serve(t, func(c *Config) { c.Limits.Handshake, c.Limits.Frame = time.Hour, 100*time.Millisecond })
	ping := frame(wire.Header{Op: wire.OpPing, ID: 1}, nil)
	nc := rawDial(t, s)
	greet(t, nc)
	nc.Write(ping[:10])
	closedByPeer(t, nc)

	nc = rawDial(t, s) // a frame and a half
	greet(t, nc)
	nc.Write(append(ping[:len(ping):len(ping)], ping[:5]...))
	receive(t, nc)
	closedByPeer(t, nc)

	nc = rawDial(t, s)
	greet(t, nc)
	nc.Write(frame(wire.Header{Op: wire.OpAppend, ID: 1}, make([]byte, 1<<20))[:wire.HeaderLen])
	drip(t, nc, []byte{0})

	c := dial(t, s)
	alive(t, c, 300*time.Millisecond)
	// A client that is idle is in no frame.
	idle := dial(t, s)
	alive(t, c, 300*time.Millisecond)
	alive(t, idle, 0)
}

func TestRealIdleDeadline(t *testing.T) {
	cfg := testConfig(t)
	cfg.Limits.Idle = 500 * time.Millisecond
	cfg.RDMAMode = RDMAAuto
	var open atomic.Int64
	s := serveParts(t, cfg, withExport(fakeExport{connect: func([]byte) ([]byte, io.Closer, error) {
		open.Add(1)
		return []byte("answer"), counted{&open}, nil
	}}, nil))
	reads := dial(t, s)
	if _, err := reads.Call(t.Context(), wire.OpRDMAConnect, []byte("offer"), nil); err != nil {
		t.Fatal(err)
	}
	nc := rawDial(t, s)
	greet(t, nc)
	closedByPeer(t, nc)
	alive(t, dial(t, s), 1200*time.Millisecond)
	// One whose reads go over RDMA is not idle, whatever its TCP connection does.
	alive(t, reads, 0)
}

// A client that asks and does not read is cut off.
func TestRealWriteDeadline(t *testing.T) {
	s := serve(t, func(c *Config) { c.Limits.Write = 100 * time.Millisecond })
	nc := rawDial(t, s)
	flood(t, s, nc)
	eventually(t, "it is cut off", func() bool { return s.Stats().Connections == 0 })
}

// flood asks for more arena bytes than the sockets hold, and reads none.
func flood(t testing.TB, s *Server, nc net.Conn) {
	t.Helper()
	greet(t, nc)
	req, _ := wire.AppendReadArena(nil, []wire.ArenaRead{{Off: 0, N: 1 << 20}})
	if _, err := nc.Write(bytes.Repeat(frame(wire.Header{Op: wire.OpReadArena, ID: 1}, req), 100)); err != nil {
		t.Fatal(err)
	}
	stuck, reads := 0, uint64(0)
	eventually(t, "the sockets are full", func() bool {
		n := s.Stats().ArenaReads
		if stuck++; n != reads || n == 0 {
			stuck, reads = 0, n
		}
		return stuck > 30 || s.Stats().Connections == 0 // cut off already
	})
}

func TestRealConnectionLimit(t *testing.T) {
	s := serve(t, func(c *Config) { c.Limits.Connections = 2 })
	a, b := dial(t, s), dial(t, s)
	closedByPeer(t, rawDial(t, s))
	if st := s.Stats(); st.ConnectionsRefused != 1 || st.Connections != 2 {
		t.Errorf("%d refused, %d open", st.ConnectionsRefused, st.Connections)
	}
	a.Close()
	eventually(t, "a place is free", func() bool { return s.Stats().Connections == 1 })
	dial(t, s)
	_ = b
}

// 64 clients that misbehave in turn, and one that does not: it must not notice.
func TestRealHostileCrowd(t *testing.T) {
	s := serve(t, func(c *Config) {
		c.Limits.Handshake, c.Limits.Frame, c.Limits.Write = 100*time.Millisecond, 100*time.Millisecond, 300*time.Millisecond
		c.Limits.DurableBytes = 4 << 20
	})
	seed := durable.NewRemote(dial(t, s))
	appendPattern(t, seed, shardA, 0, 2<<20)
	stop := make(chan struct{})
	var crowd sync.WaitGroup
	shapes := garbage(t)
	for i := range 64 {
		crowd.Go(func() {
			pause := time.NewTicker(50 * time.Millisecond)
			defer pause.Stop()
			for {
				select {
				case <-stop:
					return
				case <-pause.C:
				}
				nc, err := net.DialTimeout("tcp", s.Addr().String(), patience)
				if err != nil {
					continue
				}
				nc.SetDeadline(time.Now().Add(time.Second))
				misbehave(nc, i, hello(t), shapes)
				nc.Close()
			}
		})
	}
	c := dial(t, s)
	store := durable.NewRemote(c)
	shard := shardA
	shard.Number = 99
	began, total, slowest := time.Now(), uint64(0), time.Duration(0)
	for time.Since(began) < 3*time.Second {
		one := time.Now()
		appendPattern(t, store, shard, total, total+1000)
		slowest = max(slowest, time.Since(one))
		total += 1000
		info, err := store.Stat(t.Context(), shard.String())
		if err != nil {
			t.Fatal(err)
		}
		r := overTCP(t, c)
		tail, _ := layout.Tail(total)
		hash, start := shard.Hash(info.Incarnation), tail*layout.ChunkSize
		if e := r.entry(t, shard); !e.Valid(hash) || e.Length != total {
			t.Fatalf("published length %d, want %d", e.Length, total)
		}
		if got := r.chunk(t, hash, tail); !bytes.Equal(got, pattern(start, int(total-start))) {
			t.Fatalf("tail chunk at %d is wrong", total)
		}
	}
	close(stop)
	crowd.Wait()
	st := s.Stats()
	t.Logf("%d B appended in steps and checked (slowest step %v) among %d hostile connections (%d broken); refusals %v", total, slowest, st.ConnectionsTotal, st.ConnectionsBroken, st.Refusals)
	if st.Panics != 0 {
		t.Errorf("%d panics", st.Panics)
	}
	eventually(t, "the crowd is gone", func() bool { return s.Stats().Connections <= 2 && s.Stats().InFlight == 0 })
}

// misbehave is one connection of the crowd, by turns.
func misbehave(nc net.Conn, i int, hello []byte, shapes map[string][]byte) {
	switch i % 4 {
	case 0:
		for _, b := range shapes { // a random one
			nc.Write(b)
			break
		}
	case 1: // asks for a lot and does not read
		nc.Write(hello)
		read := wire.ReadDurable{Shard: []byte(shardA.String()), Max: wire.MaxRead}
		p, _ := read.AppendTo(nil)
		for id := range uint64(200) {
			nc.Write(frame(wire.Header{Op: wire.OpReadDurable, ID: id}, p))
		}
		io.ReadFull(nc, make([]byte, 100))
	case 2: // a flood of arena reads, not read
		nc.Write(hello)
		p, _ := wire.AppendReadArena(nil, []wire.ArenaRead{{Off: 0, N: 1 << 20}})
		b := bytes.Repeat(frame(wire.Header{Op: wire.OpReadArena, ID: 1}, p), 1000)
		nc.Write(b)
	case 3: // starts an append and leaves
		nc.Write(hello)
		nc.Write(frame(wire.Header{Op: wire.OpAppend, ID: 1}, make([]byte, 1<<20))[:100_000])
	}
}
