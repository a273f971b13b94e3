package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/rmatail/rmatail/auth"
	benchfanout "github.com/rmatail/rmatail/bench/fanout"
	benchread "github.com/rmatail/rmatail/bench/read"
	"github.com/rmatail/rmatail/bench/service"
	benchsink "github.com/rmatail/rmatail/bench/sink"
	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/chunkstore/server"
	"github.com/rmatail/rmatail/fallback/wire"
	"github.com/rmatail/rmatail/reader"
)

// Exit codes.
const (
	exitDone  = 0
	exitError = 1
	exitUsage = 2
	exitGap   = 3
)

// errUsage is matched by errors of flags and arguments that only the command
// itself could find.
var errUsage = errors.New("usage")

// errSaid is matched by errors that were reported on standard error already.
var errSaid = errors.New("reported")

// exitWith is the outcome of a command that has said all, and whose exit code is
// a part of it.
type exitWith int

func (e exitWith) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// exitCode reports err and says how the process ends.
func exitCode(stderr io.Writer, err error) int {
	var outcome exitWith
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &outcome):
		return int(outcome)
	}
	if !errors.Is(err, errSaid) {
		fmt.Fprintln(stderr, "rmatail:", err)
		if h := hint(err); h != "" {
			fmt.Fprintln(stderr, "rmatail:", h)
		}
	}
	switch {
	case errors.Is(err, reader.ErrGap), errors.Is(err, wire.ErrOutOfRetention):
		return exitGap
	case errors.Is(err, errUsage), errors.Is(err, auth.ErrSettings), errors.Is(err, reader.ErrConfig), errors.Is(err, server.ErrConfig), errors.Is(err, layout.ErrName), errors.Is(err, benchsink.ErrConfig), errors.Is(err, service.ErrConfig), errors.Is(err, benchread.ErrConfig), errors.Is(err, benchfanout.ErrConfig):
		return exitUsage
	}
	return exitError
}

// hint says what to do about an error, for those that do not say so themselves.
func hint(err error) string {
	var gap *reader.GapError
	var badAddress *net.AddrError
	var noHost *net.DNSError
	switch {
	case errors.Is(err, server.ErrConfig), errors.Is(err, wire.ErrReadOnly), errors.Is(err, cluster.ErrInvalid):
		return "" // they say what to do
	case errors.As(err, &gap):
		return fmt.Sprintf("what is kept begins at %d: go on there with --from %d, or with --from latest", gap.First, gap.First)
	case errors.Is(err, wire.ErrOutOfRetention):
		return "go on with --from earliest or --from latest"
	case errors.Is(err, wire.ErrUnknownShard):
		return "'rmatail ls' lists the shards there are; appending to a shard creates it"
	case errors.Is(err, reader.ErrBeyond), errors.Is(err, wire.ErrBeyond):
		return "'rmatail stat STREAM/SHARD' shows its end; --from latest waits there with --follow"
	case errors.Is(err, wire.ErrNoStore):
		return "the node is a cache only: start it with --dir, or give this command the durable directory with --dir"
	case errors.Is(err, wire.ErrLocked):
		return "another process writes this shard: append through its node (--server) instead"
	case errors.Is(err, wire.ErrBusy), errors.Is(err, wire.ErrClosing):
		return "try again in a moment"
	case errors.Is(err, wire.ErrUnknownPeer):
		return "the node wants to know who this is: show a token (--token-file, RMATAIL_TOKEN_FILE) or a certificate (--tls-ca, --tls-cert, --tls-key)"
	case errors.Is(err, wire.ErrForbidden):
		return "the node's rules (serve --access) say what each identity may do"
	case errors.Is(err, wire.ErrSeal):
		return "is the node served with TLS, has one of the authorities of --tls-ca signed its certificate, for the host that is dialled or for --tls-name?"
	case errors.Is(err, wire.ErrVersion):
		return "node and command are of different versions: 'rmatail version' shows this one"
	case errors.Is(err, wire.ErrHeaderCRC), errors.Is(err, wire.ErrMalformed):
		return "is that address an rmatail node, and not its --http address?"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "no node listens there: start one with 'rmatail serve --dir DIR', or name it with --server or RMATAIL_SERVER"
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "no answer in time: is the node running, and is the address right?"
	case errors.Is(err, syscall.EADDRINUSE):
		return "another process has that address: choose another with --listen, or with --http for the metrics"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return "that is no address of this host: 'ip address' shows which there are"
	case errors.As(err, &badAddress), errors.As(err, &noHost):
		return "want HOST:PORT, such as 127.0.0.1:7440"
	case errors.Is(err, os.ErrPermission):
		return fmt.Sprintf("user %d may not: check owner and mode of the directory, or take a port above 1023", os.Getuid())
	}
	return ""
}

// usageError reports a command line that does not parse.
func usageError(stderr io.Writer, args []string, err error) int {
	fmt.Fprintln(stderr, "rmatail:", err)
	help := "rmatail --help"
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") && !strings.Contains(err.Error(), "unexpected argument "+args[0]) {
		help = "rmatail " + args[0] + " --help"
	}
	fmt.Fprintf(stderr, "rmatail: '%s' shows the usage\n", help)
	return exitUsage
}
