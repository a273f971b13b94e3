package fanout

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"strconv"
	"time"
)

// RESP2: https://redis.io/docs/latest/develop/reference/protocol-spec/

// command writes a command's head; its n arguments follow by arg.
func command(w *bufio.Writer, n int) {
	w.WriteByte('*')
	w.WriteString(strconv.Itoa(n))
	w.WriteString("\r\n")
}

func arg(w *bufio.Writer, b []byte) {
	w.WriteByte('$')
	w.WriteString(strconv.Itoa(len(b)))
	w.WriteString("\r\n")
	w.Write(b)
	w.WriteString("\r\n")
}

func args(w *bufio.Writer, all ...string) {
	for _, a := range all {
		arg(w, []byte(a))
	}
}

// header reads the line that begins a reply: its type and its number. A simple
// string has none.
func header(r *bufio.Reader) (kind byte, n int, err error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return 0, 0, err
	}
	line = bytes.TrimRight(line, "\r\n")
	if len(line) == 0 {
		return 0, 0, fmt.Errorf("%w: empty line", errPeer)
	}
	switch line[0] {
	case '+':
		return '+', 0, nil
	case '-':
		return '-', 0, fmt.Errorf("%w: %s", errPeer, line)
	}
	n, err = strconv.Atoi(string(line[1:]))
	if err != nil {
		return 0, 0, fmt.Errorf("%w: %q", errPeer, line)
	}
	return line[0], n, nil
}

// bulk lends the next string, nil if there is none, until the next read.
func bulk(r *bufio.Reader) ([]byte, error) {
	kind, n, err := header(r)
	switch {
	case err != nil:
		return nil, err
	case kind != '$' || n > bufferBytes-2:
		return nil, fmt.Errorf("%w: %c%d, want a string", errPeer, kind, n)
	case n < 0:
		return nil, nil
	}
	b, err := r.Peek(n + 2)
	if err != nil {
		return nil, err
	}
	_, err = r.Discard(n + 2)
	return b[:n], err
}

// array reads the head of an array; negative: there is none.
func array(r *bufio.Reader) (int, error) {
	kind, n, err := header(r)
	if err == nil && kind != '*' {
		err = fmt.Errorf("%w: %c%d, want an array", errPeer, kind, n)
	}
	return n, err
}

// skip reads a whole reply.
func skip(r *bufio.Reader) error {
	kind, n, err := header(r)
	switch {
	case err != nil || n < 0 && kind != ':':
		return err
	case kind == '$':
		_, err = r.Discard(n + 2)
	case kind == '*':
		for ; n > 0 && err == nil; n-- {
			err = skip(r)
		}
	}
	return err
}

// redisSender writes entries of streams, or whole records under a key each and how
// many there are under another one.
type redisSender struct {
	s       spec
	c       *counted
	acks    *acks
	names   []string
	numbers []int
}

func newRedisSender(ctx context.Context, s spec) (*redisSender, error) {
	c, err := dial(ctx, s.Addr, new(meter))
	if err != nil {
		return nil, err
	}
	r := &redisSender{s: s, c: c, numbers: make([]int, s.Shards)}
	for i := range s.Shards {
		r.names = append(r.names, redisKey(s.Stream, i))
	}
	r.acks = newAcks(func() error { return skip(c.in) })
	return r, nil
}

func redisKey(stream string, shard int) string { return stream + "." + strconv.Itoa(shard) }

func (r *redisSender) send(ctx context.Context, shard int, b []byte) error {
	w, size, name := r.c.out, r.s.Workload.record(), r.names[shard]
	for ; len(b) > 0; b = b[size:] {
		if r.c.out.Available() < size+256 || len(r.acks.room) == acksMost {
			if err := w.Flush(); err != nil {
				return err
			}
		}
		if err := r.acks.add(ctx); err != nil {
			return err
		}
		if r.s.Program == RedisStreams {
			command(w, 5)
			args(w, "XADD", name, "*", "d")
			arg(w, b[:size])
			continue
		}
		command(w, 5)
		args(w, "MSET", name+":"+strconv.Itoa(r.numbers[shard]))
		arg(w, b[:size])
		r.numbers[shard]++
		args(w, name, strconv.Itoa(r.numbers[shard]))
	}
	return w.Flush()
}

