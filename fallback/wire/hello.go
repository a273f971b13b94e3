package wire

import (
	"encoding/binary"
	"fmt"
)

// Magic begins the payload of a connection's first frame.
const Magic = "RMAT"

// Features says what a node serves besides its arena.
type Features uint32

const (
	FeatureDurable Features = 1 << 0
	FeatureRDMA    Features = 1 << 1
	FeatureFill    Features = 1 << 2 // it answers Fill
	FeatureAwait   Features = 1 << 3 // it answers AwaitArena
	FeatureNames   Features = 1 << 4 // it wants a Name before the first Put of a shard on a connection
	FeatureExtents Features = 1 << 5 // it answers an AwaitArena with an ExtentRead
)

const (
	helloOffVersion = 4
	helloFixed      = 6

	helloReplyOffFeatures = 2
	helloReplyOffEpoch    = 6
	helloReplyOffArena    = 14
	helloReplyFixed       = 22
)

// HelloRequest opens a connection.
type HelloRequest struct {
	Version uint16
	Name    string // who calls, for logs and metrics; at most MaxName bytes
	Token   string // a secret that says who it is; at most MaxToken bytes. Empty: none
}

// AppendTo appends h's payload to dst.
func (h HelloRequest) AppendTo(dst []byte) ([]byte, error) {
	dst = append(dst, Magic...)
	dst = binary.LittleEndian.AppendUint16(dst, h.Version)
	dst, err := appendStr(dst, "client name", h.Name, 0, MaxName)
	if err != nil || h.Token == "" {
		return dst, err
	}
	return appendStr(dst, "token", h.Token, 1, MaxToken)
}

// ParseHelloRequest reads a Hello request. A version other than Version gives a *Error of StatusVersion, whatever follows it.
func ParseHelloRequest(p []byte) (HelloRequest, error) {
	if err := atLeast(p, "hello", helloFixed, ErrBadRequest); err != nil {
		return HelloRequest{}, err
	}
	if string(p[:helloOffVersion]) != Magic {
		return HelloRequest{}, fmt.Errorf("hello begins with %q, not %q: %w", p[:helloOffVersion], Magic, ErrBadRequest)
	}
	h := HelloRequest{Version: binary.LittleEndian.Uint16(p[helloOffVersion:])}
	if h.Version != Version {
		return h, &Error{Status: StatusVersion, Arg0: Version, Message: fmt.Sprintf("client speaks version %d", h.Version)}
	}
	name, rest, err := takeStr(p[helloFixed:], "client name", 0, MaxName, ErrBadRequest)
	if err != nil {
		return h, err
	}
	h.Name = string(name)
	if len(rest) == 0 {
		return h, nil
	}
	token, err := lastStr(rest, "token", 1, MaxToken, ErrBadRequest)
	if err != nil {
		return h, err
	}
	h.Token = string(token)
	return h, nil
}

// HelloReply is what a node says about itself.
type HelloReply struct {
	Version   uint16
	Features  Features
	Epoch     uint64 // random per start of the node; the arena header carries it too
	ArenaSize uint64 // bytes; ReadArena offsets lie in [0, ArenaSize)
	ShmPath   string // Unix socket that hands out the arena to processes of the same host; empty: none
	BootID    string // kernel boot id of the node's host: equal ids mean the same running kernel
	// Ticket opens the shm socket as long as the connection lives; at most MaxName bytes. Empty: none is wanted there.
	Ticket string
}

// AppendTo appends h's payload to dst.
func (h HelloReply) AppendTo(dst []byte) ([]byte, error) {
	dst = binary.LittleEndian.AppendUint16(dst, h.Version)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(h.Features))
	dst = binary.LittleEndian.AppendUint64(dst, h.Epoch)
	dst = binary.LittleEndian.AppendUint64(dst, h.ArenaSize)
	dst, err := appendStr(dst, "shm socket path", h.ShmPath, 0, MaxShmPath)
	if err != nil {
		return dst, err
	}
	if dst, err = appendStr(dst, "boot id", h.BootID, 0, MaxName); err != nil || h.Ticket == "" {
		return dst, err
	}
	return appendStr(dst, "ticket", h.Ticket, 1, MaxName)
}

// ParseHelloReply reads a Hello reply. A version other than Version gives a *Error of StatusVersion.
func ParseHelloReply(p []byte) (HelloReply, error) {
	if err := atLeast(p, "hello reply", helloReplyFixed, ErrMalformed); err != nil {
		return HelloReply{}, err
	}
	h := HelloReply{
		Version:   binary.LittleEndian.Uint16(p),
		Features:  Features(binary.LittleEndian.Uint32(p[helloReplyOffFeatures:])),
		Epoch:     binary.LittleEndian.Uint64(p[helloReplyOffEpoch:]),
		ArenaSize: binary.LittleEndian.Uint64(p[helloReplyOffArena:]),
	}
	if h.Version != Version {
		return h, &Error{Status: StatusVersion, Arg0: uint64(h.Version)}
	}
	path, rest, err := takeStr(p[helloReplyFixed:], "shm socket path", 0, MaxShmPath, ErrMalformed)
	if err != nil {
		return h, err
	}
	boot, rest, err := takeStr(rest, "boot id", 0, MaxName, ErrMalformed)
	if err != nil {
		return h, err
	}
	if len(rest) > 0 {
		ticket, err := lastStr(rest, "ticket", 1, MaxName, ErrMalformed)
		if err != nil {
			return h, err
		}
		h.Ticket = string(ticket)
	}
	h.ShmPath, h.BootID = string(path), string(boot)
	return h, nil
}
