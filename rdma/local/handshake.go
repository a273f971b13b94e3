package local

import (
	"encoding/binary"
	"fmt"
)

const (
	magic       = "RMATSHM\x01"
	version     = 1
	requestSize = 24
	answerSize  = 40
)

// status is the server's decision, as it is on the wire.
type status uint32

const (
	statusOK status = iota
	statusBusy
	statusVersion
	statusEpoch
	statusDenied
)

// MaxTicket bounds the bytes of a ticket.
const MaxTicket = 64

// request is what a consumer says first.
type request struct {
	version uint32
	epoch   uint64 // 0: any
	ticket  int    // bytes of the ticket that follows, at most MaxTicket
}

func (r request) encode() []byte {
	b := append(make([]byte, 0, requestSize), magic...)
	b = binary.LittleEndian.AppendUint32(b, r.version)
	b = binary.LittleEndian.AppendUint32(b, uint32(r.ticket))
	return binary.LittleEndian.AppendUint64(b, r.epoch)
}

// parseRequest reads requestSize untrusted bytes. Errors match ErrHandshake.
func parseRequest(b []byte) (request, error) {
	if len(b) != requestSize || string(b[:8]) != magic {
		return request{}, fmt.Errorf("%w: %d bytes without our magic", ErrHandshake, len(b))
	}
	ticket := binary.LittleEndian.Uint32(b[12:])
	if ticket > MaxTicket {
		return request{}, fmt.Errorf("%w: a ticket of %d bytes, at most %d", ErrHandshake, ticket, MaxTicket)
	}
	return request{version: binary.LittleEndian.Uint32(b[8:]), epoch: binary.LittleEndian.Uint64(b[16:]), ticket: int(ticket)}, nil
}

// decide is the server's answer to a request, given what it serves.
func (r request) decide(serves answer) answer {
	switch {
	case r.version != serves.version:
		serves.status = statusVersion
	case r.epoch != 0 && r.epoch != serves.epoch:
		serves.status = statusEpoch
	}
	return serves
}

// answer is what the server says, with the descriptor when the status is ok.
type answer struct {
	version  uint32
	status   status
	epoch    uint64 // never 0
	size     uint64 // of the arena
	fileSize uint64
}

func (a answer) encode() []byte {
	b := append(make([]byte, 0, answerSize), magic...)
	b = binary.LittleEndian.AppendUint32(b, a.version)
	b = binary.LittleEndian.AppendUint32(b, uint32(a.status))
	b = binary.LittleEndian.AppendUint64(b, a.epoch)
	b = binary.LittleEndian.AppendUint64(b, a.size)
	return binary.LittleEndian.AppendUint64(b, a.fileSize)
}

// parseAnswer reads answerSize untrusted bytes, and returns an error unless they
// hand over the arena of the epoch (0: any). Errors match ErrHandshake,
// ErrVersion, ErrBusy, ErrEpoch or ErrSize.
func parseAnswer(b []byte, epoch uint64) (answer, error) {
	if len(b) != answerSize || string(b[:8]) != magic {
		return answer{}, fmt.Errorf("%w: answer of %d bytes without our magic", ErrHandshake, len(b))
	}
	le := binary.LittleEndian
	a := answer{version: le.Uint32(b[8:]), status: status(le.Uint32(b[12:])), epoch: le.Uint64(b[16:]), size: le.Uint64(b[24:]), fileSize: le.Uint64(b[32:])}
	switch {
	case a.version != version:
		return a, fmt.Errorf("%w: the node speaks %d, this build %d; run the same release on both ends", ErrVersion, a.version, version)
	case a.status == statusBusy:
		return a, fmt.Errorf("%w: raise its limit, or share one connection within a process", ErrBusy)
	case a.status == statusDenied:
		return a, fmt.Errorf("%w: connect to the node over TCP, and show it who this is", ErrDenied)
	case a.status == statusEpoch || epoch != 0 && a.epoch != epoch:
		return a, fmt.Errorf("%w: epoch %016x, want %016x; ask the node again which is current", ErrEpoch, a.epoch, epoch)
	case a.status != statusOK:
		return a, fmt.Errorf("%w: refused with status %d", ErrHandshake, a.status)
	case a.size == 0 || a.size > a.fileSize || a.fileSize > maxMapping || a.epoch == 0:
		return a, fmt.Errorf("%w: arena of %d bytes, epoch %016x, in a file of %d", ErrSize, a.size, a.epoch, a.fileSize)
	}
	return a, nil
}

// maxMapping is the largest file that can be mapped as one slice.
const maxMapping = uint64(^uint(0) >> 1)