func (r *redisSender) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), settleTime)
	defer cancel()
	err := pollUntil(ctx, r.acks.settled)
	r.c.Close()
	r.acks.reading.Wait()
	return err
}

// followRedisStreams waits for entries of all shards with XREAD BLOCK, or polls.
func followRedisStreams(c *counted, s spec, to *sink) error {
	last := make([][]byte, s.Shards)
	index := map[string]int{}
	for i := range last {
		last[i] = []byte("0")
		index[redisKey(s.Stream, i)] = i
	}
	for {
		if s.Poll > 0 {
			time.Sleep(s.Poll)
			command(c.out, 4+2*s.Shards)
			args(c.out, "XREAD", "COUNT", "10000", "STREAMS")
		} else {
			command(c.out, 6+2*s.Shards)
			args(c.out, "XREAD", "COUNT", "10000", "BLOCK", "1000", "STREAMS")
		}
		for i := range last {
			args(c.out, redisKey(s.Stream, i))
		}
		for _, id := range last {
			arg(c.out, id)
		}
		if err := c.ask(1); err != nil {
			return err
		}
		n, err := array(c.in)
		for ; n > 0 && err == nil; n-- {
			err = redisEntries(c.in, index, last, to)
		}
		if err != nil {
			return err
		}
	}
}

// redisEntries reads one stream's part of an answer: its key and [id, [field,
// value]] each.
func redisEntries(r *bufio.Reader, index map[string]int, last [][]byte, to *sink) error {
	if _, err := array(r); err != nil {
		return err
	}
	key, err := bulk(r)
	if err != nil {
		return err
	}
	shard := index[string(key)]
	n, err := array(r)
	for ; n > 0 && err == nil; n-- {
		if _, err = array(r); err != nil {
			return err
		}
		id, err := bulk(r)
		if err != nil {
			return err
		}
		last[shard] = append(last[shard][:0], id...)
		if _, err = array(r); err != nil {
			return err
		}
		if _, err = bulk(r); err != nil { // the field
			return err
		}
		value, err := bulk(r)
		if err != nil {
			return err
		}
		if err := to.take(shard, value); err != nil {
			return err
		}
	}
	return err
}

// getsMost is how many values are asked for at once.
const getsMost = 16

// followRedisGet polls how many records each shard has, and gets the new ones.
func followRedisGet(ctx context.Context, c *counted, s spec, to *sink) error {
	have, known := make([]int, s.Shards), make([]int, s.Shards)
	for {
		command(c.out, 1+s.Shards)
		args(c.out, "MGET")
		for i := range have {
			args(c.out, redisKey(s.Stream, i))
		}
		if err := c.ask(1); err != nil {
			return err
		}
		n, err := array(c.in)
		if err == nil && n != s.Shards {
			err = fmt.Errorf("%w: %d values of %d", errPeer, n, s.Shards)
		}
		for i := 0; i < n && err == nil; i++ {
			var v []byte
			if v, err = bulk(c.in); v != nil {
				known[i], err = strconv.Atoi(string(v))
			}
		}
		for i := 0; i < s.Shards && err == nil; i++ {
			for have[i] < known[i] && err == nil {
				first, n := have[i], min(known[i]-have[i], getsMost)
				for k := range n {
					command(c.out, 2)
					args(c.out, "GET", redisKey(s.Stream, i)+":"+strconv.Itoa(first+k))
				}
				err = c.ask(n)
				for k := 0; k < n && err == nil; k++ {
					var v []byte
					if v, err = bulk(c.in); err == nil {
						err = to.take(i, v)
					}
				}
				have[i] += n
			}
		}
		if err != nil {
			return err
		}
		if pause(ctx, s.Poll) != nil {
			return nil
		}
	}
}
