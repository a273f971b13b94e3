package local

import (
	"fmt"
	"io/fs"
	"log/slog"
	"time"
)

// ListenConfig is how a Server is made. The zero value is usable.
type ListenConfig struct {
	// Mode are the permissions of the socket file: who may write it may read the
	// arena. 0: 0660.
	Mode fs.FileMode
	// MaxConns bounds the consumers at one time, those in their handshake
	// included; each costs a descriptor and a goroutine. 0: 1024.
	MaxConns int
	// HandshakeTimeout is how long a consumer may take to ask. 0: 2 s.
	HandshakeTimeout time.Duration
	// Admit decides who gets the memory: by the user of the consumer's process, which
	// the kernel tells (SO_PEERCRED, unix(7)), and by the ticket that it shows, nil
	// if it shows none. Any goroutine may call it; an error denies. nil: whoever can
	// open the socket file gets it.
	Admit func(uid uint32, ticket []byte) error
	// Logger gets a line for each peer that was refused. nil: none.
	Logger *slog.Logger
	// Word is this process's writable mapping of the memory file behind the arena, for
	// the wake word: 4 bytes or more, not to be unmapped before Close. nil: consumers are
	// never woken, and poll.
	Word []byte
}

func (c ListenConfig) withDefaults() (ListenConfig, error) {
	if c.Mode&^fs.ModePerm != 0 || c.MaxConns < 0 || c.HandshakeTimeout < 0 {
		return c, fmt.Errorf("%w: mode %v (permissions only), %d consumers, handshake timeout %v", ErrConfig, c.Mode, c.MaxConns, c.HandshakeTimeout)
	}
	if c.Mode == 0 {
		c.Mode = 0o660
	}
	if c.MaxConns == 0 {
		c.MaxConns = 1024
	}
	if c.HandshakeTimeout == 0 {
		c.HandshakeTimeout = 2 * time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// Dialer is how a Conn is made. The zero value is usable.
type Dialer struct {
	// Timeout bounds connecting and the handshake when the context has no earlier
	// deadline. 0: 2 s.
	Timeout time.Duration
	// Ticket is shown to the node, which has given it to this process elsewhere; at
	// most MaxTicket bytes. Empty: none.
	Ticket []byte
	// BufferBytes bounds the memory of all batches of a Conn, idle ones included.
	// 0: 64 MiB.
	BufferBytes int
}

func (d Dialer) withDefaults() (Dialer, error) {
	if d.Timeout < 0 || d.BufferBytes < 0 || len(d.Ticket) > MaxTicket {
		return d, fmt.Errorf("%w: timeout %v, %d bytes of batches, a ticket of %d bytes", ErrConfig, d.Timeout, d.BufferBytes, len(d.Ticket))
	}
	if d.Timeout == 0 {
		d.Timeout = 2 * time.Second
	}
	if d.BufferBytes == 0 {
		d.BufferBytes = 64 << 20
	}
	return d, nil
}
