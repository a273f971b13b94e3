package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/cluster/file"
)

// here runs a command in this process.
func here(args ...string) result {
	var stdout, stderr bytes.Buffer
	code := run(&process{Context: context.Background(), stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr}, args)
	return result{code, stdout.String(), stderr.String()}
}

// clusterFile writes a file and returns its path.
func clusterFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRealClusterCheckShowsWhatAFileMeans(t *testing.T) {
	const path = "../../deploy/cluster.example.yaml"
	r := here("cluster", "check", path)
	if r.code != exitDone || r.stderr != "" {
		t.Fatalf("exit code %d, %s", r.code, r.stderr)
	}
	for _, part := range []string{"site1", "owned by node cache1; directory /mnt/rmatail", "3 full replicas on 4 nodes, 1 partial on 1; a put needs 2",
		"3 replicas on 3 nodes", "edge1", "data (partial)", "data,metadata,store", "16.2GiB in all", "240 shards"} {
		if !strings.Contains(r.stdout, part) {
			t.Errorf("the summary has no %q\n%s", part, r.stdout)
		}
	}
	r = here("cluster", "check", "--json", path)
	var sum checked
	if err := json.Unmarshal([]byte(r.stdout), &sum); err != nil || !sum.OK || r.code != exitDone {
		t.Fatalf("exit code %d, %v\n%s", r.code, err, r.stdout)
	}
	if len(sum.Nodes) != 5 || !sum.Nodes[0].Store || !sum.Nodes[4].Partial || sum.Nodes[4].Share != 1 || sum.Arena != 4<<32+256<<20 ||
		sum.Replicas.Quorum != 2 || sum.Balance.Busiest >= 1.15 || sum.TTL != 60 || sum.Hedge != 0.03 {
		t.Errorf("%+v\n%s", sum, r.stdout)
	}
}

func TestRealClusterCheckRefusesWithLines(t *testing.T) {
	path := clusterFile(t, "nodes:\n  - {name: a, addr: 'h:1'}\n  - {name: a, addr: 'h:2'}\nttl: 3\n")
	r := here("cluster", "check", path)
	if want := path + ":1:1: store: missing\n" + path + ":3:12: nodes[1].name: \"a\" is the name"; r.code != exitError || r.stdout != "" || !strings.HasPrefix(r.stderr, want) {
		t.Errorf("exit code %d, stdout %q, stderr\n%s", r.code, r.stdout, r.stderr)
	}
	if n := strings.Count(r.stderr, "\n"); n != 3 {
		t.Errorf("%d lines for 3 mistakes\n%s", n, r.stderr)
	}
	r = here("cluster", "check", "--json", path)
	var sum checked
	if err := json.Unmarshal([]byte(r.stdout), &sum); err != nil || sum.OK || len(sum.Errors) != 3 || r.code != exitError {
		t.Fatalf("exit code %d, %v\n%s", r.code, err, r.stdout)
	}
	if e := sum.Errors[2]; e.Line != 4 || e.Column != 6 || e.Field != "ttl" || e.Text == "" {
		t.Errorf("mistake %+v", e)
	}
	if r := here("cluster", "check", filepath.Join(t.TempDir(), "absent")); r.code != exitError || !strings.Contains(r.stderr, "no such file") {
		t.Errorf("no file: %d, %s", r.code, r.stderr)
	}
	if r := here("cluster", "check", "--shards", "0", path); r.code != exitUsage {
		t.Errorf("no shards: %d, %s", r.code, r.stderr)
	}
}

func TestNotesOnWhatIsPerhapsNotMeant(t *testing.T) {
	path := clusterFile(t, "nodes: [{name: a, addr: 'h:1'}, {name: b, addr: 'h:2'}]\nstore: {dir: /d}\n")
	r := here("cluster", "check", path)
	for _, part := range []string{"note: 2 full replicas", "note: 2 replicas of a length page", "note: a, b are on one host (h)"} {
		if !strings.Contains(r.stdout, part) {
			t.Errorf("no %q\n%s", part, r.stdout)
		}
	}
}

// nine are full data nodes of equal weight, with arenas of 64 MiB.
func nine(t *testing.T) (*cluster.View, []file.Node) {
	t.Helper()
	var d cluster.Description
	var settings []file.Node
	for i := range 9 {
		d.Nodes = append(d.Nodes, cluster.Node{Name: fmt.Sprintf("n%d", i), Addr: fmt.Sprintf("h%d:1", i), Roles: cluster.Data | cluster.Metadata, Weight: 1})
		settings = append(settings, file.Node{Arena: file.DefaultArena})
	}
	v, err := cluster.NewView(d)
	if err != nil {
		t.Fatal(err)
	}
	return v, settings
}

// TestBalance: shares add up to the replicas, and the smallest arena bounds the room.
func TestBalance(t *testing.T) {
	v, settings := nine(t)
	b := balance(v, settings, 240)
	sum := 0.0
	for _, s := range b.shares {
		sum += s
	}
	if math.Abs(sum-3) > 1e-9 || b.Busiest < 1 || b.Busiest >= 1.15 {
		t.Errorf("shares add up to %g, the busiest node has %g", sum, b.Busiest)
	}
	// Each of 9 nodes holds a third: together 3 times 0.8 of one arena.
	if want := 3 * evictFrom * capacity(settings[0]); math.Abs(float64(b.Room)-want) > 0.05*want {
		t.Errorf("room for %d bytes, want about %.0f", b.Room, want)
	}
	settings[5].Arena = 8 << 20
	if small := balance(v, settings, 240); small.Fullest != "n5" || small.Room > b.Room/7 {
		t.Errorf("with a small arena at n5 there is room for %d bytes, and %s evicts first", small.Room, small.Fullest)
	}
}

func TestAbout(t *testing.T) {
	for bytes, want := range map[float64]string{0: "0B", 999: "999B", 1024: "1KiB", 64 << 20: "64MiB", 1.5 * (1 << 30): "1.5GiB", 5 << 40: "5TiB"} {
		if got := about(bytes); got != want {
			t.Errorf("about(%g) = %s, want %s", bytes, got, want)
		}
	}
}

func TestErrorsOfAFileAreSaidOnce(t *testing.T) {
	var out bytes.Buffer
	if code := exitCode(&out, fmt.Errorf("%w: x", errSaid)); code != exitError || out.String() != "" {
		t.Errorf("%d, %q", code, out.String())
	}
	if !errors.Is(file.Errors{{Path: "f", Text: "x"}}, cluster.ErrInvalid) {
		t.Error("mistakes of a file are not those of a cluster")
	}
}
