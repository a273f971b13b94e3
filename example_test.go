package rmatail_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

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

// TestReadmeShowsTheExample keeps the README's code the code that is compiled here.
func TestReadmeShowsTheExample(t *testing.T) {
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(source), "// README begins\n")
	code, _, ok := strings.Cut(code, "\t\t// README ends\n")
	if !ok {
		t.Fatal("no marks in example_test.go")
	}
	var want strings.Builder
	for l := range strings.Lines(code) {
		want.WriteString(strings.TrimPrefix(l, "\t\t"))
	}
	if !strings.Contains(string(readme), want.String()) {
		t.Errorf("README.md does not hold:\n%s", want.String())
	}
}
