package read

import "time"

// cpuClock is the processor time of a process; false: it cannot be known.
type cpuClock func() (time.Duration, bool)
