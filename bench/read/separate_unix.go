//go:build unix

package read

import (
	"os/exec"
	"syscall"
)

// separate puts a child into a process group of its own, so that Ctrl-C reaches
// this process alone.
func separate(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
