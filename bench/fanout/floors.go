package fanout

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// Floor is what the machine needs for a chunk of 4 KiB, by itself.
type Floor struct {
	What   string  `json:"what"`
	Micros float64 `json:"usec"` // median of the rounds
	Least  float64 `json:"least_usec"`
	Most   float64 `json:"most_usec"`
}

const (
	// floorBytesAll is walked through: more than the caches near the processor hold.
	floorBytesAll = 64 << 20
	floorTime     = 100 * time.Millisecond
)

// floors copies and checks chunks of a shared mapping of a file, and reads those of
// a cached file.
func floors(ctx context.Context, c Config) (all []Floor, err error) {
	dir, err := os.MkdirTemp(c.Dir, "rf")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file, err := os.Create(filepath.Join(dir, "floor"))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	block := make([]byte, 1<<20)
	for i := range block {
		block[i] = byte(i * 7)
	}
	for range floorBytesAll / len(block) {
		if _, err := file.Write(block); err != nil {
			return nil, err
		}
	}
	mem, unmap, err := mapFile(file, floorBytesAll)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unmap()) }()
	chunk := make([]byte, layout.ChunkSize)
	crc := uint32(0)
	for _, f := range []struct {
		what string
		read func(at int) error
	}{
		{"copy and CRC32C of 4 KiB of a shared mapping", func(at int) error {
			copy(chunk, mem[at:])
			crc = layout.ExtendCRC(crc, chunk)
			return nil
		}},
		{"pread of 4 KiB of a cached file", func(at int) error {
			_, err := file.ReadAt(chunk, int64(at))
			return err
		}},
	} {
		var times []float64
		for range c.Rounds {
			n, began := 0, time.Now()
			for took := time.Duration(0); took < floorTime; took = time.Since(began) {
				for range 256 {
					if err := f.read(n * layout.ChunkSize % floorBytesAll); err != nil {
						return nil, fmt.Errorf("floor: %s: %w", f.what, err)
					}
					n++
				}
			}
			times = append(times, milliseconds(time.Since(began))*1e3/float64(n))
			if err := ctx.Err(); err != nil {
				return nil, err
			}
		}
		m := median(times) // sorts
		all = append(all, Floor{f.what, m, times[0], times[len(times)-1]})
	}
	return all, nil
}
