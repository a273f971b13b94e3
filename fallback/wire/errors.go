package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"unicode/utf8"
)

// Outcomes of requests. A *Error matches the one of its status, so that errors.Is reads the same for an error made here,
// by a local store, or by a node far away.
var (
	// ErrBadRequest is returned when a request does not parse or breaks a limit.
	ErrBadRequest = errors.New("bad request")
	// ErrUnknownShard is returned when the store has no such shard.
	ErrUnknownShard = errors.New("unknown shard")
	// ErrOutOfRetention is returned when a position is below the first kept one.
	ErrOutOfRetention = errors.New("position out of retention")
	// ErrBeyond is returned when a position is above the length.
	ErrBeyond = errors.New("position beyond the end")
	// ErrOffset is returned when an append's offset is not the length.
	ErrOffset = errors.New("append offset is not the length")
	// ErrNeedPrefix is returned when a node lacks bytes [0, from) of the chunk: put the chunk from its start.
	ErrNeedPrefix = errors.New("chunk prefix missing")
	// ErrIncarnation is returned when the shard was deleted and made again meanwhile.
	ErrIncarnation = errors.New("another incarnation of the shard")
	// ErrLocked is returned when another writer holds the shard.
	ErrLocked = errors.New("shard locked by another writer")
	// ErrNoStore is returned when the node serves no durable store.
	ErrNoStore = errors.New("node has no durable store")
	// ErrNoRDMA is returned when the node serves no RDMA.
	ErrNoRDMA = errors.New("node has no RDMA")
	// ErrTooLarge is returned when what was asked for exceeds a limit of the node.
	ErrTooLarge = errors.New("too large")
	// ErrDeadline is returned when the node could not answer within the request's budget. It matches os.ErrDeadlineExceeded
	// when it comes as *Error.
	ErrDeadline = errors.New("node ran out of the request's time budget")
	// ErrBusy is returned when the node sheds load: try later.
	ErrBusy = errors.New("node busy")
	// ErrFull is returned when the store has no space left.
	ErrFull = errors.New("store full")
	// ErrReadOnly is returned when the store cannot be written.
	ErrReadOnly = errors.New("store read-only")
	// ErrClosing is returned when the node is going down.
	ErrClosing = errors.New("node closing")
	// ErrInternal is returned for a fault of the node that is none of the above; its log says more.
	ErrInternal = errors.New("internal error of the node")
	// ErrVersion is returned when the two ends speak different protocol versions.
	ErrVersion = errors.New("unsupported protocol version")
	// ErrUnknownPeer is returned when a client has not shown the node who it is.
	ErrUnknownPeer = errors.New("node does not know this client")
	// ErrForbidden is returned when the node's rules do not let this client do what it asked for.
	ErrForbidden = errors.New("not allowed")
	// ErrLease is returned when a publication's ballot is below the held one, or zero while the lease is held: another writer has
	// the shard.
	ErrLease = errors.New("another writer holds the lease")
)

// Frames that cannot be trusted; each ends the connection.
var (
	// ErrShortFrame is returned when the peer ended in the middle of a frame.
	ErrShortFrame = errors.New("frame cut short")
	// ErrHeaderCRC is returned when a frame header does not match its checksum: the peer speaks another protocol, or the
	// stream is out of step.
	ErrHeaderCRC = errors.New("frame header checksum mismatch")
	// ErrHeaderFlags is returned when a frame header has a flag that this version does not know.
	ErrHeaderFlags = errors.New("unknown frame flags")
	// ErrFrameTooLong is returned when a payload exceeds its limit.
	ErrFrameTooLong = errors.New("frame too long")
	// ErrNotHello is returned when a connection's first frame is not a Hello request.
	ErrNotHello = errors.New("first frame is not a hello")
	// ErrMalformed is returned when a reply payload does not parse.
	ErrMalformed = errors.New("malformed reply")
	// ErrProtocol is returned when a well-formed reply answers nothing that was asked: an id never issued or already
	// answered, another operation, another length.
	ErrProtocol = errors.New("protocol violation")
)

// Ends of a Client.
var (
	// ErrLost is returned for every call on a connection that has ended; it wraps the cause.
	ErrLost = errors.New("connection lost")
	// ErrClosed is the cause when Close ended the connection.
	ErrClosed = errors.New("client closed")
)

// Error is a node's refusal, or a local error of the same meaning.
type Error struct {
	Status     Status
	Arg0, Arg1 uint64 // see the constants of Status
	Message    string // for people; at most MaxMessage bytes travel
}

// Error is the status in words, its numbers, and the message.
func (e *Error) Error() string {
	s := e.Status.String()
	switch e.Status {
	case StatusOutOfRetention:
		s = fmt.Sprintf("%s: first kept is %d, length %d", s, e.Arg0, e.Arg1)
	case StatusBeyond, StatusOffset:
		s = fmt.Sprintf("%s: length is %d", s, e.Arg0)
	case StatusLease:
		s = fmt.Sprintf("%s: ballot %d.%x", s, e.Arg0, e.Arg1)
	case StatusVersion:
		s = fmt.Sprintf("%s: node speaks %d, this program %d", s, e.Arg0, Version)
	}
	if e.Message != "" {
		s += ": " + e.Message
	}
	return s
}

// Is matches the sentinel of e's status; StatusDeadline matches os.ErrDeadlineExceeded too.
func (e *Error) Is(target error) bool {
	if e.Status == StatusDeadline && target == os.ErrDeadlineExceeded {
		return true
	}
	s := e.Status.sentinel()
	return s != nil && target == s
}

// ErrorOf turns any error into what travels: the *Error within err with the whole text as its message, else the status of the
// sentinel that err matches, else StatusInternal. nil gives nil.
func ErrorOf(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		if err == error(e) {
			return e
		}
		return &Error{Status: e.Status, Arg0: e.Arg0, Arg1: e.Arg1, Message: err.Error()}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		return &Error{Status: StatusDeadline, Message: err.Error()}
	}
	for _, s := range statuses {
		if errors.Is(err, s.sentinel()) {
			return &Error{Status: s, Message: err.Error()}
		}
	}
	return &Error{Status: StatusInternal, Message: err.Error()}
}

const errFixed = 16

// appendPayload appends e's payload; the message is cut at MaxMessage on a rune border.
func (e *Error) appendPayload(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, e.Arg0)
	dst = binary.LittleEndian.AppendUint64(dst, e.Arg1)
	return append(dst, cut(e.Message, MaxMessage)...)
}

func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	n := limit
	for n > limit-utf8.UTFMax && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// ParseError reads the payload of a reply whose status is s.
func ParseError(s Status, p []byte) (*Error, error) {
	if s == StatusOK {
		return nil, fmt.Errorf("error reply with status ok: %w", ErrMalformed)
	}
	if len(p) < errFixed || len(p) > maxErrReply {
		return nil, fmt.Errorf("error reply of %d B, needs %d to %d: %w", len(p), errFixed, maxErrReply, ErrMalformed)
	}
	return &Error{
		Status:  s,
		Arg0:    binary.LittleEndian.Uint64(p[0:]),
		Arg1:    binary.LittleEndian.Uint64(p[8:]),
		Message: string(p[errFixed:]),
	}, nil
}
