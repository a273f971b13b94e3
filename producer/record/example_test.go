package record_test

import (
	"fmt"

	"github.com/rmatail/rmatail/producer/record"
)

// A consumer cuts what a reader.Reader delivers, in whatever pieces, and stores
// Record.End with the effect of each record.
func ExampleCutter() {
	var shard []byte // what producers have appended
	for _, r := range []string{"first", "second\nin two lines", "third"} {
		shard, _ = record.Delimited.Append(shard, []byte(r))
	}
	c := record.NewCutter(record.Delimited, 0, 0)
	for pos := 0; pos < len(shard); pos += 10 {
		for r, err := range c.Cut(uint64(pos), shard[pos:min(pos+10, len(shard))]) {
			if err != nil {
				fmt.Println(err) // a *record.Error: where, and what is wrong
				return
			}
			fmt.Printf("[%d, %d) %q\n", r.Position, r.End, r.Data)
		}
	}
	// Output:
	// [0, 10) "first"
	// [10, 34) "second\nin two lines"
	// [34, 44) "third"
}
