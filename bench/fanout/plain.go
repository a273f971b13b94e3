package fanout

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// The plain server is the floor of tcp: a log of each shard in memory, and
// consumers that are answered when there is something behind their position, by one
// vectored write of the log's own bytes. One goroutine reads a connection and one
// writes it.
//
//	request, 16 B       kind 1 B (0: append, 1: follow), 3 B zero, shard 4 B, n 8 B
//	                    append: n bytes come behind; there is no answer
//	                    follow: answered once when the shard is longer than n
//	answer, 16 B        shard 4 B, bytes 4 B, position 8 B, and the bytes behind
const (
	plainHead   = 16
	plainAppend = 0
	plainFollow = 1
	// plainMost is the most in one answer.
	plainMost = 1 << 20
	// plainKept is what is kept of a shard.
	plainKept = 256 << 20
)

// plainServer is one stream: each cell has a server of its own.
type plainServer struct {
	mu struct {
		sync.Mutex
		shards map[uint32]*plainLog
	}
}

// plainLog is a shard: what was appended, in blocks that never change.
type plainLog struct {
	first, end uint64 // positions of the first kept byte and behind the last
	blocks     [][]byte
	starts     []uint64
	waiting    []plainWait
}

type plainWait struct {
	c     *plainConn
	shard uint32
	at    uint64
}

// plainConn is a connection, and what is to be written to it.
type plainConn struct {
	net.Conn
	news chan struct{}
	mu   struct {
		sync.Mutex
		ready []plainWait
	}
}

// servePlain listens until in ends.
func servePlain(ctx context.Context, in *bufio.Reader, out io.Writer) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := &plainServer{}
	s.mu.shards = map[uint32]*plainLog{}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { s.serve(ctx, conn) })
		}
	})
	err = say(out, up{Ready: true, Addr: l.Addr().String()})
	if err == nil {
		_, err = io.Copy(io.Discard, in)
	}
	cancel()
	l.Close()
	running.Wait()
	return err
}

func (s *plainServer) serve(ctx context.Context, conn net.Conn) {
	c := &plainConn{Conn: conn, news: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(ctx)
	var writing sync.WaitGroup
	stop := context.AfterFunc(ctx, func() { c.Close() })
	writing.Go(func() {
		defer cancel()
		s.write(ctx, c)
	})
	_ = s.read(c) // the end of the consumer, or of the server
	cancel()
	writing.Wait()
	stop()
	c.Close()
	s.forget(c)
}

func (s *plainServer) log(shard uint32) *plainLog {
	l := s.mu.shards[shard]
	if l == nil {
		l = &plainLog{}
		s.mu.shards[shard] = l
	}
	return l
}

func (s *plainServer) read(c *plainConn) error {
	in := bufio.NewReaderSize(c, 4096)
	var head [plainHead]byte
	for {
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return err
		}
		shard, n := binary.LittleEndian.Uint32(head[4:]), binary.LittleEndian.Uint64(head[8:])
		switch head[0] {
		case plainAppend:
			if n > plainMost {
				return fmt.Errorf("%w: %d bytes at once", errPeer, n)
			}
			block := make([]byte, n)
			if _, err := io.ReadFull(in, block); err != nil {
				return err
			}
			s.append(shard, block)
		case plainFollow:
			s.follow(plainWait{c, shard, n})
		}
	}
}

func (s *plainServer) append(shard uint32, block []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.log(shard)
	l.blocks, l.starts = append(l.blocks, block), append(l.starts, l.end)
	l.end += uint64(len(block))
	for l.end-l.first > plainKept {
		l.first += uint64(len(l.blocks[0]))
		l.blocks, l.starts = l.blocks[1:], l.starts[1:]
	}
	for _, w := range l.waiting {
		w.c.add(w)
	}
	l.waiting = l.waiting[:0]
}

func (s *plainServer) follow(w plainWait) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.log(w.shard)
	if l.end > w.at {
		w.c.add(w)
		return
	}
	l.waiting = append(l.waiting, w)
}

func (s *plainServer) forget(c *plainConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.mu.shards {
		kept := l.waiting[:0]
		for _, w := range l.waiting {
			if w.c != c {
				kept = append(kept, w)
			}
		}
		l.waiting = kept
	}
}

