package check

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// dockerfile parses it as BuildKit does.
func dockerfile(t *testing.T) (stages []instructions.Stage, args map[string]string) {
	t.Helper()
	tree, err := parser.Parse(bytes.NewReader(read(t, "Dockerfile")))
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range tree.Warnings {
		t.Errorf("Dockerfile: %s", w.Short)
	}
	stages, meta, err := instructions.Parse(tree.AST, nil)
	if err != nil {
		t.Fatal(err)
	}
	args = map[string]string{}
	for _, m := range meta {
		for _, a := range m.Args {
			args[a.Key] = a.ValueString()
		}
	}
	return stages, args
}

// TestDockerfile holds what the image promises: Go of the version that go.mod names, packages by way of the scripts that CI uses too, an
// ordinary user.
func TestDockerfile(t *testing.T) {
	stages, args := dockerfile(t)
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(read(t, "go.mod"))
	if args["GO"] != string(version[1]) {
		t.Errorf("the image is built with Go %s, and go.mod wants %s", args["GO"], version[1])
	}
	if len(stages) != 2 {
		t.Fatalf("%d stages", len(stages))
	}
	user := ""
	for _, s := range stages {
		for _, c := range s.Commands {
			switch c := c.(type) {
			case *instructions.RunCommand:
				if strings.Contains(strings.Join(c.CmdLine, " "), "apt-get") {
					t.Error("packages are listed in scripts/lib/needs.sh, not in the Dockerfile")
				}
			case *instructions.UserCommand:
				user = c.User
			}
		}
	}
	if user != "rmatail" {
		t.Errorf("the image's user is %q", user)
	}
}

// image is a stage that was run: its files, and what the instructions have set.
type image struct {
	root, workdir, user string
	entrypoint, cmd     []string
}

// TestRealImage runs the stages of the Dockerfile in directories, with chroot in place of an engine, on Debian as debootstrap makes it and the
// Go of this machine. Then a node of the image runs as the image's user with one capability, and serves an append and a tail.
func TestRealImage(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, for chroot")
	}
	debootstrap := need(t, "debootstrap", "debootstrap")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	stages, args := dockerfile(t)
	dir := t.TempDir()
	base := filepath.Join(dir, "debian")
	must(t, exec.CommandContext(ctx, debootstrap, append([]string{"--variant=minbase", args["DEBIAN"], base}, mirror(args["DEBIAN"])...)...))
	host(t, base)

	built := map[string]*image{}
	var last *image
	for i, s := range stages {
		im := &image{root: filepath.Join(dir, fmt.Sprint("stage", i)), workdir: "/"}
		must(t, exec.CommandContext(ctx, "cp", "-a", "--reflink=auto", base, im.root))
		switch from := expand(s.BaseName, args); {
		case strings.HasPrefix(from, "golang:"):
			must(t, exec.CommandContext(ctx, "cp", "-a", runtime.GOROOT(), filepath.Join(im.root, "usr/local/go")))
			must(t, exec.CommandContext(ctx, "cp", "-aL", "/etc/ssl", filepath.Join(im.root, "etc"))) // golang's image has certificates
		case strings.HasPrefix(from, "debian:"):
		default:
			t.Fatalf("an image %q that this test does not know", from)
		}
		for _, c := range s.Commands {
			im.do(ctx, t, c, built)
		}
		built[s.Name], last = im, im
	}
	serve(ctx, t, last)
}

// mirror is where this machine has the release's packages from, if it does; debootstrap has a default.
func mirror(release string) []string {
	out, err := exec.Command("apt-get", "indextargets", "--format", "$(SITE) $(RELEASE)", "Created-By: Packages").Output()
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(out)) {
		if site, of, _ := strings.Cut(strings.TrimSpace(line), " "); of == release && strings.HasPrefix(site, "http") {
			return []string{site}
		}
	}
	return nil
}

