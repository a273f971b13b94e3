package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

var helloFrame = frame(Header{Op: OpHello}, must(HelloRequest{Version: Version, Name: "t"}.AppendTo(nil)))

func rawFrame(h Header, payload []byte) []byte { return append(AppendHeader(nil, h), payload...) }

func TestFrameReaderRefuses(t *testing.T) {
	bad := bytes.Clone(helloFrame)
	bad[offID] ^= 1
	flags := AppendHeader(nil, Header{Op: OpHello})
	flags[offFlags] = 1
	flags = reseal(flags)
	ping := rawFrame(Header{Op: OpPing}, nil)
	after := func(b []byte) []byte { return append(bytes.Clone(helloFrame), b...) }
	for _, c := range []struct {
		name  string
		in    []byte
		nth   int // the frame that is refused
		want  error
		inErr string
	}{
		{"nothing", nil, 0, io.EOF, ""},
		{"half a header", helloFrame[:10], 0, ErrShortFrame, "10 B"},
		{"half a payload", helloFrame[:len(helloFrame)-1], 0, ErrShortFrame, "Hello"},
		{"half a large payload", after(rawFrame(Header{Op: OpAppend, Length: 1 << 20}, make([]byte, 70000))), 1, ErrShortFrame, "70000 of 1048576 B"},
		{"bad CRC", bad, 0, ErrHeaderCRC, ""},
		{"another protocol", []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), 0, ErrHeaderCRC, ""},
		{"flags", flags, 0, ErrHeaderFlags, "0x0001"},
		{"no hello", ping, 0, ErrNotHello, "Ping"},
		{"over every limit", rawFrame(Header{Op: OpHello, Length: MaxPayload + 1}, nil), 0, ErrFrameTooLong, ""},
		{"4 GiB", rawFrame(Header{Op: OpHello, Length: 1<<32 - 1}, nil), 0, ErrFrameTooLong, ""},
		{"long hello", rawFrame(Header{Op: OpHello, Length: 328}, make([]byte, 328)), 0, ErrFrameTooLong, "at most 327"},
		{"long ping", after(rawFrame(Header{Op: OpPing, Length: 1}, make([]byte, 1))), 1, ErrFrameTooLong, ""},
		{"long put", after(rawFrame(Header{Op: OpPut, Length: 4129}, make([]byte, 4129))), 1, ErrFrameTooLong, "at most 4128"},
		{"long unknown", after(rawFrame(Header{Op: 99, Length: 4097}, nil)), 1, ErrFrameTooLong, "Op(99)"},
		{"status in a request", after(rawFrame(Header{Op: OpPing, Status: StatusBusy}, nil)), 1, ErrBadRequest, ""},
		{"end between frames", after(ping), 2, io.EOF, ""},
	} {
		for name, r := range map[string]io.Reader{"whole": bytes.NewReader(c.in), "byte by byte": iotest.OneByteReader(bytes.NewReader(c.in))} {
			fr := NewFrameReader(bufio.NewReaderSize(r, 4096))
			var err error
			n := 0
			for ; err == nil; n++ {
				_, _, err = fr.Next()
			}
			if n-1 != c.nth || !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.inErr) {
				t.Errorf("%s, %s: frame %d: %v", c.name, name, n-1, err)
			}
		}
	}
}

// reseal gives the header at the front of b its right CRC, in place.
func reseal(b []byte) []byte {
	return binary.LittleEndian.AppendUint32(b[:offCRC], crcOf(b[:offCRC]))
}

// crcOf is CRC32C bit by bit, as a second opinion.
func crcOf(b []byte) uint32 {
	c := ^uint32(0)
	for _, x := range b {
		c ^= uint32(x)
		for range 8 {
			c = c>>1 ^ 0x82f63b78*(c&1)
		}
	}
	return ^c
}

// Payloads of every size come out whole from readers of every buffer size, in whatever pieces they arrive.
func TestFrameReaderSizes(t *testing.T) {
	sizes := []int{10, 4000, 4072, 4073, 65536, 65537, 65600, 131072, 1 << 20, 11, 100000}
	in := bytes.Clone(helloFrame)
	for i, n := range sizes {
		in = append(in, rawFrame(Header{Op: OpAppend, Length: uint32(n), ID: uint64(i)}, bytes.Repeat([]byte{byte(i)}, n))...)
	}
	for name, r := range map[string]io.Reader{"whole": bytes.NewReader(in), "halves": iotest.HalfReader(bytes.NewReader(in))} {
		for _, size := range []int{4096, 64 << 10} {
			if name == "halves" {
				r = iotest.HalfReader(bytes.NewReader(in))
			} else {
				r = bytes.NewReader(in)
			}
			fr := NewFrameReader(bufio.NewReaderSize(r, size))
			if _, _, err := fr.Next(); err != nil {
				t.Fatal(err)
			}
			for i, n := range sizes {
				h, p, err := fr.Next()
				if err != nil || h.ID != uint64(i) || len(p) != n || cap(p) != n || bytes.Count(p, []byte{byte(i)}) != n {
					t.Fatalf("%s, buffer %d: frame %d of %d B: %d B, id %d, %v", name, size, i, n, len(p), h.ID, err)
				}
			}
		}
	}
}

