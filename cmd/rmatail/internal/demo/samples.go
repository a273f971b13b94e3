package demo

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"time"
)

// A sample is 16 bytes, little-endian: the position behind an append, u64, and
// the time before it in nanoseconds of the host's monotonic clock, u64. It is
// written, by one write, before the append begins: whoever has been handed bytes
// of the append finds its sample whole.
const sampleBytes = 16

// sampler writes samples.
type sampler struct {
	f   *os.File
	off int64
}

func newSampler(path string) (*sampler, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &sampler{f: f}, nil
}

func (s *sampler) add(end uint64, at time.Duration) error {
	var b [sampleBytes]byte
	binary.LittleEndian.PutUint64(b[0:], end)
	binary.LittleEndian.PutUint64(b[8:], uint64(at))
	_, err := s.f.WriteAt(b[:], s.off)
	s.off += sampleBytes
	return err
}

func (s *sampler) close() error { return s.f.Close() }

// sampleReader reads samples in order.
type sampleReader struct {
	f    *os.File
	off  int64
	buf  [64 * sampleBytes]byte
	held []byte
}

func openSamples(path string) (*sampleReader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return &sampleReader{f: f}, nil
}

// until calls do with the time of each sample that ends at end or before and was
// not read yet.
func (r *sampleReader) until(end uint64, do func(at time.Duration)) error {
	for {
		if len(r.held) < sampleBytes {
			n, err := r.f.ReadAt(r.buf[:], r.off)
			if err != nil && err != io.EOF {
				return fmt.Errorf("samples: %w", err)
			}
			if r.held = r.buf[:n-n%sampleBytes]; len(r.held) == 0 {
				return nil
			}
		}
		if binary.LittleEndian.Uint64(r.held) > end {
			return nil
		}
		do(time.Duration(binary.LittleEndian.Uint64(r.held[8:])))
		r.held = r.held[sampleBytes:]
		r.off += sampleBytes
	}
}

func (r *sampleReader) close() error { return r.f.Close() }
