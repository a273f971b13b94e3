package trace

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
)

// maxFrame bounds a frame of a file: what tcpdump writes at most.
const maxFrame = 256 << 10

// magicNG begins a pcapng file.
const magicNG = 0x0a0d0d0a

// file is a Source that reads a capture file.
type file struct {
	read func() ([]byte, gopacket.CaptureInfo, error)
	link func(gopacket.CaptureInfo) layers.LinkType
	lost uint64
	done io.Closer
	stop atomic.Bool
}

// OpenFile reads a capture in the formats pcap (also gzipped) or pcapng, which it
// tells by the first bytes. It owns r. What a hostile file can make it use is
// bounded. Errors match ErrFormat.
func OpenFile(r io.ReadCloser) (Source, error) {
	f := &file{done: r}
	if err := f.open(bufio.NewReaderSize(r, 64<<10)); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", ErrFormat, err), r.Close())
	}
	return f, nil
}

func (f *file) open(r *bufio.Reader) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("broken: %v", r)
		}
	}()
	magic, err := r.Peek(4)
	if err != nil {
		return noEOF(err)
	}
	if binary.LittleEndian.Uint32(magic) == magicNG {
		return f.openNG(r)
	}
	p, err := pcapgo.NewReader(r)
	if err != nil {
		return noEOF(err)
	}
	p.SetSnaplen(maxFrame) // of the file's header, which may say anything
	f.read = p.ZeroCopyReadPacketData
	f.link = func(gopacket.CaptureInfo) layers.LinkType { return p.LinkType() }
	return nil
}

func (f *file) openNG(r *bufio.Reader) error {
	// Interfaces that are counted for at their end: captures of tcpdump have it.
	drops := map[int]uint64{}
	options := pcapgo.NgReaderOptions{WantMixedLinkType: true, SkipUnknownVersion: true,
		StatisticsCallback: func(i int, s pcapgo.NgInterfaceStatistics) {
			if s.PacketsDropped != pcapgo.NgNoValue64 && len(drops) < 1024 {
				drops[i] = s.PacketsDropped
			}
			f.lost = 0
			for _, n := range drops {
				f.lost += n
			}
		}}
	n, err := pcapgo.NewNgReader(&blocks{r: r}, options)
	if err != nil {
		return noEOF(err)
	}
	f.read = n.ZeroCopyReadPacketData
	f.link = func(info gopacket.CaptureInfo) layers.LinkType {
		if len(info.AncillaryData) > 0 {
			if l, ok := info.AncillaryData[0].(layers.LinkType); ok {
				return l
			}
		}
		return n.LinkType()
	}
	return nil
}

// Next returns the next frame.
func (f *file) Next() (Frame, error) {
	if f.stop.Load() {
		return Frame{}, io.EOF
	}
	data, info, err := f.guarded()
	switch {
	case errors.Is(err, io.EOF):
		return Frame{}, io.EOF
	case errors.Is(err, io.ErrUnexpectedEOF):
		return Frame{}, fmt.Errorf("%w: ends in the middle of a packet", ErrFormat)
	case err != nil:
		return Frame{}, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return Frame{Data: data, Length: max(info.Length, len(data)), Time: info.Timestamp, Link: f.link(info)}, nil
}

// guarded reads a frame. pcapgo panics on some broken files, such as ones with a
// unit of time that is out of range.
func (f *file) guarded() (data []byte, info gopacket.CaptureInfo, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("broken: %v", r)
		}
	}()
	return f.read()
}

// Stop ends it before the next frame.
func (f *file) Stop() { f.stop.Store(true) }

// Lost is what the file says of it, where its format can.
func (f *file) Lost() uint64 { return f.lost }

// Close closes the file.
func (f *file) Close() error { return f.done.Close() }

// noEOF makes the end of a file that has just begun an error.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("too short for its header")
	}
	return err
}

// blocks passes a pcapng file on, block by block, after having seen that the
// block's lengths are possible: the reader behind it would take memory for
// whatever they say.
type blocks struct {
	r     *bufio.Reader
	order binary.ByteOrder
	left  int // of the current block
	ifs   int // interfaces of the current section
}

// Lengths of blocks (draft-ietf-opsawg-pcapng, sections 4.1 to 4.7).
const (
	maxBlock = maxFrame + 64<<10 // with options

	maxIfs = 1024

	blockSection   = magicNG
	blockInterface = 1
	blockPacket    = 2 // obsolete
	blockSimple    = 3
	blockEnhanced  = 6
)

func (b *blocks) Read(p []byte) (int, error) {
	if b.left == 0 {
		if err := b.begin(); err != nil {
			return 0, err
		}
	}
	n, err := b.r.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

func (b *blocks) begin() error {
	h, err := b.r.Peek(28)
	if len(h) < 12 {
		if err == nil || len(h) > 0 {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	kind := binary.LittleEndian.Uint32(h)
	if kind == blockSection {
		switch binary.LittleEndian.Uint32(h[8:]) {
		case 0x1a2b3c4d:
			b.order = binary.LittleEndian
		case 0x4d3c2b1a:
			b.order = binary.BigEndian
		default:
			return errors.New("pcapng section without byte order")
		}
	}
	if b.order == nil {
		return errors.New("pcapng does not begin with a section")
	}
	kind = b.order.Uint32(h)
	total := b.order.Uint32(h[4:])
	if total < 12 || total > maxBlock || total%4 != 0 {
		return fmt.Errorf("pcapng block of %d bytes, want 12 to %d", total, maxBlock)
	}
	at, fixed := 0, uint32(0) // where the captured length is; bytes around the data
	switch kind {
	case blockSection:
		b.ifs = 0
	case blockInterface:
		if b.ifs++; b.ifs > maxIfs {
			return fmt.Errorf("pcapng section with over %d interfaces", maxIfs)
		}
	case blockSimple:
		if length := b.order.Uint32(h[8:]); length > maxFrame {
			return fmt.Errorf("pcapng packet of %d bytes, at most %d", length, maxFrame)
		}
	case blockEnhanced, blockPacket:
		at, fixed = 20, 32
	}
	if at > 0 {
		if len(h) < at+4 || total < fixed {
			return io.ErrUnexpectedEOF
		}
		if length := b.order.Uint32(h[at:]); length > total-fixed || length > maxFrame {
			return fmt.Errorf("pcapng packet of %d bytes in a block of %d", length, total)
		}
	}
	b.left = int(total)
	return nil
}