// A header alone, of a peer that then sends nothing, must not cost the memory that it promises.
func TestFrameReaderGrowsWithWhatCame(t *testing.T) {
	in := append(bytes.Clone(helloFrame), rawFrame(Header{Op: OpAppend, Length: 1 << 20}, make([]byte, 1000))...)
	fr := NewFrameReader(bufio.NewReaderSize(bytes.NewReader(in), 4096))
	if _, _, err := fr.Next(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := fr.Next(); !errors.Is(err, ErrShortFrame) {
		t.Fatal(err)
	}
	if cap(fr.buf) > firstGrowth {
		t.Errorf("%d B held for 1,000 that came", cap(fr.buf))
	}
}

func TestFrameReaderReady(t *testing.T) {
	pr, pw := io.Pipe()
	fr := NewFrameReader(bufio.NewReader(pr))
	two := append(bytes.Clone(helloFrame), rawFrame(Header{Op: OpPing}, nil)...)
	half := rawFrame(Header{Op: OpStat, Length: 7}, []byte("\x06a/0"))
	sent := make(chan error, 1)
	go func() {
		_, err := pw.Write(append(two, half...))
		if err == nil {
			err = pw.Close()
		}
		sent <- err
	}()
	if fr.Ready() {
		t.Error("ready before anything was read")
	}
	for i, ready := range []bool{true, false} {
		if _, _, err := fr.Next(); err != nil {
			t.Fatal(err)
		}
		if fr.Ready() != ready {
			t.Errorf("after frame %d: ready is %v", i, !ready)
		}
	}
	if _, _, err := fr.Next(); !errors.Is(err, ErrShortFrame) {
		t.Errorf("half a frame: %v", err)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

func TestFrameReaderAllocatesNothing(t *testing.T) {
	one := append(rawFrame(Header{Op: OpPut, Length: 4128}, make([]byte, 4128)), rawFrame(Header{Op: OpAppend, Length: 100000}, make([]byte, 100000))...)
	in := append(bytes.Clone(helloFrame), bytes.Repeat(one, 220)...)
	fr := NewFrameReader(bufio.NewReaderSize(bytes.NewReader(in), 64<<10))
	next := func() {
		if _, _, err := fr.Next(); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 {
		next()
	}
	if n := testing.AllocsPerRun(400, next); n != 0 {
		t.Errorf("%v allocations a frame", n)
	}
}

// FuzzFrame feeds a stream, as it is and with every header's CRC made right, to FrameReader: no panic, typed errors, limits kept,
// and what was accepted is the input. The buffer is so small that most payloads take the way of large ones.
func FuzzFrame(f *testing.F) {
	f.Add(helloFrame)
	f.Add(append(bytes.Clone(helloFrame), rawFrame(Header{Op: OpPing, ID: 3}, nil)...))
	f.Add(append(bytes.Clone(helloFrame), rawFrame(Header{Op: OpAppend, Length: 200}, make([]byte, 200))...))
	for _, g := range goldens {
		f.Add(append(bytes.Clone(helloFrame), g.got()...))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		checkFrames(t, in)
		sealed := bytes.Clone(in)
		for at := 0; at+HeaderLen <= len(sealed); {
			reseal(sealed[at : at+HeaderLen])
			at += HeaderLen + int(binary.LittleEndian.Uint32(sealed[at:]))
		}
		checkFrames(t, sealed)
	})
}

func checkFrames(t *testing.T, in []byte) {
	fr := NewFrameReader(bufio.NewReaderSize(bytes.NewReader(in), 128))
	for at := 0; ; {
		ready := fr.Ready()
		h, p, err := fr.Next()
		if err != nil {
			for _, known := range []error{io.EOF, ErrShortFrame, ErrHeaderCRC, ErrHeaderFlags, ErrFrameTooLong, ErrNotHello, ErrBadRequest} {
				if errors.Is(err, known) {
					return
				}
			}
			t.Fatalf("untyped error %v (ready %v)", err, ready)
		}
		if len(p) != int(h.Length) || len(p) > h.Op.maxRequest() {
			t.Fatalf("%s of %d B, header says %d", h.Op, len(p), h.Length)
		}
		whole := rawFrame(h, p)
		if !bytes.Equal(whole, in[at:at+len(whole)]) {
			t.Fatalf("frame at %d: %x from %x", at, whole, in[at:at+len(whole)])
		}
		at += len(whole)
	}
}

func TestReplies(t *testing.T) {
	var r Replies
	req := Header{Op: OpReadArena, ID: 5}
	big := bytes.Repeat([]byte("a"), 5000)
	var want []byte
	for range 50 { // enough to move the buffer under segments that are sealed already
		r.Header(req, 5000+3)
		r.Bytes(big)
		r.Copy([]byte("xyz"))
		r.Reply(Header{Op: OpPing, ID: 6}, nil)
		r.Error(Header{Op: OpPut, ID: 7}, ErrBusy)
		want = append(want, frame(Header{Op: OpReadArena, ID: 5}, append(bytes.Clone(big), "xyz"...))...)
		want = append(want, frame(Header{Op: OpPing, ID: 6}, nil)...)
		want = append(want, AppendError(nil, Header{Op: OpPut, ID: 7}, ErrBusy)...)
	}
	if r.Size() != len(want) {
		t.Errorf("size %d, want %d", r.Size(), len(want))
	}
	var got bytes.Buffer
	for range 2 {
		if err := r.Flush(&got); err != nil || r.Size() != 0 {
			t.Fatalf("flush: %v, %d B left", err, r.Size())
		}
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Error("bytes differ")
	}
	n := testing.AllocsPerRun(100, func() {
		r.Header(req, 5000)
		r.Bytes(big)
		r.Reply(Header{Op: OpPing}, nil)
		_ = r.Flush(io.Discard)
	})
	if n != 0 {
		t.Errorf("%v allocations a reply", n)
	}
}
