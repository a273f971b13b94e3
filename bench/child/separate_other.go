//go:build !linux

package child

import "os/exec"

func separate(*exec.Cmd) {}

func bind(*exec.Cmd) {}
