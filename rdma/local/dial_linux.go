package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// Dial connects with a zero Dialer.
func Dial(ctx context.Context, path string, wantEpoch uint64) (*Conn, error) {
	return Dialer{}.Dial(ctx, path, wantEpoch)
}

// Dial asks the node behind a Unix socket for its arena, checks what it gets, and
// maps it for reading. wantEpoch is the expected arena, 0 any. Errors match
// ErrPath, ErrConfig, ErrHandshake, ErrVersion, ErrBusy, ErrEpoch, ErrSize,
// ErrUnsealed, those of the context, or of connect(2): ECONNREFUSED means that
// nobody listens, ENOENT that there is no socket, EACCES that its mode forbids it.
func (d Dialer) Dial(ctx context.Context, path string, wantEpoch uint64) (*Conn, error) {
	d, err := d.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := checkPath(path); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	sock, err := connect(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("memory socket %s: %w", path, err)
	}
	arena, behind, unmap, err := receive(ctx, sock, wantEpoch, d.Ticket)
	if err != nil {
		sock.Close()
		return nil, fmt.Errorf("memory socket %s: %w", path, err)
	}
	return newConn(sock, arena, behind, unmap, d), nil
}

// connect tries again while the server's queue is full, which a stream socket
// that does not block says by EAGAIN: connect(2).
func connect(ctx context.Context, path string) (*net.UnixConn, error) {
	var dialer net.Dialer
	var full error
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		conn, err := dialer.DialContext(ctx, "unix", path)
		switch {
		case err == nil:
			return conn.(*net.UnixConn), nil
		case errors.Is(err, unix.EAGAIN):
			full = err
		case full != nil && ctx.Err() != nil:
			return nil, fmt.Errorf("%w: its queue is full: %w", ErrBusy, err)
		default:
			return nil, err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done(): // the next attempt says so
			timer.Stop()
		}
	}
}

// receive does the consumer's part of the handshake and maps the file.
func receive(ctx context.Context, sock *net.UnixConn, wantEpoch uint64, ticket []byte) (arena, behind []byte, unmap func() error, err error) {
	stop := context.AfterFunc(ctx, func() { sock.SetDeadline(time.Unix(1, 0)) })
	b, fds, err := exchange(sock, request{version: version, epoch: wantEpoch, ticket: len(ticket)}, ticket)
	defer func() {
		for _, fd := range fds { // a mapping needs no descriptor: mmap(2)
			unix.Close(fd)
		}
	}()
	if !stop() {
		return nil, nil, nil, fmt.Errorf("%w: %w", ErrHandshake, context.Cause(ctx))
	}
	if err != nil {
		return nil, nil, nil, err
	}
	a, err := parseAnswer(b, wantEpoch)
	if err != nil {
		return nil, nil, nil, err
	}
	if len(fds) != 1 {
		return nil, nil, nil, fmt.Errorf("%w: %d descriptors came with the answer, want 1", ErrHandshake, len(fds))
	}
	return mapFile(fds[0], a)
}

// exchange sends the request and returns the answer's bytes and descriptors; the
// latter also with an error.
func exchange(sock *net.UnixConn, r request, ticket []byte) (b []byte, fds []int, err error) {
	// A server that refuses may have answered and closed before it was asked: the
	// answer says more than the EPIPE.
	_, sendErr := sock.Write(append(r.encode(), ticket...))
	b = make([]byte, answerSize)
	oob := make([]byte, unix.CmsgSpace(4*8)) // more than one descriptor is an error, and none may leak
	n := 0
	for n < len(b) {
		got, oobn, flags, _, err := sock.ReadMsgUnix(b[n:], oob)
		more, ctlErr := descriptors(oob[:oobn])
		fds = append(fds, more...)
		switch {
		case errors.Is(err, io.EOF):
			return nil, fds, fmt.Errorf("%w: the end after %d bytes of the answer: %w", ErrHandshake, n, io.ErrUnexpectedEOF)
		case err != nil:
			return nil, fds, fmt.Errorf("%w: answer: %w", ErrHandshake, errors.Join(err, sendErr))
		case ctlErr != nil || flags&unix.MSG_CTRUNC != 0:
			return nil, fds, fmt.Errorf("%w: control message of %d bytes (flags %x)", ErrHandshake, oobn, flags)
		}
		n += got
	}
	return b, fds, nil
}

// descriptors returns what came along, close-on-exec already (ReadMsgUnix asks
// for MSG_CMSG_CLOEXEC).
func descriptors(oob []byte) (fds []int, err error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	for _, m := range messages {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SCM_RIGHTS {
			more, parseErr := unix.ParseUnixRights(&m)
			fds = append(fds, more...)
			err = errors.Join(err, parseErr)
		}
	}
	return fds, err
}

// mapFile checks a file against the answer and maps it.
func mapFile(fd int, a answer) (arena, behind []byte, unmap func() error, err error) {
	if err := checkSeals(fd, unix.F_SEAL_SHRINK); err != nil {
		return nil, nil, nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, nil, nil, fmt.Errorf("%w: %w", ErrSize, err)
	}
	if uint64(st.Size) != a.fileSize {
		return nil, nil, nil, fmt.Errorf("%w: %d bytes, the node says %d", ErrSize, st.Size, a.fileSize)
	}
	mem, err := unix.Mmap(fd, 0, int(a.fileSize), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("mapping of %d bytes: %w", a.fileSize, err)
	}
	return mem[:a.size:a.size], mem[a.size:], func() error { return unix.Munmap(mem) }, nil
}

// checkSeals reports seals that a file lacks.
func checkSeals(fd, want int) error {
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil { // EINVAL: no memory file at all
		return fmt.Errorf("%w: it cannot have seals: %w", ErrUnsealed, err)
	}
	if seals&want != want {
		return fmt.Errorf("%w: seals %#x, want %#x", ErrUnsealed, seals, want)
	}
	return nil
}
