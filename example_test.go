package rmatail_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/producer"
	"github.com/rmatail/rmatail/reader"
)

// Example follows a shard. It is shown in README.md.
func Example() {
	follow := func(ctx context.Context, handle func(position uint64, data []byte) error) error {
		// README begins
		cluster, err := reader.Open(ctx, reader.Config{Server: "node1:7440"})
		if err != nil {
			return err
		}
		defer cluster.Close()
		r, err := cluster.Reader(ctx, "logs/0000", reader.Earliest())
		if err != nil {
			return err
		}
		defer r.Close()
		for {
			b, err := r.Next(ctx) // verified bytes, lent until the next call
			if err != nil {
				return err // io.EOF: sealed; *reader.GapError: out of retention, r.Seek goes on
			}
			if err := handle(b.Position, b.Data); err != nil {
				return err
			}
		}
		// README ends
	}
	_ = follow
	fmt.Println(reader.FromSHM)
	// Output: shm
}

// Example_append appends to a shard in a durable directory. It is shown in README.md.
func Example_append() {
	appendAll := func(ctx context.Context, dir string, records iter.Seq[[]byte]) (err error) {
		// README begins
		store, err := durable.Open(dir, durable.Options{})
		if err != nil {
			return err
		}
		defer store.Close()
		log, err := store.Log("logs/0000") // the shard's one writer
		if err != nil {
			return err
		}
		a, err := producer.Open(ctx, producer.Config{Shard: layout.Shard{Stream: "logs"}, Log: log})
		if err != nil {
			return errors.Join(err, log.Close())
		}
		for record := range records {
			ack, err := a.Append(ctx, record) // copied; waits while the queue is full
			if err != nil {
				return errors.Join(err, a.Close(ctx))
			}
			_ = ack // ack.Wait(ctx) returns the position once the record is durable
		}
		return errors.Join(a.Flush(ctx), a.Close(ctx)) // everything is durable, or an error says why
		// README ends
	}
	dir, err := os.MkdirTemp("", "rmatail")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	fmt.Println(appendAll(context.Background(), dir, slices.Values([][]byte{[]byte("one\n"), []byte("two\n")})))
	// Output: <nil>
}

// TestReadmeShowsTheExamples keeps the README's code the code that is compiled here.
func TestReadmeShowsTheExamples(t *testing.T) {
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(source), "\t\t// README begins\n")[1:]
	if len(parts) != 2 {
		t.Fatalf("%d examples for README.md in example_test.go", len(parts))
	}
	for _, part := range parts {
		code, _, ok := strings.Cut(part, "\t\t// README ends\n")
		if !ok {
			t.Fatal("no end mark in example_test.go")
		}
		var want strings.Builder
		for l := range strings.Lines(code) {
			want.WriteString(strings.TrimPrefix(l, "\t\t"))
		}
		if !strings.Contains(string(readme), want.String()) {
			t.Errorf("README.md does not hold:\n%s", want.String())
		}
	}
}
