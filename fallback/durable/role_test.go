package durable

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rmatail/rmatail/fallback/wire"
)

// What this test binary does when a test runs it again as another process.
const (
	roleEnv   = "RMATAIL_DURABLE_ROLE"
	dirEnv    = "RMATAIL_DURABLE_DIR"
	policyEnv = "RMATAIL_DURABLE_POLICY"

	roleShard = "logs/0001"
)

func runRole(role string) int {
	roles := map[string]func(dir string) error{"writer": roleWriter, "reader": roleReader, "limited": roleLimited}
	if err := roles[role](os.Getenv(dirEnv)); err != nil {
		fmt.Fprintln(os.Stderr, role+":", err)
		return 1
	}
	return 0
}

// roleWriter appends until it is killed. It says on stdout where every append
// will end before it starts ("t END") and after it was acknowledged ("a END").
func roleWriter(dir string) error {
	policy, err := ParsePolicy(os.Getenv(policyEnv))
	if err != nil {
		return err
	}
	d, err := Open(dir, Options{Policy: policy, SegmentBytes: 20000, Interval: time.Millisecond})
	if err != nil {
		return err
	}
	l, err := d.Log(roleShard)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	next := l.Info().Length
	ctx := context.Background()
	one := func() error {
		mu.Lock()
		n := 1 + rand.IntN(2000)
		if rand.IntN(32) == 0 {
			n = 1 + rand.IntN(MaxAppend) // long enough for a kill in the middle of the write
		}
		fmt.Printf("t %d\n", next+uint64(n))
		w, end, err := l.enqueue(ctx, next, bytesAt(next, n))
		next = end
		mu.Unlock()
		if err != nil {
			return err
		}
		if end, err = l.await(ctx, w, end); err == nil {
			fmt.Printf("a %d\n", end)
		}
		return err
	}
	failed := make(chan error)
	for range 8 {
		go func() {
			for {
				if err := one(); err != nil {
					failed <- err
				}
			}
		}()
	}
	return <-failed
}

// roleReader follows the shard until stdin ends, then says how far it came.
func roleReader(dir string) error {
	d, err := Open(dir, Options{ReadOnly: true, OpenFiles: 3})
	if err != nil {
		return err
	}
	defer d.Close()
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	var seen Info
	polls, last := 0, false
	for ; ; polls++ {
		i, err := d.Stat(context.Background(), roleShard)
		if errors.Is(err, wire.ErrUnknownShard) && seen == (Info{}) {
			continue
		}
		if err != nil {
			return fmt.Errorf("poll %d at %d: %w", polls, seen.Length, err)
		}
		if seen.Incarnation != 0 && i.Incarnation != seen.Incarnation || i.Length < seen.Length {
			return fmt.Errorf("%+v after %+v", i, seen)
		}
		for pos := seen.Length; pos < i.Length; {
			p := make([]byte, min(i.Length-pos, 1+rand.Uint64N(90000)))
			n, err := d.ReadAt(context.Background(), roleShard, pos, p)
			if err == nil && n < len(p) {
				err = fmt.Errorf("%d of %d bytes", n, len(p))
			}
			if err = errors.Join(err, checkBytes(p[:n], pos)); err != nil {
				return fmt.Errorf("read at %d of %d: %w", pos, i.Length, err)
			}
			pos += uint64(n)
		}
		seen = i
		if last {
			break
		}
		select {
		case <-ended:
			last = true
		default:
		}
	}
	fmt.Printf("%d %d\n", seen.Length, polls)
	return nil
}

// roleLimited appends up to the limit of a file's size, then above it.
func roleLimited(dir string) error {
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &was); err != nil {
		return err
	}
	low := was
	low.Cur = 64 << 10
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &low); err != nil {
		return err
	}
	d, err := Open(dir, Options{})
	if err != nil {
		return err
	}
	defer d.Close()
	l, err := d.Log(roleShard)
	if err != nil {
		return err
	}
	pos, err := appendUntilFull(l, 3000)
	if err != nil {
		return err
	}
	if pos != 63000 {
		return fmt.Errorf("full at %d", pos)
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &was); err != nil {
		return err
	}
	_, err = l.Append(context.Background(), pos, bytesAt(pos, 3000))
	return err
}

// appendUntilFull appends n bytes at a time until there is no more space, twice,
// and returns how far it came.
func appendUntilFull(l *Log, n int) (pos uint64, err error) {
	for pos = l.Info().Length; err == nil; {
		if _, err = l.Append(context.Background(), pos, bytesAt(pos, n)); err == nil {
			pos += uint64(n)
		}
		if pos > 1<<28 {
			return pos, errors.New("no end of space")
		}
	}
	_, again := l.Append(context.Background(), pos, bytesAt(pos, n))
	for _, err := range []error{err, again} {
		if !errors.Is(err, wire.ErrFull) {
			return pos, fmt.Errorf("append on a full disk at %d: %w", pos, err)
		}
	}
	if got := l.Info().Length; got != pos {
		return pos, fmt.Errorf("length %d after failed appends, want %d", got, pos)
	}
	return pos, nil
}
