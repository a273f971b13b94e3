//go:build !linux

package child

import "time"

// CPU is known on Linux only.
func (p *Process) CPU() (time.Duration, bool) { return 0, false }
