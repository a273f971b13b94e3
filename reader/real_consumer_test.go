package reader_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/rmatail/rmatail/fallback/wire"
	"github.com/rmatail/rmatail/rdma"
	"github.com/rmatail/rmatail/reader"
)

// consumerEnv holds the consumerConfig of a process that is to follow a shard, not to
// test.
const consumerEnv = "RMATAIL_TEST_CONSUMER"

type consumerConfig struct {
	Server, Shard, Device string
	Transport             reader.Transport
}

// beConsumer follows a shard until it is killed. It says so when it has got bytes over
// its transport.
func beConsumer(config string) error {
	var c consumerConfig
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		return err
	}
	r := rdma.DefaultConfig()
	r.Device = c.Device
	cluster, err := reader.Open(context.Background(), reader.Config{Server: c.Server, Transport: c.Transport, RDMA: r, ReadTimeout: time.Second})
	if err != nil {
		return err
	}
	defer cluster.Close()
	rd, err := cluster.Reader(context.Background(), c.Shard, reader.Earliest())
	if err != nil {
		return err
	}
	defer rd.Close()
	for said := false; ; {
		b, err := rd.Next(context.Background())
		if err != nil {
			return err
		}
		if i := reader.WrongAt(b.Data, b.Position); i >= 0 {
			return fmt.Errorf("wrong byte at %d from %v", b.Position+uint64(i), b.Source)
		}
		if !said && b.Source.String() == c.Transport.String() {
			said = true
			fmt.Println("reading")
		}
	}
}

// startConsumer returns a consumer that reads, in a process of its own.
func startConsumer(t *testing.T, c consumerConfig) (kill func()) {
	t.Helper()
	config, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), consumerEnv+"="+string(config))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = func() { cmd.Process.Kill(); cmd.Wait() }
	timer := time.AfterFunc(30*time.Second, func() { cmd.Process.Kill() })
	defer timer.Stop()
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "reading\n" {
		kill()
		t.Fatalf("a consumer said %q, %v", line, err)
	}
	go io.Copy(io.Discard, out)
	return kill
}

// killedConsumers kills the other consumers of a shard while they read, and starts
// them again, over and over. Each new one is served as the first one was; the Reader that
// stays gets every byte soon and from memory; nothing of the dead is left in the node.
func killedConsumers(t *testing.T, n *node, cfg reader.Config) {
	const rounds, crowd = 5, 3
	w := &writer{t: t, shard: "consumers/0"}
	w.append(n, 1000)
	cfg.Server = n.Listen
	c, r := w.open(cfg, reader.Earliest())
	w.read(r, 20*time.Second)
	var slowest time.Duration
	read := func(bytes int) {
		t.Helper()
		w.append(n, bytes)
		start, missing := time.Now(), int(w.pos-r.Position())
		if by := w.read(r, 20*time.Second); by[cfg.Transport.String()] != missing {
			t.Errorf("by source: %v, want %d by %v; retries %v", by, missing, cfg.Transport, c.Stats().Retries)
		}
		slowest = max(slowest, time.Since(start))
	}
	for range rounds {
		var kill []func()
		for range crowd {
			kill = append(kill, startConsumer(t, consumerConfig{n.Listen, w.shard, cfg.RDMA.Device, cfg.Transport}))
		}
		read(400_000)
		for _, k := range kill {
			w.append(n, 100_000) // of which it is told, or reads, as it dies
			k()
			read(50_000)
		}
	}
	if slowest > 2*time.Second {
		t.Errorf("a delivery took %v", slowest)
	}
	if s := c.Stats(); s.Connects[cfg.Transport.String()] != 1 {
		t.Errorf("the Reader that stayed was connected %d times", s.Connects[cfg.Transport.String()])
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	client, err := wire.Dial(ctx, n.Listen, wire.Options{Name: "test-stat"})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var left struct {
		Connections int `json:"connections"`
		QueuePairs  int `json:"queue_pairs"`
	}
	eventually(t, 10*time.Second, "the node to let go of the dead", func() bool {
		b, err := client.Call(ctx, wire.OpNodeStat, nil, nil)
		if err != nil || json.Unmarshal(b, &left) != nil {
			t.Fatalf("stat: %s, %v", b, err)
		}
		return left.Connections == 2 && left.QueuePairs <= 1
	})
	t.Logf("report: %d consumers were killed; the one that stayed waited at most %v; %+v are left", rounds*crowd, slowest.Round(time.Millisecond), left)
}

func TestRealKilledConsumers(t *testing.T) {
	for _, transport := range []reader.Transport{reader.SHM, reader.TCP} {
		t.Run(transport.String(), func(t *testing.T) {
			killedConsumers(t, startNode(t, nodeConfig{Arena: largeArena}), reader.Config{Transport: transport})
		})
	}
}

// TestRealLatestIsKept: a Reader begins at the end of a shard, and before anything comes
// the node is killed and comes back empty. The first byte that is appended then is the
// first one that it gets.
func TestRealLatestIsKept(t *testing.T) {
	for _, transport := range []reader.Transport{reader.SHM, reader.TCP} {
		t.Run(transport.String(), func(t *testing.T) {
			n := startNode(t, nodeConfig{Arena: largeArena})
			w := &writer{t: t, shard: "latest/0"}
			w.append(n, 10_000)
			c, r := w.open(reader.Config{Server: n.Listen, Transport: transport}, reader.Latest())
			for range 3 {
				n.kill()
				n.start()
				begin := w.pos
				w.append(n, 1, 5000)
				if r.Position() != begin {
					t.Fatalf("the Reader is at %d, want %d", r.Position(), begin)
				}
				w.read(r, 20*time.Second)
			}
			eventually(t, 10*time.Second, transport.String()+" to be back", func() bool { return c.Stats().Transport == transport.String() })
		})
	}
}
