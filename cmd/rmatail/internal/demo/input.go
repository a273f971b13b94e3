package demo

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"
)

// logs are the files of a host that are tried as input, in order.
var logs = []string{"/var/log/syslog", "/var/log/messages", "/var/log/kern.log", "/var/log/auth.log", "/var/log/daemon.log",
	"/var/log/dpkg.log", "/var/log/apt/history.log", "/var/log/pacman.log", "/var/log/dnf.log", "/var/log/system.log"}

// enough makes a log worth showing.
const enough = 4 << 10

// input hands out a file's lines, over and over.
type input struct {
	name string // for people
	file *os.File
	r    *bufio.Reader
	gen  *accessLog // instead of a file
	got  bool       // since the last rewind
	open bool       // the last piece had no newline
}

// openInput opens a file, or what the host has if path is empty.
func openInput(path string) (*input, error) {
	if path != "" {
		return openFile(path)
	}
	for _, l := range logs {
		if in, err := openFile(l); err == nil {
			if i, err := in.file.Stat(); err == nil && i.Size() >= enough {
				return in, nil
			}
			in.file.Close()
		}
	}
	return &input{name: "a generated access log", gen: newAccessLog()}, nil
}

func openFile(path string) (*input, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("input: %w", err)
	}
	i, err := f.Stat()
	if err == nil && !i.Mode().IsRegular() {
		err = fmt.Errorf("input %s is not a regular file, which can be read over and over", path)
	}
	if err == nil && i.Size() == 0 {
		err = fmt.Errorf("input %s is empty", path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &input{name: path, file: f, r: bufio.NewReaderSize(f, 64<<10)}, nil
}

// next returns the next line with its newline, good until the next call. A line
// over 64 KiB comes in pieces; a last line without a newline gets one.
func (in *input) next() ([]byte, error) {
	if in.gen != nil {
		return in.gen.line(), nil
	}
	for {
		line, err := in.r.ReadSlice('\n')
		if len(line) > 0 && (err == nil || errors.Is(err, bufio.ErrBufferFull) || errors.Is(err, io.EOF)) {
			in.got, in.open = true, line[len(line)-1] != '\n'
			return line, nil
		}
		if !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("input: %w", err)
		}
		if in.open {
			in.open = false
			return []byte{'\n'}, nil
		}
		if !in.got {
			return nil, fmt.Errorf("input %s has become empty", in.name)
		}
		if _, err := in.file.Seek(0, io.SeekStart); err != nil {
			return nil, fmt.Errorf("input: %w", err)
		}
		in.r.Reset(in.file)
		in.got = false
	}
}

func (in *input) close() error {
	if in.file == nil {
		return nil
	}
	return in.file.Close()
}

// accessLog makes lines in the common log format: the same ones each time.
type accessLog struct {
	r   *rand.Rand
	now time.Time
	buf []byte
}

func newAccessLog() *accessLog {
	return &accessLog{r: rand.New(rand.NewPCG(4096, 16)), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
}

func (a *accessLog) line() []byte {
	paths := []string{"/", "/index.html?page=%d", "/api/items/%d", "/static/app.%d.js", "/images/%d.png"}
	codes := []int{200, 200, 200, 200, 200, 206, 301, 304, 404, 500}
	a.now = a.now.Add(time.Duration(a.r.IntN(40)) * time.Millisecond)
	path := paths[a.r.IntN(len(paths))]
	if path != "/" {
		path = fmt.Sprintf(path, a.r.IntN(10000))
	}
	a.buf = fmt.Appendf(a.buf[:0], "192.0.2.%d - - [%s] \"GET %s HTTP/1.1\" %d %d \"-\" \"Mozilla/5.0 (X11; Linux x86_64)\"\n",
		a.r.IntN(256), a.now.Format("02/Jan/2006:15:04:05 -0700"), path, codes[a.r.IntN(len(codes))], a.r.IntN(60000))
	return a.buf
}