func (c *plainConn) add(w plainWait) {
	c.mu.Lock()
	c.mu.ready = append(c.mu.ready, w)
	c.mu.Unlock()
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// write answers what is ready until ctx ends.
func (s *plainServer) write(ctx context.Context, c *plainConn) {
	var ready []plainWait
	var heads []byte
	var buffers net.Buffers
	for {
		select {
		case <-c.news:
		case <-ctx.Done():
			return
		}
		c.mu.Lock()
		ready, c.mu.ready = c.mu.ready, ready[:0]
		c.mu.Unlock()
		heads, buffers = heads[:0], buffers[:0]
		if cap(heads) < len(ready)*plainHead { // buffers point into it
			heads = make([]byte, 0, 2*len(ready)*plainHead)
		}
		s.mu.Lock()
		for _, w := range ready {
			l := s.log(w.shard)
			if w.at < l.first {
				s.mu.Unlock()
				return // it is too far behind
			}
			at := len(heads)
			heads = heads[:at+plainHead]
			buffers = append(buffers, heads[at:])
			n := 0
			buffers, n = l.from(buffers, w.at)
			binary.LittleEndian.PutUint32(heads[at:], w.shard)
			binary.LittleEndian.PutUint32(heads[at+4:], uint32(n))
			binary.LittleEndian.PutUint64(heads[at+8:], w.at)
		}
		s.mu.Unlock()
		all := buffers // WriteTo consumes it
		if _, err := all.WriteTo(c.Conn); err != nil {
			return
		}
		clear(buffers)
	}
}

// from adds the bytes from a position on, plainMost at most.
func (l *plainLog) from(to net.Buffers, at uint64) (net.Buffers, int) {
	i, j := 0, len(l.starts)
	for i < j-1 { // the last block that begins at or before the position
		if m := (i + j) / 2; l.starts[m] <= at {
			i = m
		} else {
			j = m
		}
	}
	n := 0
	for ; i < len(l.blocks) && n < plainMost; i++ {
		b := l.blocks[i]
		if l.starts[i] < at {
			b = b[at-l.starts[i]:]
		}
		b = b[:min(len(b), plainMost-n)]
		to, n = append(to, b), n+len(b)
	}
	return to, n
}

// plainSender appends to the plain server.
type plainSender struct{ c *counted }

func newPlainSender(ctx context.Context, s spec) (*plainSender, error) {
	c, err := dial(ctx, s.Addr, new(meter))
	return &plainSender{c}, err
}

func (p *plainSender) send(_ context.Context, shard int, b []byte) error {
	p.c.out.Write(plainRequest(plainAppend, shard, uint64(len(b))))
	p.c.out.Write(b)
	return p.c.out.Flush()
}

func (p *plainSender) close() error { return p.c.Close() }

func plainRequest(kind byte, shard int, n uint64) []byte {
	b := make([]byte, plainHead)
	b[0] = kind
	binary.LittleEndian.PutUint32(b[4:], uint32(shard))
	binary.LittleEndian.PutUint64(b[8:], n)
	return b
}

// followPlain has one question for each shard at the server.
func followPlain(c *counted, s spec, to *sink) error {
	for i := range s.Shards {
		c.out.Write(plainRequest(plainFollow, i, 0))
	}
	if err := c.ask(s.Shards); err != nil {
		return err
	}
	buffer := make([]byte, bufferBytes)
	var head [plainHead]byte
	for {
		if _, err := io.ReadFull(c.in, head[:]); err != nil {
			return err
		}
		shard, n, at := binary.LittleEndian.Uint32(head[:]), int(binary.LittleEndian.Uint32(head[4:])), binary.LittleEndian.Uint64(head[8:])
		if int(shard) >= s.Shards {
			return fmt.Errorf("%w: shard %d", errPeer, shard)
		}
		end := at + uint64(n)
		for n > 0 {
			k, err := c.in.Read(buffer[:min(n, len(buffer))])
			if err != nil {
				return errors.Join(err, io.ErrUnexpectedEOF)
			}
			n -= k
			if err := to.take(int(shard), buffer[:k]); err != nil {
				return err
			}
		}
		c.out.Write(plainRequest(plainFollow, int(shard), end))
		if err := c.ask(1); err != nil {
			return err
		}
	}
}
