package fanout

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
)

// The classic text protocol: protocol.txt of memcached.

// memcachedSender stores each record under a key, and how many there are under
// another one. Nothing is answered; the commands of a connection are carried out in
// order.
type memcachedSender struct {
	s       spec
	c       *counted
	names   []string
	numbers []int
}

func newMemcachedSender(ctx context.Context, s spec) (*memcachedSender, error) {
	c, err := dial(ctx, s.Addr, new(meter))
	if err != nil {
		return nil, err
	}
	m := &memcachedSender{s: s, c: c, numbers: make([]int, s.Shards)}
	for i := range s.Shards {
		m.names = append(m.names, redisKey(s.Stream, i))
	}
	return m, nil
}

func (m *memcachedSender) send(_ context.Context, shard int, b []byte) error {
	size, name := m.s.Workload.record(), m.names[shard]
	for ; len(b) > 0; b = b[size:] {
		fmt.Fprintf(m.c.out, "set %s:%d 0 0 %d noreply\r\n", name, m.numbers[shard], size)
		m.c.out.Write(b[:size])
		m.c.out.WriteString("\r\n")
		m.numbers[shard]++
	}
	length := strconv.Itoa(m.numbers[shard])
	fmt.Fprintf(m.c.out, "set %s 0 0 %d noreply\r\n%s\r\n", name, len(length), length)
	return m.c.out.Flush()
}

func (m *memcachedSender) close() error { return m.c.Close() }

// followMemcached polls how many records each shard has, and gets the new ones.
func followMemcached(ctx context.Context, c *counted, s spec, to *sink) error {
	have, known := make([]int, s.Shards), make([]int, s.Shards)
	index := map[string]int{}
	for i := range have {
		index[redisKey(s.Stream, i)] = i
	}
	for {
		c.out.WriteString("get")
		for i := range have {
			c.out.WriteString(" " + redisKey(s.Stream, i))
		}
		c.out.WriteString("\r\n")
		if err := c.ask(1); err != nil {
			return err
		}
		if err := memcachedValues(c, func(key, v []byte) (err error) {
			known[index[string(key)]], err = strconv.Atoi(string(v))
			return err
		}); err != nil {
			return err
		}
		for i := range have {
			for have[i] < known[i] {
				n := min(known[i]-have[i], getsMost)
				c.out.WriteString("get")
				for k := range n {
					c.out.WriteString(" " + redisKey(s.Stream, i) + ":" + strconv.Itoa(have[i]+k))
				}
				c.out.WriteString("\r\n")
				if err := c.ask(1); err != nil {
					return err
				}
				if err := memcachedValues(c, func(_, v []byte) error { return to.take(i, v) }); err != nil {
					return err
				}
				have[i] += n
			}
		}
		if pause(ctx, s.Poll) != nil {
			return nil
		}
	}
}

// memcachedValues reads values up to END; they are lent to each.
func memcachedValues(c *counted, each func(key, value []byte) error) error {
	var key []byte
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if bytes.Equal(line, []byte("END\r\n")) {
			return nil
		}
		words := bytes.Fields(line)
		if len(words) < 4 || string(words[0]) != "VALUE" {
			return fmt.Errorf("%w: %q", errPeer, line)
		}
		n, err := strconv.Atoi(string(words[3]))
		if err != nil || n < 0 || n > bufferBytes-2 {
			return fmt.Errorf("%w: %q", errPeer, line)
		}
		key = append(key[:0], words[1]...)
		b, err := c.in.Peek(n + 2)
		if err != nil {
			return err
		}
		if err := each(key, b[:n]); err != nil {
			return err
		}
		if _, err := c.in.Discard(n + 2); err != nil {
			return err
		}
	}
}
