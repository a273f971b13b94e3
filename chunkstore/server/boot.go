package server

import (
	"os"
	"strings"

	"github.com/rmatail/rmatail/fallback/wire"
)

// bootID names the running kernel, so that a consumer knows that it shares one
// with the node: random(4), "boot_id". Empty where there is none.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	id := strings.TrimSpace(string(b))
	return id[:min(len(id), wire.MaxName)]
}
