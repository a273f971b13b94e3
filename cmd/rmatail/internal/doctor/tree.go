package doctor

import (
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// text is a file's content without white space around it, "" if it cannot be read.
func (h *Host) text(name string) string {
	b, err := fs.ReadFile(h.Root, name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// number is a file that holds one; ok is false when it does not.
func (h *Host) number(name string) (n int64, ok bool) {
	n, err := strconv.ParseInt(h.text(name), 0, 64)
	return n, err == nil
}

func (h *Host) exists(name string) bool {
	_, err := fs.Stat(h.Root, name)
	return err == nil
}

// entries are the names in a directory, none if it cannot be read.
func (h *Host) entries(dir string) []string {
	list, err := fs.ReadDir(h.Root, dir)
	if err != nil {
		return nil
	}
	names := make([]string, 0, len(list))
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// linkBase is the last part of where a symbolic link points to: sysfs names
// drivers so.
func (h *Host) linkBase(name string) string {
	target, err := fs.ReadLink(h.Root, name)
	if err != nil {
		return ""
	}
	return path.Base(target)
}

// find returns the files that a pattern below one of the directories matches.
func (h *Host) find(pattern string, dirs ...string) []string {
	var found []string
	for _, d := range dirs {
		names, err := fs.Glob(h.Root, path.Join(d, pattern))
		if err == nil {
			found = append(found, names...)
		}
	}
	return found
}

// command reports whether a program is installed.
func (h *Host) command(name string) bool {
	return len(h.find(name, "usr/sbin", "usr/bin", "sbin", "bin", "usr/local/sbin", "usr/local/bin")) > 0
}

// release is the kernel's, "6.1.0-57-amd64".
func (h *Host) release() string { return h.text("proc/sys/kernel/osrelease") }

// kernel is the kernel's version as comparable numbers; nil if not known.
func (h *Host) kernel() []int { return versionOf(h.release()) }

// versionOf reads the numbers that a version begins with.
func versionOf(s string) []int {
	var v []int
	for len(v) < 3 {
		digits := strings.TrimLeft(s, "0123456789")
		n, err := strconv.Atoi(s[:len(s)-len(digits)])
		if err != nil {
			break
		}
		v = append(v, n)
		var more bool
		if s, more = strings.CutPrefix(digits, "."); !more {
			break
		}
	}
	return v
}

// before reports whether a version is known and below another one.
func before(v []int, than ...int) bool { return len(v) > 0 && slices.Compare(v, than) < 0 }

// distribution is ID of os-release: debian, ubuntu, fedora, rhel, ...
func (h *Host) distribution() string {
	for line := range strings.Lines(h.text("etc/os-release")) {
		if id, ok := strings.CutPrefix(strings.TrimSpace(line), "ID="); ok {
			return strings.Trim(id, `"`)
		}
	}
	return ""
}

// install is the command that installs a package, by the name that it has where
// packages are .deb, and where they are .rpm.
func (h *Host) install(deb, rpm string) string {
	switch h.distribution() {
	case "fedora", "rhel", "centos", "rocky", "almalinux", "ol", "amzn":
		return "dnf install " + rpm
	case "opensuse-leap", "opensuse-tumbleweed", "sles":
		return "zypper install " + rpm
	}
	return "apt-get install " + deb
}

// maxConfig bounds an unpacked kernel configuration: they have some 300 KiB.
const maxConfig = 8 << 20

// config is what the kernel was built with: "y", "m", "n"; "" if not known.
func (h *Host) config(option string) string {
	release := h.release()
	all := h.text("boot/config-" + release)
	if all == "" {
		all = h.text("lib/modules/" + release + "/config")
	}
	if b, err := fs.ReadFile(h.Root, "proc/config.gz"); all == "" && err == nil {
		if z, err := gzip.NewReader(bytes.NewReader(b)); err == nil {
			plain, err := io.ReadAll(io.LimitReader(z, maxConfig))
			if err == nil {
				all = string(plain)
			}
		}
	}
	if all == "" {
		return ""
	}
	for line := range strings.Lines(all) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), option+"="); ok {
			return value
		}
	}
	return "n"
}

// container is what kind of container this process is in, "" none that is known.
func (h *Host) container() string {
	switch {
	case h.Env["KUBERNETES_SERVICE_HOST"] != "":
		return "kubernetes"
	case h.exists(".dockerenv"):
		return "docker"
	case h.exists("run/.containerenv"):
		return "podman"
	}
	group := h.text("proc/self/cgroup")
	for _, kind := range []string{"kubepods", "docker", "libpod", "containerd", "lxc"} {
		if strings.Contains(group, kind) {
			return strings.Replace(kind, "kubepods", "kubernetes", 1)
		}
	}
	return ""
}

// Capabilities (linux/capability.h).
const (
	capIPCLock   = 14
	capSysModule = 16
)

// capable reports whether a set of this process ("CapEff", "CapBnd") has a
// capability.
func (h *Host) capable(set string, capability uint) bool {
	for line := range strings.Lines(h.text("proc/self/status")) {
		if value, ok := strings.CutPrefix(line, set+":"); ok {
			bits, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
			return err == nil && bits>>capability&1 == 1
		}
	}
	return false
}

// userNamespace reports whether this process is in a user namespace of its own,
// where the capabilities that it has do not count for the kernel's memory.
func (h *Host) userNamespace() bool {
	fields := strings.Fields(h.text("proc/self/uid_map"))
	return len(fields) >= 3 && (fields[0] != "0" || fields[1] != "0" || fields[2] != "4294967295")
}
