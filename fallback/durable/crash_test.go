package durable

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/rmatail/rmatail/fallback/wire"
)

const memShard = "/store/logs/0001"

// history is what a shard's writers know, over several lives.
type history struct {
	rng         *rand.Rand
	created     bool // some Log call has returned
	incarnation uint64
	trusted     uint64 // below it lies what was left after a loss that the policy allows
	acked       uint64
	borders     map[uint64]bool // where an append that was tried would end
	ctx         context.Context
}

// live opens the shard, checks what it finds, and appends until the file system
// crashes or n appends are done. lossy allows what interval and never allow after
// a power failure.
func (h *history) live(fsys *memFS, boot uint64, o Options, n int, lossy bool) error {
	o.fs = fsys
	d, err := Open("/store", o)
	if err != nil {
		return err
	}
	defer d.Close()
	d.boot = boot
	l, err := d.Log("logs/0001")
	if errors.Is(err, errCrash) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	if err := h.check(fsys, l.Info(), lossy); err != nil {
		return err
	}
	pos := l.Info().Length
	h.created, h.incarnation, h.acked = true, l.Info().Incarnation, pos
	for range n {
		if h.rng.IntN(6) == 0 {
			if err := h.fullOnce(fsys, l, pos, h.size()); err != nil || fsys.down() {
				return err
			}
		}
		size := h.size()
		h.borders[pos+uint64(size)] = true
		end, err := l.Append(context.Background(), pos, bytesAt(pos, size))
		if err != nil {
			if !fsys.down() {
				return fmt.Errorf("append: %w", err)
			}
			return nil
		}
		pos, h.acked = end, end
		if err := d.retainShard("logs/0001", new(Retained)); err != nil && !fsys.down() {
			return fmt.Errorf("retention: %w", err)
		}
	}
	return nil
}

// size draws the size of an append.
func (h *history) size() int {
	if h.rng.IntN(8) == 0 {
		return 2000
	}
	return 1 + h.rng.IntN(300)
}

// fullOnce tries an append for which the disk has no space, or not enough.
func (h *history) fullOnce(fsys *memFS, l *Log, pos uint64, size int) error {
	fsys.failOn("write", ".log", syscall.ENOSPC, h.rng.IntN(size))
	defer fsys.hook(nil)
	_, err := l.Append(context.Background(), pos, bytesAt(pos, size))
	if !errors.Is(err, wire.ErrFull) && !fsys.down() {
		return fmt.Errorf("append on a full disk: %w", err)
	}
	return nil
}

func (h *history) check(fsys *memFS, i Info, lossy bool) error {
	if h.created && i.Incarnation != h.incarnation {
		if !lossy {
			return fmt.Errorf("new incarnation")
		}
		*h = history{rng: h.rng, trusted: i.Length, borders: map[uint64]bool{}, ctx: h.ctx}
		return nil
	}
	first, b := fsys.content(memShard)
	if end := first + uint64(len(b)); len(b) > 0 && end != i.Length {
		return fmt.Errorf("segments end at %d, length is %d", end, i.Length)
	}
	if i.Length < h.acked {
		return fmt.Errorf("length %d, but %d was acknowledged", i.Length, h.acked)
	}
	if i.Length > 0 && i.Length != h.acked && !h.borders[i.Length] {
		return fmt.Errorf("length %d is no border of an append", i.Length)
	}
	if i.First != first {
		return fmt.Errorf("first is %d, want %d", i.First, first)
	}
	if n := h.trusted - min(first, h.trusted); n > 0 {
		first, b = first+n, b[n:]
	}
	return checkBytes(b, first)
}

func TestCrashAtEveryStep(t *testing.T) {
	for _, policy := range []Policy{Always, Interval, Never} {
		for _, power := range []string{"kill", "power"} {
			t.Run(policy.String()+"/"+power, func(t *testing.T) {
				everyStep(t, power == "power", Options{Policy: policy, SegmentBytes: 1500, Interval: time.Millisecond})
			})
		}
	}
}

// The same with retention under way: no crash leaves a gap between segments.
func TestCrashDuringRetention(t *testing.T) {
	for _, power := range []string{"kill", "power"} {
		t.Run(power, func(t *testing.T) {
			everyStep(t, power == "power", Options{SegmentBytes: 400, RetainBytes: 600})
		})
	}
}

func everyStep(t *testing.T, power bool, o Options) {
	// Without a crash, to learn how many steps there are.
	whole := newMemFS(rand.New(rand.NewPCG(1, 1)))
	h := history{rng: rand.New(rand.NewPCG(1, 1)), borders: map[uint64]bool{}}
	if err := h.live(whole, 1, o, 12, false); err != nil {
		t.Fatal(err)
	}
	steps, lives, root := whole.steps, 0, filepath.Join(t.TempDir(), "state")
	for at := 1; at <= steps; at++ {
		for seed := range seeds() {
			if err := crashAt(root, at, seed, o, power, &lives); err != nil {
				t.Fatalf("crash at step %d of %d, seed %d: %v", at, steps, seed, err)
			}
		}
	}
	t.Logf("%d steps, %d lives", steps, lives)
}

// seeds is how many outcomes of each crash are tried.
func seeds() uint64 {
	n, err := strconv.ParseUint(os.Getenv("RMATAIL_SEEDS"), 10, 32)
	if err != nil {
		return 6 // RMATAIL_SEEDS=500 takes minutes
	}
	return n
}

// crashAt crashes at a step, then again early in each recovery, and lets the
// last life go on to the end.
func crashAt(root string, at int, seed uint64, o Options, power bool, lives *int) error {
	rng := rand.New(rand.NewPCG(seed, uint64(at)))
	fsys := newMemFS(rng)
	h := history{rng: rand.New(rand.NewPCG(seed, seed)), borders: map[uint64]bool{}, ctx: context.Background()}
	boot := uint64(1)
	for life := range 4 {
		fsys.crashAt = 0
		switch life {
		case 0:
			fsys.crashAt = at
		case 1, 2:
			fsys.crashAt = 1 + rng.IntN(40)
		}
		lossy := power && o.Policy != Always
		if err := h.live(fsys, boot, o, 12, lossy); err != nil {
			return fmt.Errorf("life %d: %w", life, err)
		}
		*lives++
		if power && rng.IntN(4) > 0 {
			fsys = fsys.afterPowerFailure()
			boot++
		} else {
			fsys = fsys.afterKill()
		}
		if seed == 0 && (life == 0 || life == 1 && at%4 == 0) { // files are written for them: not for all
			if err := h.readers(fsys, boot, root); err != nil {
				return fmt.Errorf("life %d: %w", life, err)
			}
		}
	}
	return h.live(fsys, boot, o, 0, power && o.Policy != Always)
}
