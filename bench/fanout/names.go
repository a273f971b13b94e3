package fanout

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Program is what brings a producer's records to consumers.
type Program int

// The programs: ours by transport, the naive consumer, the peers, the floors.
const (
	SHM Program = iota
	RDMA
	TCP
	Naive
	RedisStreams
	RedisGet
	JetStream
	Nginx
	Memcached
	Plain
	Pread
	programs int = iota
)

var programNames = [programs]string{"shm", "rdma", "tcp", "naive", "redis-streams", "redis-get", "jetstream", "nginx", "memcached", "plain", "pread"}

func (p Program) String() string { return programNames[p] }

// Programs are all, in the order of the table.
func Programs() (all []Program) {
	for p := range programs {
		all = append(all, Program(p))
	}
	return all
}

// ours says whether a program's node is rmatail's.
func (p Program) ours() bool { return p <= Naive }

// polls says whether a program's consumers can only poll.
func (p Program) polls() bool {
	return p == Naive || p == RedisGet || p == Nginx || p == Memcached || p == Pread
}

// chunks says whether a program stores records of 4 KB alone.
func (p Program) chunks() bool { return p == RedisGet || p == Memcached }

// MarshalText implements encoding.TextMarshaler.
func (p Program) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler; it fails with ErrConfig.
func (p *Program) UnmarshalText(b []byte) error { return parse(programNames[:], "program", b, p) }

// Workload is what the producer does.
type Workload int

// The workloads.
const (
	Beat       Workload = iota // 64 records of 4 KB a second
	Lines                      // records of 200 B, 1 MB/s
	Flood                      // records of 200 B, as fast as they are taken
	Saturation                 // 4,096 records of 4 KB a second
	workloads  int      = iota
)

var workloadNames = [workloads]string{"beat", "lines", "flood", "saturation"}

func (w Workload) String() string { return workloadNames[w] }

// Workloads are all, in the order of the table.
func Workloads() []Workload { return []Workload{Beat, Lines, Flood, Saturation} }

// MarshalText implements encoding.TextMarshaler.
func (w Workload) MarshalText() ([]byte, error) { return []byte(w.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler; it fails with ErrConfig.
func (w *Workload) UnmarshalText(b []byte) error { return parse(workloadNames[:], "workload", b, w) }

const (
	lineBytes  = 200
	blockBytes = 4096
)

// record is the size of the workload's records.
func (w Workload) record() int {
	if w == Lines || w == Flood {
		return lineBytes
	}
	return blockBytes
}

// perSecond is how many records there are in a second; 0: as many as are taken.
func (w Workload) perSecond() int {
	return [workloads]int{Beat: 64, Lines: 5000, Saturation: 4096}[w]
}

// tick is how often the producer writes what is due.
func (w Workload) tick() time.Duration {
	if w == Beat {
		return time.Second / 64
	}
	return time.Millisecond
}

func parse[T ~int](names []string, what string, text []byte, to *T) error {
	i := slices.Index(names, string(text))
	if i < 0 {
		return fmt.Errorf("%w: %s %q, want %s", ErrConfig, what, text, strings.Join(names, ", "))
	}
	*to = T(i)
	return nil
}
