package read

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// fakeRedis answers SET and GET of one key on one connection.
func fakeRedis(c net.Conn) {
	defer c.Close()
	var value []byte
	r := bufio.NewReader(c)
	// number reads the line that begins what comes next: a mark, and how much it is.
	number := func() int {
		line, err := r.ReadString('\n')
		if err != nil {
			return -1
		}
		n, err := strconv.Atoi(strings.TrimSpace(line[1:]))
		if err != nil {
			return -1
		}
		return n
	}
	word := func() []byte {
		b := make([]byte, max(number(), 0)+2)
		if _, err := io.ReadFull(r, b); err != nil {
			return nil
		}
		return b[:len(b)-2]
	}
	for number() > 0 {
		name, key := word(), word()
		if string(key) != redisKey {
			return
		}
		if string(name) == "SET" {
			value = word()
			fmt.Fprint(c, "+OK\r\n")
			continue
		}
		fmt.Fprintf(c, "$%d\r\n%s\r\n", len(value), value)
	}
}

// The client of redis speaks its protocol, and notices an answer that is no value.
func TestRealRedisClient(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fakeRedis(c)
		}
	}()
	r := &redis{addr: l.Addr().String()}
	if err := r.set(t.Context()); err != nil {
		t.Fatal(err)
	}
	one, err := newRedisReader(t.Context(), r.addr, 16)
	if err != nil {
		t.Fatal(err)
	}
	defer one.c.Close()
	if err := one.c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	// Each connection of the fake begins without a value.
	value := make([]byte, layout.ChunkSize)
	pattern(value)
	if _, err := one.c.Write(command("SET", redisKey, string(value))); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(one.c, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if n, err := one.step(time.Now()); n != 16 || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
	}
	if !bytes.Equal(one.answers[len(one.first):][:len(value)], value) {
		t.Error("wrong value")
	}
	if _, err := one.c.Write(command("SET", redisKey, strings.Repeat("x", layout.ChunkSize-1))); err != nil {
		t.Fatal(err)
	}
	if _, err := one.step(time.Now()); err == nil {
		t.Error("an answer that is no value of the right length passed")
	}
}

// TestRealPeers compares for a moment, where there is a redis-server.
func TestRealPeers(t *testing.T) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("no redis-server on this host: the comparison is not tested")
	}
	was := peerCells
	t.Cleanup(func() { peerCells = was })
	peerCells[1].connections = 16
	c := testConfig(t)
	c.Transports, c.Kinds, c.Batches, c.OneSided, c.Redis = []Transport{TCP}, []Kind{Raw}, []int{1}, -1, program
	res, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Peers) != 2 {
		t.Fatalf("%d comparisons", len(res.Peers))
	}
	for _, p := range res.Peers {
		if p.Ours.Reads < 1 || p.Theirs.Reads < 1 || p.Rate.Median <= 0 || p.P99.Median <= 0 || p.Rate.Least > p.Rate.Most {
			t.Errorf("%+v", p)
		}
	}
	var b bytes.Buffer
	if err := res.Write(&b); err != nil || !strings.Contains(b.String(), "redis") {
		t.Errorf("%v, %s", err, b.String())
	}
}

// TestPeerClaims: what is claimed holds on one side of each bound and not on the other.
func TestPeerClaims(t *testing.T) {
	of := func(x float64) Spread { return Spread{x, x, x} }
	peer := func(connections int, rate, p99, cpu float64) Peer {
		return Peer{Peer: "redis", Connections: connections, Depth: 64, Rate: of(rate), P99: of(p99), ServerCPU: new(of(cpu))}
	}
	good := peerClaims(&Result{Peers: []Peer{peer(1, 1.8, 9, 0.6), peer(512, 1.2, 1, 9)}})
	bad := peerClaims(&Result{Peers: []Peer{peer(1, 1.7, 0, 0.7), peer(512, 1.1, 1.1, 0)}})
	if len(good) != 4 || len(bad) != 4 {
		t.Fatalf("%d and %d claims", len(good), len(bad))
	}
	for i := range good {
		if !good[i].Holds || bad[i].Holds {
			t.Errorf("%+v, %+v", good[i], bad[i])
		}
	}
}
