package read

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/rmatail/rmatail/bench/child"
	"github.com/rmatail/rmatail/chunkstore/layout"
)

// redis is a redis-server with one key, without files, on the loopback.
type redis struct {
	*child.Process
	addr string
}

const redisKey = "k"

// startRedis runs a redis-server. The port is one that was free a moment ago.
func startRedis(ctx context.Context, program string) (*redis, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &redis{addr: l.Addr().String()}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	r.Process, err = child.StartForeign(program, "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--daemonize", "no",
		"--maxclients", "4096")
	if err != nil {
		return nil, err
	}
	if err := r.fill(ctx); err != nil {
		return nil, errors.Join(err, r.Stop())
	}
	return r, nil
}

// fill waits until it answers, and sets the key.
func (r *redis) fill(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for {
		err := r.set(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-r.Ended():
			return r.Failed(errors.New("redis has ended"))
		default:
		}
		if pause(ctx, 10*time.Millisecond) != nil {
			return r.Failed(err)
		}
	}
}

func (r *redis) set(ctx context.Context) error {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", r.addr)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	value := make([]byte, layout.ChunkSize)
	pattern(value)
	if _, err := c.Write(command("SET", redisKey, string(value))); err != nil {
		return err
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	if err == nil && !strings.HasPrefix(line, "+OK") {
		err = fmt.Errorf("answer to SET: %q", line)
	}
	return err
}

// command is a command as redis wants it.
func command(words ...string) []byte {
	b := fmt.Appendf(nil, "*%d\r\n", len(words))
	for _, w := range words {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(w), w)
	}
	return b
}

// redisReader reads the key: the GETs of a batch in one write, their answers, whose
// length is known, in one read.
type redisReader struct {
	c        net.Conn
	batch    int
	first    []byte // of an answer
	requests []byte
	answers  []byte
}

func newRedisReader(ctx context.Context, addr string, batch int) (*redisReader, error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	first := fmt.Appendf(nil, "$%d\r\n", layout.ChunkSize)
	return &redisReader{c: c, batch: batch, first: first, requests: bytes.Repeat(command("GET", redisKey), batch),
		answers: make([]byte, batch*(len(first)+layout.ChunkSize+2))}, nil
}

func (r *redisReader) step(deadline time.Time) (int, error) {
	if _, err := r.c.Write(r.requests); err != nil {
		return 0, err
	}
	if _, err := io.ReadFull(r.c, r.answers); err != nil {
		return 0, err
	}
	if !bytes.HasPrefix(r.answers, r.first) {
		return 0, fmt.Errorf("%w: redis answers %.20q", errWrong, r.answers)
	}
	return r.batch, nil
}

func (r *redisReader) rewind(time.Time) error { return nil }

func (r *redisReader) drain() error { return nil }
