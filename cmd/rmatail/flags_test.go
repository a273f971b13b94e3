package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/wire"
	"github.com/rmatail/rmatail/reader"
)

func TestExitCodesAndWhatToDo(t *testing.T) {
	for _, c := range []struct {
		err  error
		code int
		says string
	}{
		{nil, 0, ""},
		{errors.New("x"), 1, ""},
		{&reader.GapError{Shard: "a/0000", Want: 1, First: 4096, Length: 9999}, 3, "--from 4096"},
		{&wire.Error{Status: wire.StatusOutOfRetention, Arg0: 7, Arg1: 9}, 3, "--from earliest"},
		{&wire.Error{Status: wire.StatusUnknownShard}, 1, "rmatail ls"},
		{&wire.Error{Status: wire.StatusNoStore}, 1, "--dir"},
		{fmt.Errorf("%w: both", errUsage), 2, ""},
		{fmt.Errorf("%w: x", layout.ErrName), 2, ""},
		{fmt.Errorf("%w: x", reader.ErrConfig), 2, ""},
		{fmt.Errorf("%w: x", reader.ErrBeyond), 1, "rmatail stat"},
	} {
		var out bytes.Buffer
		if code := exitCode(&out, c.err); code != c.code {
			t.Errorf("%v: exit code %d, want %d", c.err, code, c.code)
		}
		if !strings.Contains(out.String(), c.says) {
			t.Errorf("%v: %q does not say %q", c.err, out.String(), c.says)
		}
	}
}

// TestCommandLines holds flags, their environment and their errors together.
func TestCommandLines(t *testing.T) {
	run := func(env map[string]string, args ...string) (int, string, string) {
		for k, v := range env {
			t.Setenv(k, v)
		}
		var stdout, stderr bytes.Buffer
		code := run(&process{Context: context.Background(), stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr}, args)
		return code, stdout.String(), stderr.String()
	}
	for _, args := range [][]string{
		{}, {"nonsense"}, {"tail"}, {"tail", "no-slash"}, {"tail", "a/0", "--from", "soon"}, {"tail", "a/0", "-o", "xml"}, {"tail", "a/0", "--transport", "pigeon"},
		{"tail", "a/0", "-n", "-1"}, {"tail", "a/0", "--from", "-2000000"}, {"append", "a/0", "--batch", "2MiB"}, {"append", "a/0", "--seal"}, {"append", "a/0", "--in-flight", "7MiB"}, {"append", "a/0", "f", "--follow", "g"},
		{"append", "a/0", "--state", "f"}, {"append", "a/0", "--when-full", "panic"}, {"append", "a/0", "f", "--when-full", "drop-newest"}, {"append", "a/0", "--rate", "fast"}, {"ls", "--json", "--names"},
		{"serve", "--listen", "nowhere"}, {"serve", "--policy", "hope"}, {"serve", "--rdma", "maybe"}, {"serve", "--arena", "1B"}, {"demo", "--consumers", "0"}, {"demo", "--for", "0s"},
		{"serve", "--cluster", "f"}, {"serve", "--node", "n"}, {"serve", "--cluster", "f", "--node", "n", "--arena", "1GiB"}, {"serve", "--cluster", "f", "--node", "n", "--listen", ":1"},
		{"tail", "a/0", "--cluster", "f", "--server", "h:1"}, {"append", "a/0", "--cluster", "f", "--server", "h:1"}, {"ls", "--cluster", "f", "--server", "h:1"}, {"stat", "--cluster", "f", "--server", "h:1"},
		{"stat", "--cluster", "f", "--shards", "0"}, {"cluster"}, {"cluster", "check"},
		{"stat", "--dir", "/nonexistent"}, {"--log-level", "loud", "version"},
	} {
		if code, stdout, stderr := run(nil, args...); code != exitUsage || stdout != "" || stderr == "" {
			t.Errorf("rmatail %v: exit code %d, stdout %q, stderr %q; want %d and an explanation", args, code, stdout, stderr, exitUsage)
		}
	}
	if code, _, stderr := run(map[string]string{"RMATAIL_FROM": "soon"}, "tail", "a/0"); code != exitUsage || !strings.Contains(stderr, "soon") {
		t.Errorf("a bad RMATAIL_FROM gives %d, %q", code, stderr)
	}
	if code, stdout, _ := run(nil, "tail", "--help"); code != 0 || !strings.Contains(stdout, "RMATAIL_TRANSPORT") || !strings.Contains(stdout, "--follow") {
		t.Errorf("tail --help: %d, %q", code, stdout)
	}
	if code, stdout, _ := run(nil, "version", "--json"); code != 0 || !strings.Contains(stdout, fmt.Sprintf(`"protocol":%d`, wire.Version)) {
		t.Errorf("version --json: %d, %q", code, stdout)
	}
}
