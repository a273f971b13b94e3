package read

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"github.com/rmatail/rmatail/bench/child"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/rdma"
)

// verbsFloor is the program of bench/verbs_floor: one process that exports memory,
// one that reads it, over the device and path that our connection has chosen.
type verbsFloor struct {
	exports, reads *child.Process
	chunks         int
}

func newVerbsFloor(ctx context.Context, program string, p rdma.Path, chunks int) (f *verbsFloor, err error) {
	f = &verbsFloor{chunks: chunks}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.stop())
		}
	}()
	device, index, err := exportedAt(p)
	if err != nil {
		return nil, err
	}
	size := strconv.Itoa(chunks * layout.ChunkSize)
	if f.exports, err = child.Start(program, "serve", device, strconv.Itoa(index), p.Peer.String(), size); err != nil {
		return nil, err
	}
	line, err := f.exports.Line(ctx, startTime)
	if err != nil {
		return nil, err
	}
	port, ok := strings.CutPrefix(line, "port ")
	if !ok {
		return nil, f.exports.Failed(fmt.Errorf("first line %q", line))
	}
	if f.reads, err = child.Start(program, "read", p.Device, strconv.Itoa(p.GIDIndex), p.Peer.String(), port,
		strconv.Itoa(p.Reads), strconv.Itoa(ackExponent(p.AckTimeout)), strconv.Itoa(p.Retries), size); err != nil {
		return nil, err
	}
	if line, err = f.reads.Line(ctx, startTime); err != nil {
		return nil, f.exports.Failed(err)
	}
	var mtu, reads int
	if _, err := fmt.Sscanf(line, "ready %d %d", &mtu, &reads); err != nil || mtu != p.MTU || reads != p.Reads {
		return nil, fmt.Errorf("%s: %q, want an MTU of %d and %d reads in flight, as ours", program, line, p.MTU, p.Reads)
	}
	return f, nil
}

// exportedAt finds the device and GID that the node answers at: that of the
// peer's GID.
func exportedAt(p rdma.Path) (device string, index int, err error) {
	devices, err := rdma.Devices()
	if err != nil {
		return "", 0, err
	}
	for _, d := range devices {
		for _, port := range d.Ports {
			for _, g := range port.GIDs {
				if g.GID == p.PeerGID && g.Type == p.GIDType {
					return d.Name, g.Index, nil
				}
			}
		}
	}
	return "", 0, fmt.Errorf("%w: no device of this host has the node's GID %s: the floor needs both ends here", errMissing, p.PeerGID)
}

// measure reads for d in one cell.
func (f *verbsFloor) measure(ctx context.Context, l cell, inFlight, shards int, d time.Duration) (Figures, error) {
	count := f.chunks
	if l.kind == Word {
		count = shards
	}
	ask := func(d time.Duration) (string, error) {
		err := f.reads.Send(fmt.Sprintf("run %d %d %d %d %d %d", l.kind.bytes(), l.batch, inFlight, count, layout.ChunkSize, d.Nanoseconds()))
		if err != nil {
			return "", err
		}
		return f.reads.Line(ctx, d+startTime)
	}
	if _, err := ask(d / warmUp); err != nil {
		return Figures{}, err
	}
	before, known := f.exports.CPU()
	line, err := ask(d)
	if err != nil {
		return Figures{}, err
	}
	var figures Figures
	if err := json.Unmarshal([]byte(line), &figures); err != nil {
		return Figures{}, f.reads.Failed(fmt.Errorf("%q: %w", line, err))
	}
	if after, ok := f.exports.CPU(); ok && known {
		figures.ServerCPU = new(micros(after-before) / figures.Reads)
	}
	figures.perMB(l.kind.bytes())
	return figures, nil
}

func (f *verbsFloor) stop() error {
	var errs []error
	for _, c := range []*child.Process{f.reads, f.exports} {
		if c != nil {
			errs = append(errs, c.Stop())
		}
	}
	return errors.Join(errs...)
}

// ackExponent is n of a timeout of 4.096 us x 2^n.
func ackExponent(d time.Duration) int { return bits.Len64(uint64(d/(4096*time.Nanosecond))) - 1 }
