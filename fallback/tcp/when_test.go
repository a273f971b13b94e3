package tcp

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/rmatail/rmatail/fallback/wire"
)

// A batch with conditions travels as one AwaitArena, and lands like any other.
func TestRealPostWhen(t *testing.T) {
	asked := make(chan wire.AwaitArena, 1)
	conn := path(t, dial(t, func(p *peer) {
		var r wire.Replies
		for {
			h, payload, err := p.Next()
			if err != nil {
				return
			}
			if h.Op != wire.OpAwaitArena {
				answer(&r, h, payload)
			} else if a, err := wire.ParseAwaitArena(payload); err != nil {
				r.Error(h, err)
			} else {
				asked <- wire.AwaitArena{Wait: a.Wait, Words: a.Words.AppendTo(nil), Reads: a.Reads.AppendTo(nil)}
				r.Header(h, a.Reads.Total())
				for i := range a.Reads.Len() {
					r.Bytes(arena[a.Reads.At(i).Off:][:a.Reads.At(i).N])
				}
			}
			if r.Flush(p) != nil {
				return
			}
		}
	}), Options{})
	b, got := batch(t, conn, 4096, 100, 8192, 16384)
	if b.Wakes() {
		t.Error("a node without the feature is said to have it")
	}
	if b.When(8193, 1) || !b.When(8200, 7) || !b.When(8192, 1<<40) || b.When(8192+4096, 1) {
		t.Error("conditions are words of one block of 4,096 B, and nothing else")
	}
	if err := b.PostWhen(time.Now().Add(300*time.Millisecond), soon()); err != nil {
		t.Fatal(err)
	}
	if b.When(8208, 0) {
		t.Error("a condition was taken by a batch that is on its way")
	}
	if err := b.Wait(); err != nil {
		t.Fatal(err)
	}
	a := <-asked
	if a.Wait < 200*time.Millisecond || a.Wait > 300*time.Millisecond || len(a.Words) != 2 || a.Words[0] != (wire.ArenaWord{Off: 8200, Value: 7}) ||
		a.Words[1] != (wire.ArenaWord{Off: 8192, Value: 1 << 40}) || len(a.Reads) != 2 {
		t.Errorf("the node was asked %+v", a)
	}
	for i, off := range []int{8192, 16384} {
		if !bytes.Equal(got[i], arena[off:][:100]) {
			t.Errorf("wrong bytes of read %d", i)
		}
	}
	// After a Reset the batch has no conditions.
	b.Reset()
	b.Add(0, 8)
	if err := b.PostWhen(time.Now(), soon()); !errors.Is(err, ErrState) {
		t.Errorf("no condition: %v", err)
	}
	if err := b.Post(soon()); err != nil {
		t.Fatal(err)
	}
	if err := b.Wait(); err != nil {
		t.Fatal(err)
	}
	// A time that has passed is no time to wait.
	b.Reset()
	b.Add(0, 8)
	b.When(0, 1)
	if err := b.PostWhen(time.Now().Add(-time.Hour), soon()); err != nil {
		t.Fatal(err)
	}
	if err := b.Wait(); err != nil {
		t.Fatal(err)
	}
	if a := <-asked; a.Wait != 0 {
		t.Errorf("the node was asked to wait %v", a.Wait)
	}
	b.Release()
}
