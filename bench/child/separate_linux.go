package child

import (
	"os/exec"
	"syscall"
)

// separate puts a child into a process group of its own, so that Ctrl-C reaches
// this process alone.
func separate(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// bind has the kernel kill a child, in a process group of its own, with the thread
// that starts it: prctl(2), PR_SET_PDEATHSIG. Threads end with this process, as
// no goroutine that is locked to one starts children.
func bind(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
