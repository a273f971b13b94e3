package rdma

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/rmatail/rmatail/cgo/ibverbs"
)

// TestRxeKeysOpenTheirOwnMemory: two memories are exported from one device, as two
// tenants' are. A consumer of the first, whose queue pair is in the first's
// protection domain, reads the second with its true address and key, with keys that
// are near it (soft-RoCE: index and 8 bits), and around the first's borders. Nothing
// comes back.
func TestRxeKeysOpenTheirOwnMemory(t *testing.T) {
	from, to := requireRxe(t)
	a, b := newRxeExport(t, to.config(t), 1<<20), newRxeExport(t, to.config(t), 1<<20)
	for i := range b.mem {
		b.mem[i] ^= 0x5a
	}
	readOK(t, connect(t, from.config(t), a), a, 4096, 65536)
	readOK(t, connect(t, from.config(t), b), b, 4096, 65536)
	var theirs answer
	if c, r, err := tryConnect(t, from.config(t), b, func(x *answer) { theirs = *x }); err != nil {
		t.Fatal(err)
	} else {
		closeConn(t, c)
		r.Close()
	}
	tries, began := 0, time.Now()
	try := func(what string, change func(*answer)) {
		tries++
		c, r, err := tryConnect(t, from.config(t), a, change)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		defer r.Close()
		defer closeConn(t, c)
		batch := newBatch(t, c, 4096)
		defer batch.Release()
		dst := plan(t, batch, 0, 64)
		clear(dst)
		err = batch.Do(soon())
		var ce *CompletionError
		if !errors.As(err, &ce) || ce.Status != ibverbs.RemAccessErr {
			t.Errorf("%s: %v, want REM_ACCESS_ERR", what, err)
		}
		if !bytes.Equal(dst, make([]byte, 64)) {
			t.Errorf("%s: bytes came back", what)
		}
	}
	try("their address and key", func(x *answer) { x.base, x.rkey = theirs.base, theirs.rkey })
	try("their address, own key", func(x *answer) { x.base = theirs.base })
	try("own address, their key", func(x *answer) { x.rkey = theirs.rkey })
	try("before the own memory", func(x *answer) { x.base -= 64 })
	try("behind the own memory", func(x *answer) { x.base += x.length })
	try("across the own end", func(x *answer) { x.base += x.length - 32 })
	for bit := range 8 {
		try("a guess", func(x *answer) { x.base, x.rkey = theirs.base, theirs.rkey^1<<bit })
	}
	t.Logf("report: %d reads of another tenant's memory over RDMA, none answered, in %v", tries, time.Since(began).Round(time.Millisecond))
	readOK(t, connect(t, from.config(t), a), a, 0, 4096)
	readOK(t, connect(t, from.config(t), b), b, 0, 4096)
}
