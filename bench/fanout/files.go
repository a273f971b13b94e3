package fanout

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
)

func fileName(stream string, shard int) string { return stream + "-" + strconv.Itoa(shard) }

// files is a producer that appends to a file for each shard.
type files struct{ all []*os.File }

func newFiles(s spec) (*files, error) {
	f := &files{}
	for i := range s.Shards {
		file, err := os.OpenFile(filepath.Join(s.Dir, fileName(s.Stream, i)), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o644)
		if err != nil {
			return nil, errors.Join(err, f.close())
		}
		f.all = append(f.all, file)
	}
	return f, nil
}

func (f *files) send(_ context.Context, shard int, b []byte) error {
	_, err := f.all[shard].Write(b)
	return err
}

func (f *files) close() error {
	var errs []error
	for _, file := range f.all {
		errs = append(errs, file.Close(), os.Remove(file.Name()))
	}
	return errors.Join(errs...)
}

// preads are consumers that poll the files themselves.
type preads struct {
	s        spec
	all      []*os.File
	requests atomic.Uint64
	moved    atomic.Uint64
}

func newPreads(s spec) (*preads, error) {
	p := &preads{s: s}
	for i := range s.Shards {
		file, err := os.Open(filepath.Join(s.Dir, fileName(s.Stream, i)))
		if err != nil {
			return nil, errors.Join(err, p.close())
		}
		p.all = append(p.all, file)
	}
	return p, nil
}

func (p *preads) follow(ctx context.Context, _ int, s *sink) error {
	at := make([]int64, len(p.all))
	buffer := make([]byte, bufferBytes)
	for {
		for i, file := range p.all {
			for {
				n, err := file.ReadAt(buffer, at[i])
				p.requests.Add(1)
				p.moved.Add(uint64(n))
				if n > 0 {
					at[i] += int64(n)
					if err := s.take(i, buffer[:n]); err != nil {
						return err
					}
				}
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					return err
				}
			}
		}
		if pause(ctx, p.s.Poll) != nil {
			return nil
		}
	}
}

func (p *preads) traffic() traffic {
	return traffic{Moved: p.moved.Load(), Requests: p.requests.Load()}
}

func (p *preads) close() error {
	var errs []error
	for _, file := range p.all {
		errs = append(errs, file.Close())
	}
	return errors.Join(errs...)
}
