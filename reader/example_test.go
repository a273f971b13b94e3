package reader_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rmatail/rmatail/chunkstore"
	"github.com/rmatail/rmatail/chunkstore/cluster/file"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/chunkstore/server"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/producer"
	"github.com/rmatail/rmatail/producer/record"
	"github.com/rmatail/rmatail/reader"
)

// site is a node with the shard logs/0000, for the examples.
type site struct {
	dir, addr string
	node      *server.Server
	ended     chan error
}

// open starts a node on a free port over a directory whose shard logs/0000 holds lines.
func open(lines ...string) *site {
	dir, err := os.MkdirTemp("", "rmatail")
	must(err)
	fill(dir, lines...)
	s := &site{dir: dir, ended: make(chan error, 1)}
	s.node, err = server.New(server.Config{
		Listen: "127.0.0.1:0", Dir: dir, Socket: filepath.Join(dir, "arena.sock"),
		Arena: chunkstore.Config{Bytes: 8 << 20}, RDMAMode: server.RDMAOff, Logger: slog.New(slog.DiscardHandler),
	})
	must(err)
	s.addr = s.node.Addr().String()
	go func() { s.ended <- s.node.Serve(context.Background()) }()
	return s
}

func (s *site) close() {
	must(s.node.Shutdown(context.Background()))
	if err := <-s.ended; !errors.Is(err, server.ErrClosed) {
		must(err)
	}
	must(os.RemoveAll(s.dir))
}

// fill writes the shard, and seals it, so that its readers end.
func fill(dir string, lines ...string) {
	ctx := context.Background()
	store, err := durable.Open(dir, durable.Options{})
	must(err)
	defer store.Close()
	log, err := store.Log("logs/0000")
	must(err)
	a, err := producer.Open(ctx, producer.Config{Shard: layout.Shard{Stream: "logs"}, Log: log})
	must(err)
	for _, l := range lines {
		_, err := a.Append(ctx, []byte(l+"\n"))
		must(err)
	}
	must(a.Seal(ctx))
	must(a.Close(ctx))
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// A Reader ends with io.EOF when its shard is sealed. Without an end it would wait for more.
func ExampleReader_Next() {
	s := open("one", "two", "three")
	defer s.close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()

	cluster, err := reader.Open(ctx, reader.Config{Server: s.addr})
	must(err)
	defer cluster.Close()
	r, err := cluster.Reader(ctx, "logs/0000", reader.Earliest())
	must(err)
	defer r.Close()
	var got strings.Builder
	for {
		b, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		must(err)
		got.Write(b.Data) // b.Data dies with the next call
	}
	fmt.Print(got.String())
	// Output:
	// one
	// two
	// three
}

// A consumer that stores its position with the effect of the bytes goes on where it was. It cuts records from batches, whose
// borders mean nothing.
func ExampleAt() {
	s := open("one", "two", "three")
	defer s.close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cluster, err := reader.Open(ctx, reader.Config{Server: s.addr})
	must(err)
	defer cluster.Close()

	position := uint64(4) // as stored by the consumer of before: it has handled "one"
	r, err := cluster.Reader(ctx, "logs/0000", reader.At(position))
	must(err)
	defer r.Close()
	cutter := record.NewCutter(record.Lines, position, 0)
	for {
		b, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		must(err)
		for rec, err := range cutter.Cut(b.Position, b.Data) {
			must(err)
			fmt.Printf("%s, next at %d\n", rec.Data, rec.End) // what is to be stored with the effect of rec
		}
	}
	// Output:
	// two, next at 8
	// three, next at 14
}

// A Reader is an io.Reader, and an io.WriterTo, which copies nothing on the way.
func ExampleReader_WriteTo() {
	s := open("one", "two")
	defer s.close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cluster, err := reader.Open(ctx, reader.Config{Server: s.addr})
	must(err)
	defer cluster.Close()
	r, err := cluster.Reader(ctx, "logs/0000", reader.Last(4))
	must(err)
	defer r.Close()
	n, err := r.WriteTo(os.Stdout)
	must(err)
	fmt.Println(n, "bytes")
	// Output:
	// two
	// 4 bytes
}

// Config.Cluster follows a file that describes several nodes, also while it changes.
func ExampleOpen_cluster() {
	s := open("one")
	defer s.close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	path := filepath.Join(s.dir, "cluster.yaml")
	must(os.WriteFile(path, []byte("nodes: [{name: cache1, addr: '"+s.addr+"', dir: '"+s.dir+"'}]\nstore: {node: cache1}\n"), 0o600))

	source, err := file.Open(path, file.Options{})
	must(err)
	defer source.Close()
	cluster, err := reader.Open(ctx, reader.Config{Cluster: source})
	must(err)
	defer cluster.Close()
	r, err := cluster.Reader(ctx, "logs/0000", reader.Earliest())
	must(err)
	defer r.Close()
	b, err := r.Next(ctx)
	must(err)
	fmt.Printf("%d %s", b.Position, b.Data)
	// Output: 0 one
}