// host gives a root the ways of this machine to packages.
func host(t *testing.T, root string) {
	t.Helper()
	must(t, exec.Command("cp", "-aT", "/etc/apt", filepath.Join(root, "etc/apt")))
	for _, f := range []string{"/etc/resolv.conf", "/etc/hosts"} {
		must(t, exec.Command("cp", "-L", f, filepath.Join(root, f)))
	}
	if keys := "/usr/share/keyrings"; exists(keys) {
		must(t, exec.Command("cp", "-aT", keys, filepath.Join(root, keys)))
	}
}

func expand(s string, args map[string]string) string {
	return os.Expand(s, func(k string) string { return args[k] })
}

// do carries out one instruction.
func (im *image) do(ctx context.Context, t *testing.T, c instructions.Command, built map[string]*image) {
	t.Helper()
	switch c := c.(type) {
	case *instructions.WorkdirCommand:
		im.workdir = path.Join(im.workdir, c.Path)
		must(t, exec.CommandContext(ctx, "mkdir", "-p", filepath.Join(im.root, im.workdir)))
	case *instructions.CopyCommand:
		for _, src := range c.SourcePaths {
			im.copy(ctx, t, c.From, src, c.DestPath, len(c.SourcePaths) > 1, built)
		}
	case *instructions.RunCommand:
		if !c.PrependShell {
			t.Fatalf("RUN %q without a shell", c.CmdLine)
		}
		start := time.Now()
		must(t, im.command(ctx, "", "/bin/sh", "-c", strings.Join(c.CmdLine, " ")))
		t.Logf("report: RUN %.50s... took %.0f s", strings.Join(c.CmdLine, " "), time.Since(start).Seconds())
	case *instructions.UserCommand:
		im.user = c.User
	case *instructions.EntrypointCommand:
		im.entrypoint = c.CmdLine
	case *instructions.CmdCommand:
		im.cmd = c.CmdLine
	case *instructions.VolumeCommand, *instructions.ExposeCommand:
	default:
		t.Fatalf("an instruction that this test does not know: %s", c.Name())
	}
}

// copy copies from another stage, or what git tracks and .dockerignore does not leave out.
func (im *image) copy(ctx context.Context, t *testing.T, from, src, dest string, several bool, built map[string]*image) {
	t.Helper()
	if !path.IsAbs(dest) {
		dest = path.Join(im.workdir, dest) + map[bool]string{true: "/"}[strings.HasSuffix(dest, "/") || dest == "."]
	}
	to := filepath.Join(im.root, dest)
	if from != "" {
		must(t, exec.CommandContext(ctx, "cp", "-a", filepath.Join(built[from].root, src), to))
		return
	}
	info, err := os.Stat(filepath.Join(root, src))
	if err != nil {
		t.Fatal(err)
	}
	if !info.IsDir() {
		if several || strings.HasSuffix(dest, "/") {
			to = filepath.Join(to, filepath.Base(src))
		}
		must(t, exec.CommandContext(ctx, "cp", "-a", filepath.Join(root, src), to))
		return
	}
	// The files as they are in the checkout, committed or not, without what git ignores.
	must(t, exec.CommandContext(ctx, "mkdir", "-p", to))
	script := `cd "$1" && git -c safe.directory='*' ls-files -z --cached --others --exclude-standard | xargs -0 sh -c 'for f; do [ ! -e "$f" ] || echo "$f"; done' sh | tar -c --no-recursion -T - | tar -x -C "$2"`
	must(t, exec.CommandContext(ctx, "sh", "-c", script, "sh", filepath.Join(root, src), to))
}

