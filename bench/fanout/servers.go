package fanout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rmatail/rmatail/bench/child"
)

// server is a program's, or nothing but a directory.
type server struct {
	p      *child.Process // nil: files need none
	addr   string
	socket string
	dir    string // removed at the end
}

// startTime is how long a server may take to start.
const startTime = 20 * time.Second

// arenaBytes has room for what the producers of a round write.
const arenaBytes = 1 << 30

// startServer starts a program's server. errAbsent: it is not on this machine.
func startServer(ctx context.Context, c Config, p Program) (s *server, err error) {
	dir, err := os.MkdirTemp(c.Dir, "rf") // short: the path of a socket has to fit
	if err != nil {
		return nil, err
	}
	s = &server{dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	switch p {
	case SHM, RDMA, TCP, Naive:
		err = s.node(ctx, c, p)
	case RedisStreams, RedisGet:
		err = s.redis(ctx)
	case JetStream:
		err = s.jetStream(ctx, c)
	case Nginx:
		err = s.nginx(ctx)
	case Memcached:
		err = s.memcached(ctx)
	case Plain:
		err = s.plain(ctx, c)
	}
	return s, err
}

// node starts ours. The file is flushed once a second, as that of redis is.
func (s *server) node(ctx context.Context, c Config, p Program) (err error) {
	transport := "off"
	if p == RDMA {
		transport = "require"
	}
	args := append(append([]string(nil), c.Node...), "--json", "--until-eof", "--listen", c.Listen, "--dir", filepath.Join(s.dir, "store"),
		"--socket", filepath.Join(s.dir, "s"), "--arena", strconv.Itoa(arenaBytes), "--policy", "interval", "--interval", "1s", "--rdma", transport)
	if s.p, err = child.Start(args...); err != nil {
		return err
	}
	line, err := s.p.Line(ctx, startTime)
	if err != nil {
		return err
	}
	var ready struct {
		Listen string `json:"listen"`
		Socket string `json:"socket"`
	}
	if err := json.Unmarshal([]byte(line), &ready); err != nil {
		return s.p.Failed(fmt.Errorf("first line %q: %w", line, err))
	}
	s.addr, s.socket = ready.Listen, ready.Socket
	return nil
}

// foreign starts a program that listens at an address that it is told.
func (s *server) foreign(ctx context.Context, name string, args func(host, port string) []string) (err error) {
	path, err := lookPath(name)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.addr = l.Addr().String()
	l.Close()
	host, port, _ := net.SplitHostPort(s.addr) // it is one
	if s.p, err = child.StartForeign(append([]string{path}, args(host, port)...)...); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	if err := pollUntil(ctx, func() (bool, error) {
		conn, err := net.DialTimeout("tcp", s.addr, time.Second)
		if err == nil {
			conn.Close()
		}
		return err == nil, nil
	}); err != nil {
		return s.p.Failed(fmt.Errorf("no answer at %s: %w", s.addr, err))
	}
	return nil
}

// lookPath finds a program; servers are often in a place that is not in PATH.
func lookPath(name string) (string, error) {
	for _, at := range []string{name, "/usr/sbin/" + name, "/usr/local/sbin/" + name} {
		if path, err := exec.LookPath(at); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is %w", name, errAbsent)
}

func (s *server) redis(ctx context.Context) error {
	return s.foreign(ctx, "redis-server", func(host, port string) []string {
		return []string{"--port", port, "--bind", host, "--save", "", "--appendonly", "yes", "--dir", s.dir, "--daemonize", "no", "--maxclients", "8000",
			"--auto-aof-rewrite-percentage", "0"}
	})
}

func (s *server) memcached(ctx context.Context) error {
	return s.foreign(ctx, "memcached", func(host, port string) []string {
		args := []string{"-l", host, "-p", port, "-t", "2", "-c", "8000", "-m", "1024"}
		if os.Getuid() == 0 {
			args = append(args, "-u", "root")
		}
		return args
	})
}

const nginxConfig = `daemon off; worker_processes 2; pid DIR/pid; error_log DIR/error crit; USER
events { worker_connections 4096; }
http {
	access_log off; sendfile on; tcp_nodelay on; keepalive_requests 1000000000; keepalive_timeout 600;
	client_body_temp_path DIR/t1; proxy_temp_path DIR/t2; fastcgi_temp_path DIR/t3; uwsgi_temp_path DIR/t4; scgi_temp_path DIR/t5;
	server { listen ADDR backlog=4096; root DIR; }
}
`

func (s *server) nginx(ctx context.Context) error {
	return s.foreign(ctx, "nginx", func(string, string) []string {
		user := ""
		if os.Getuid() == 0 {
			user = "user root;"
		}
		file := filepath.Join(s.dir, "nginx.conf")
		text := strings.NewReplacer("DIR", s.dir, "ADDR", s.addr, "USER", user).Replace(nginxConfig)
		_ = os.WriteFile(file, []byte(text), 0o600) // nginx says that it is not there
		return []string{"-p", s.dir, "-e", filepath.Join(s.dir, "error"), "-c", file}
	})
}

func (s *server) jetStream(ctx context.Context, c Config) (err error) {
	if c.JetStream == "" {
		return fmt.Errorf("the embedded nats-server is %w: scripts/bench-peers builds it", errAbsent)
	}
	if s.p, err = child.Start(c.JetStream, s.dir); err != nil {
		return err
	}
	s.addr, err = s.p.Line(ctx, startTime)
	return err
}

func (s *server) plain(ctx context.Context, c Config) (err error) {
	if s.p, err = child.Start(append(append([]string(nil), c.Part...), string(Serve))...); err != nil {
		return err
	}
	line, err := s.p.Line(ctx, startTime)
	if err != nil {
		return err
	}
	var ready up
	if err := json.Unmarshal([]byte(line), &ready); err != nil {
		return s.p.Failed(fmt.Errorf("first line %q: %w", line, err))
	}
	s.addr = ready.Addr
	return nil
}

// cpu is the processor time of the server so far; false: there is none.
func (s *server) cpu() (time.Duration, bool) {
	if s.p == nil {
		return 0, false
	}
	return s.p.CPU()
}

func (s *server) stop() error {
	var err error
	if s.p != nil {
		err = s.p.Stop()
	}
	var status *exec.ExitError
	if errors.As(err, &status) && !status.Exited() {
		err = nil // by the signal that was to end it
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}
