package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/rmatail/rmatail/cmd/rmatail/internal/doctor"
)

type doctorCmd struct {
	Peer     string        `help:"A node to try every transport with; port 7440 if none is said." placeholder:"HOST[:PORT]"`
	Arena    size          `help:"Memory that a node on this host would export." default:"64MiB" placeholder:"SIZE"`
	Device   string        `help:"RDMA device that will be set (default: chosen)." placeholder:"NAME"`
	GIDIndex int           `name:"gid-index" help:"GID index that will be set, -1 for the choice." default:"-1" placeholder:"N"`
	For      time.Duration `help:"With --peer: how long to read over each transport." default:"1s" placeholder:"TIME"`
	All      bool          `help:"Show details and commands of what is well, too."`
	JSON     bool          `name:"json" help:"One JSON object."`
}

func (c *doctorCmd) Help() string {
	return `Looks at everything that RDMA needs of this host, without changing anything, and says what it found and which command mends it. As root it
sees more. With --peer it connects to a node, reads its memory over each transport, compares the bytes and measures. Exit codes: 0 nothing
to mend, 1 warnings, 2 failures (or usage). A host without RDMA is a warning: rmatail works there over shared memory and TCP.`
}

// doctorTimeout bounds all checks of a host and, but for the time of measuring, of
// a peer.
const doctorTimeout = time.Minute

func (c *doctorCmd) Run(p *process) error {
	ctx, cancel := context.WithTimeout(p, doctorTimeout+4*c.For)
	defer cancel()
	want := doctor.Want{ArenaBytes: uint64(c.Arena), Device: c.Device, GIDIndex: c.GIDIndex}
	host, err := doctor.Here(ctx, want)
	var r doctor.Report
	switch {
	case err == nil:
		r = doctor.Examine(host)
	case c.Peer == "" || !errors.Is(err, errors.ErrUnsupported):
		return err
	}
	if c.Peer != "" {
		if err := p.know(""); err != nil {
			return err
		}
		peer := doctor.PeerConfig{Credentials: p.credentials(), Addr: withPort(c.Peer), For: c.For, Device: c.Device, GIDIndex: c.GIDIndex}
		if p.logFlags.Level <= slog.LevelDebug {
			peer.Logger = p.log // what libraries warn of is among the findings
		}
		r = r.With(doctor.TryPeer(ctx, peer))
	}
	if c.JSON {
		err = json.NewEncoder(p.stdout).Encode(r)
	} else {
		details := doctor.Needed
		if c.All {
			details = doctor.All
		}
		err = r.WriteText(p.stdout, details)
	}
	if err != nil {
		return err
	}
	switch r.Verdict {
	case doctor.Fail:
		return exitWith(2)
	case doctor.Warn:
		return exitWith(1)
	}
	return nil
}

// withPort is a node's address with the default port if it has none.
func withPort(addr string) string {
	if _, _, err := net.SplitHostPort(addr); err == nil || strings.HasPrefix(addr, "unix:") {
		return addr
	}
	_, port, _ := net.SplitHostPort(defaultServer)
	return net.JoinHostPort(strings.Trim(addr, "[]"), port)
}
