package reader_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
	"github.com/rmatail/rmatail/reader"
)

// feederEnv holds the feederConfig of a process that is to feed a node, not a test.
const feederEnv = "RMATAIL_TEST_FEEDER"

// feederConfig says what a feeder appends: to each shard of two streams so many bytes
// in each interval, until its standard input ends.
type feederConfig struct {
	Server string
	Shards int // of each stream
	Bytes  int
	Every  time.Duration
}

var feederStreams = []string{"many", "more"}

// beFeeder appends through the node, with a few connections.
func beFeeder(config string) error {
	var c feederConfig
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	const connections = 4
	failed := make(chan error, connections)
	var begun sync.WaitGroup
	begun.Add(connections)
	for k := range connections {
		go func() { failed <- c.feed(ctx, k, connections, begun.Done) }()
	}
	begun.Wait()
	fmt.Println("fed")
	for range connections {
		if err := <-failed; err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

func (c feederConfig) feed(ctx context.Context, k, of int, begun func()) error {
	client, err := wire.Dial(ctx, c.Server, wire.Options{Name: "test-feeder"})
	if err != nil {
		begun()
		return err
	}
	defer client.Close()
	remote := durable.NewRemote(client)
	ends := make([]uint64, c.Shards*len(feederStreams))
	p := make([]byte, c.Bytes)
	tick := time.NewTicker(c.Every)
	defer tick.Stop()
	for first := true; ; first = false {
		for i := k; i < len(ends); i += of {
			reader.Fill(p, ends[i])
			shard := fmt.Sprintf("%s/%d", feederStreams[i/c.Shards], i%c.Shards)
			if _, ends[i], err = remote.Append(ctx, shard, ends[i], p); err != nil {
				if first {
					begun()
				}
				return err
			}
		}
		if first {
			begun()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// startFeeder runs one until stop is called, which the end of the test does too.
func startFeeder(t *testing.T, c feederConfig) (stop func()) {
	config, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), feederEnv+"="+string(config))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		in.Close()
		cmd.Wait()
	})
	t.Cleanup(stop)
	said := make([]byte, 4)
	if _, err := io.ReadFull(out, said); err != nil || string(said) != "fed\n" {
		t.Fatalf("the feeder said %q, %v", said, err)
	}
	return stop
}

// manyReaders is how many Readers the test opens: RMATAIL_READERS, else 1,000. The
// promise is made for 10,000.
func manyReaders(t *testing.T) int {
	s := os.Getenv("RMATAIL_READERS")
	if s == "" {
		return 1000
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		t.Fatalf("RMATAIL_READERS=%s", s)
	}
	return n
}

// memoryOf returns what is in use of the heap and of stacks, and what the process has
// in memory.
func memoryOf(t *testing.T) (used, resident uint64) {
	t.Helper()
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, after, ok := strings.Cut(string(b), "\nVmRSS:")
	if !ok {
		t.Fatal("no VmRSS in /proc/self/status")
	}
	kb, err := strconv.ParseUint(strings.Fields(after)[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return m.HeapInuse + m.StackInuse, kb << 10
}

func processTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestRealManyReaders: many Readers of one process follow 240 shards of a node. They
// share one poller: one read a page and poll, however many they are. Each takes
// less than 64 KiB, its goroutine's stack included, and all of them little of a core.
func TestRealManyReaders(t *testing.T) {
	const (
		shards     = 120 // of each of two streams
		mostMemory = 64 << 10
		poll       = 100 * time.Millisecond
		measured   = 3 * time.Second
	)
	many := manyReaders(t)
	n := startNode(t, nodeConfig{Arena: 256 << 20})
	stop := startFeeder(t, feederConfig{Server: n.Listen, Shards: shards, Bytes: 1250, Every: poll})
	c, err := reader.Open(t.Context(), reader.Config{Server: n.Listen, Transport: reader.SHM, PollMin: poll, PollMax: poll})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	usedBefore, residentBefore := memoryOf(t)
	opened := time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	readers := make([]*reader.Reader, many)
	batches := make([]atomic.Uint64, many)
	var bytes atomic.Uint64
	for i := range readers {
		shard := fmt.Sprintf("%s/%d", feederStreams[i%2], i/2%shards)
		r, err := c.Reader(t.Context(), shard, reader.Latest())
		if err != nil {
			t.Fatal(err)
		}
		readers[i] = r
		all.Go(func() {
			defer r.Close()
			for pos := r.Position(); ; {
				b, err := r.Next(ctx)
				if err != nil {
					if ctx.Err() == nil {
						t.Errorf("reader %d of %s: %v", i, shard, err)
					}
					return
				}
				if b.Position != pos || b.Source != reader.FromSHM {
					t.Errorf("reader %d of %s: batch at %d from %v, want %d", i, shard, b.Position, b.Source, pos)
					return
				}
				pos += uint64(len(b.Data))
				batches[i].Add(1)
				bytes.Add(uint64(len(b.Data)))
			}
		})
	}
	took := time.Since(opened)
	eventually(t, time.Minute, "every Reader to have delivered twice", func() bool {
		for i := range batches {
			if batches[i].Load() < 2 {
				return false
			}
		}
		return true
	})
	used, resident := memoryOf(t)
	before, cpu, start, was := c.Stats(), processTime(t), time.Now(), bytes.Load()
	<-time.After(measured)
	after, share := c.Stats(), float64(processTime(t)-cpu)/float64(time.Since(start))
	delivered := bytes.Load() - was
	polls, pages := after.Polls-before.Polls, after.PageReads-before.PageReads
	each := (used - min(used, usedBefore)) / uint64(many)
	t.Logf("report: %d Readers of 240 shards in one process: %.2f page reads a page and poll, %.1f KiB a Reader (heap and stacks; resident %.1f KiB), %.2f cores for %.0f MB/s delivered, opened in %v",
		many, float64(pages)/2/float64(max(polls, 1)), float64(each)/1024, float64(resident-min(resident, residentBefore))/1024/float64(many), share,
		float64(delivered)/measured.Seconds()/1e6, took.Round(time.Millisecond))
	if polls == 0 || pages > 2*polls {
		t.Errorf("%d page reads in %d polls of 2 pages", pages, polls)
	}
	if each > mostMemory {
		t.Errorf("%d bytes a Reader, want at most %d", each, mostMemory)
	}
	if share > 1 && many <= 10_000 {
		t.Errorf("%.2f cores", share)
	}
	if delivered == 0 {
		t.Error("nothing was delivered")
	}
	stop()
	eventually(t, time.Minute, "every Reader to be at the end", func() bool {
		for _, r := range readers {
			if r.Lag() > 0 {
				return false
			}
		}
		return true
	})
}
