package read

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// A request of the plain server: offset u64, length u32, zero u32, little-endian.
// The answer is the bytes.
const (
	floorRequest = 16
	floorBuffer  = 256 << 10 // of bytes to write: 64 chunks
)

// ServeFloor is the floor of tcp, in a process of its own: a plain pipelined
// server that answers with bytes of a buffer of size bytes. It prints its address
// on out, and ends with in or ctx.
func ServeFloor(ctx context.Context, size int, in io.Reader, out io.Writer) error {
	if size < layout.ChunkSize || size > 16<<30 {
		return fmt.Errorf("%w: floor of %d bytes", ErrConfig, size)
	}
	mem := make([]byte, size)
	pattern(mem)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with the process: nothing interrupts a read of standard input
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	if _, err := fmt.Fprintln(out, ln.Addr()); err != nil {
		return errors.Join(err, ln.Close())
	}
	var running sync.WaitGroup
	running.Go(func() {
		<-ctx.Done()
		ln.Close()
	})
	for {
		c, err := ln.Accept()
		if err != nil {
			cancel()
			running.Wait()
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			return err
		}
		running.Go(func() {
			stop := context.AfterFunc(ctx, func() { c.Close() })
			defer stop()
			defer c.Close()
			answer(c, mem)
		})
	}
}

// answer answers until the connection ends. It writes when no whole request is
// left to answer, or the buffer is full.
func answer(c net.Conn, mem []byte) {
	r, w := bufio.NewReaderSize(c, 64<<10), bufio.NewWriterSize(c, floorBuffer)
	var req [floorRequest]byte
	for {
		if _, err := io.ReadFull(r, req[:]); err != nil {
			return
		}
		at, n := binary.LittleEndian.Uint64(req[:]), uint64(binary.LittleEndian.Uint32(req[8:]))
		if at > uint64(len(mem)) || n > uint64(len(mem))-at {
			return
		}
		if _, err := w.Write(mem[at : at+n]); err != nil {
			return
		}
		if r.Buffered() < floorRequest && w.Flush() != nil {
			return
		}
	}
}

// tcpFloor asks the plain server: the requests of a batch in one write, their
// answers in one read.
type tcpFloor struct {
	c        net.Conn
	n        int // bytes of a read
	count    int // of places
	batch    int
	inFlight int
	flying   int
	k        int
	requests []byte
	answers  []byte
}

func newTCPFloor(ctx context.Context, addr string, l cell, inFlight, count int) (*tcpFloor, error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	f := &tcpFloor{c: c, n: l.kind.bytes(), count: count, batch: l.batch, inFlight: inFlight}
	if l.kind == Backlog {
		f.batch = 4 * layout.ChunksPerExtent
	}
	f.requests, f.answers = make([]byte, f.batch*floorRequest), make([]byte, f.batch*f.n)
	return f, nil
}

func (f *tcpFloor) step(time.Time) (int, error) {
	for f.flying < f.inFlight {
		for i := range f.batch {
			req := f.requests[i*floorRequest:][:floorRequest]
			binary.LittleEndian.PutUint64(req, uint64(f.k*layout.ChunkSize))
			binary.LittleEndian.PutUint32(req[8:], uint32(f.n))
			if f.k++; f.k == f.count {
				f.k = 0
			}
		}
		if _, err := f.c.Write(f.requests); err != nil {
			return 0, err
		}
		f.flying++
	}
	f.flying--
	_, err := io.ReadFull(f.c, f.answers)
	return f.batch, err
}

func (f *tcpFloor) rewind(time.Time) error { return nil }

func (f *tcpFloor) drain() error {
	for ; f.flying > 0; f.flying-- {
		if _, err := io.ReadFull(f.c, f.answers); err != nil {
			return err
		}
	}
	return nil
}

// pattern fills memory with bytes that are not all the same.
func pattern(mem []byte) {
	x := uint32(1)
	for i := range mem {
		x = x*1664525 + 1013904223
		mem[i] = byte(x >> 24)
	}
}
