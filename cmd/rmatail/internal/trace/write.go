package trace

import (
	"bufio"
	"fmt"
	"io"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
)

// Writer writes frames to a pcap file with time stamps in nanoseconds, which
// Wireshark, tshark and tcpdump open. Whoever reads the file has the keys and the
// data that were on the wire. One goroutine at a time; Flush at the end.
type Writer struct {
	buf  *bufio.Writer
	pcap *pcapgo.Writer
	link layers.LinkType
}

// NewWriter writes to w.
func NewWriter(w io.Writer) *Writer {
	buf := bufio.NewWriterSize(w, 256<<10)
	return &Writer{buf: buf, pcap: pcapgo.NewWriterNanos(buf)}
}

// Write adds a frame. All of a file have the link type of the first.
func (w *Writer) Write(f Frame) error {
	if w.link == layers.LinkTypeNull {
		if err := w.begin(f.Link); err != nil {
			return err
		}
	}
	if f.Link != w.link {
		return fmt.Errorf("frame of link type %v in a file of %v", f.Link, w.link)
	}
	info := gopacket.CaptureInfo{Timestamp: f.Time, CaptureLength: len(f.Data), Length: max(f.Length, len(f.Data))}
	if err := w.pcap.WritePacket(info, f.Data); err != nil {
		return fmt.Errorf("pcap file: %w", err)
	}
	return nil
}

func (w *Writer) begin(link layers.LinkType) error {
	if err := w.pcap.WriteFileHeader(maxFrame, link); err != nil {
		return fmt.Errorf("pcap file: %w", err)
	}
	w.link = link
	return nil
}

// Flush writes what is buffered, and makes a file without any frame a valid one.
func (w *Writer) Flush() error {
	if w.link == layers.LinkTypeNull {
		if err := w.begin(layers.LinkTypeEthernet); err != nil {
			return err
		}
	}
	if err := w.buf.Flush(); err != nil {
		return fmt.Errorf("pcap file: %w", err)
	}
	return nil
}
