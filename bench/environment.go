package bench

import (
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// Environment is where numbers were measured. Numbers without it say nothing.
type Environment struct {
	Time       time.Time `json:"time"`
	Revision   string    `json:"revision"` // of this binary's source; "+" behind it: with changes
	Go         string    `json:"go"`
	Platform   string    `json:"platform"`
	CPU        string    `json:"cpu"`
	CPUs       int       `json:"cpus"`
	GOMAXPROCS int       `json:"gomaxprocs"`
	Kernel     string    `json:"kernel"`
	// LoadBefore and LoadAfter are the load averages of the last minute: above
	// the number of processors, others were measured too.
	LoadBefore string `json:"load_before"`
	LoadAfter  string `json:"load_after"`
}

// ThisEnvironment describes the process and its host now.
func ThisEnvironment() Environment {
	e := Environment{Time: time.Now().UTC().Truncate(time.Second), Revision: revision(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		CPU: "unknown", CPUs: runtime.NumCPU(), GOMAXPROCS: runtime.GOMAXPROCS(0), Kernel: firstLine("/proc/sys/kernel/osrelease"), LoadBefore: load()}
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				e.CPU = strings.TrimSpace(value)
				break
			}
		}
	}
	return e
}

// End notes the load at the end of the measurement.
func (e *Environment) End() { e.LoadAfter = load() }

// load is the load average of the last minute.
func load() string {
	one, _, _ := strings.Cut(firstLine("/proc/loadavg"), " ")
	return one
}

// firstLine is the first line of a file of the kernel's, "unknown" where there is none.
func firstLine(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return line
}

func revision() string {
	b, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	rev := "unknown"
	for _, s := range b.Settings {
		switch {
		case s.Key == "vcs.revision":
			rev = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			rev += "+"
		}
	}
	return rev
}
