package fanout

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
)

// followNginx polls the file of each shard for the bytes behind those that it has:
// a range request for "bytes=N-", 416 when there are none (RFC 9110, 14).
func followNginx(ctx context.Context, c *counted, s spec, to *sink) error {
	at := make([]int64, s.Shards)
	buffer := make([]byte, bufferBytes)
	for {
		for i := range at {
			fmt.Fprintf(c.out, "GET /%s HTTP/1.1\r\nHost: bench\r\nRange: bytes=%d-\r\n\r\n", fileName(s.Stream, i), at[i])
		}
		if err := c.ask(s.Shards); err != nil {
			return err
		}
		for i := range at {
			n, err := httpRange(c, i, buffer, to)
			if err != nil {
				return err
			}
			at[i] += n
		}
		if pause(ctx, s.Poll) != nil {
			return nil
		}
	}
}

// httpRange reads an answer and returns how many bytes of the shard it had.
func httpRange(c *counted, shard int, buffer []byte, to *sink) (int64, error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	words := bytes.Fields(line)
	if len(words) < 2 {
		return 0, fmt.Errorf("%w: %q", errPeer, line)
	}
	status := string(words[1])
	length := int64(-1)
	for {
		if line, err = c.in.ReadSlice('\n'); err != nil {
			return 0, err
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		if bytes.EqualFold(name, []byte("Content-Length")) {
			if length, err = strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64); err != nil {
				return 0, fmt.Errorf("%w: %q", errPeer, line)
			}
		}
	}
	switch {
	case length < 0 || status != "206" && status != "416" && status != "200":
		return 0, fmt.Errorf("%w: status %s, %d bytes", errPeer, status, length)
	case status == "416":
		_, err := io.CopyN(io.Discard, c.in, length)
		return 0, err
	}
	for left := length; left > 0; {
		n, err := c.in.Read(buffer[:min(left, int64(len(buffer)))])
		if err != nil {
			return 0, err
		}
		left -= int64(n)
		if err := to.take(shard, buffer[:n]); err != nil {
			return 0, err
		}
	}
	return length, nil
}