// command runs a program in the image, as root, or as its user with CAP_IPC_LOCK in the bounding set, as a runtime gives it.
func (im *image) command(ctx context.Context, user string, argv ...string) *exec.Cmd {
	cache, mod := goenv("GOCACHE"), goenv("GOMODCACHE")
	setup := `set -e
r=$1; w=$2; cache=$3; mod=$4; u=$5; shift 5
mount -t proc proc "$r/proc"; mount --rbind /dev "$r/dev"
if [ -x "$r/usr/local/go/bin/go" ]; then mkdir -p "$r/root/cache" "$r/root/mod"; mount --bind "$cache" "$r/root/cache"; mount --bind "$mod" "$r/root/mod"; fi
if [ -z "$u" ]; then exec chroot "$r" /bin/sh -c 'cd "$0" && exec "$@"' "$w" "$@"; fi
exec setpriv --bounding-set=-all,+ipc_lock,+sys_chroot,+setuid,+setgid --inh-caps=-all chroot --userspec="$u" --groups= "$r" /bin/sh -c 'cd "$0" && exec "$@"' "$w" "$@"`
	cmd := exec.CommandContext(ctx, "unshare", append([]string{"--mount", "--propagation", "private", "sh", "-c", setup, "sh", im.root, im.workdir, cache, mod, user}, argv...)...)
	cmd.Env = []string{"PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "GOCACHE=/root/cache", "GOMODCACHE=/root/mod", "GOTOOLCHAIN=local"}
	for _, name := range []string{"GOPROXY", "GOSUMDB", "GONOSUMDB", "GOFLAGS"} {
		if v := goenv(name); v != "" {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	for _, name := range []string{"http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "no_proxy"} {
		if v := os.Getenv(name); v != "" {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	return cmd
}

func goenv(name string) string {
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// serve starts a node as the image says, with addresses of this test, and uses it.
func serve(ctx context.Context, t *testing.T, im *image) {
	t.Helper()
	if len(im.entrypoint) == 0 || len(im.cmd) == 0 || im.user == "" {
		t.Fatalf("the image starts nothing: %+v", im)
	}
	out := must(t, im.command(ctx, "", "getcap", "/usr/local/bin/rmatail"))
	if !strings.Contains(out, "cap_ipc_lock=p") {
		t.Errorf("the program's capability: %q", out)
	}
	out = must(t, im.command(ctx, im.user, "rmatail", "version", "--json"))
	var v struct{ CGO bool }
	if err := json.Unmarshal([]byte(out), &v); err != nil || !v.CGO {
		t.Errorf("built without RDMA: %s", out)
	}
	// libibverbs and its drivers are there: the doctor finds no fault with them.
	report, _ := im.command(ctx, im.user, "rmatail", "doctor", "--json").Output()
	if !bytes.Contains(report, []byte(`libibverbs`)) || bytes.Contains(report, []byte(`libibverbs.so.1: cannot open`)) {
		t.Errorf("the doctor on libibverbs: %s", report)
	}

	listen, http := free(t), free(t)
	args := append(append([]string{}, im.entrypoint...), im.cmd...)
	for i, a := range args {
		switch a {
		case ":7440":
			args[i] = listen
		case ":7472":
			args[i] = http
		}
	}
	node := im.command(ctx, im.user, append(args, "--until-eof")...)
	stdin, err := node.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	node.Stderr = &log
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		stdin.Close()
		if err := node.Wait(); err != nil {
			t.Errorf("the node: %v: %s", err, log.String())
		}
	}()
	await(t, listen)
	in := im.command(ctx, im.user, "rmatail", "append", "--server", listen, "logs/0000")
	in.Stdin = strings.NewReader(strings.Repeat("a line of a log\n", 1000) + "the last\n")
	must(t, in)
	for _, transport := range []string{"shm", "tcp"} {
		tail := im.command(ctx, im.user, "rmatail", "tail", "--server", listen, "--transport", transport, "logs/0000")
		if out := must(t, tail); !strings.Contains(out, "the last") {
			t.Errorf("over %s: %q", transport, out)
		}
	}
	t.Logf("report: a node of the image ran as %s", im.user)
}

// must runs a command and returns its output.
func must(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		tail := stdout.String() + stderr.String()
		t.Fatalf("%s: %v: %s", strings.Join(cmd.Args[max(0, len(cmd.Args)-3):], " "), err, tail[max(0, len(tail)-3000):])
	}
	return stdout.String() + stderr.String()
}
