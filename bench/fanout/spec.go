package fanout

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// spec is what a producer or a process of consumers gets as its first line.
type spec struct {
	Program   Program       `json:"program"`
	Workload  Workload      `json:"workload"`
	Addr      string        `json:"addr,omitempty"` // of the server
	Dir       string        `json:"dir,omitempty"`  // of the files that are followed
	Socket    string        `json:"socket,omitempty"`
	Device    string        `json:"device,omitempty"`
	Stream    string        `json:"stream"`
	Shards    int           `json:"shards"`
	Consumers int           `json:"consumers"` // of this process
	Poll      time.Duration `json:"poll"`      // 0: the program's own way
}

// window is the time that is measured, by clock, and how long after it late records
// are waited for.
type window struct {
	From  int64 `json:"from"`
	To    int64 `json:"to"`
	Grace int64 `json:"grace"`
}

// Part is what a child is.
type Part string

// The parts. The command that Config.Part has is followed by one of them.
const (
	Produce Part = "produce"
	Consume Part = "consume"
	Serve   Part = "serve" // the plain server
)

// RunPart is a child of the benchmark. It ends when in does.
func RunPart(ctx context.Context, part Part, in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	switch part {
	case Serve:
		return servePlain(ctx, lines, out)
	case Produce, Consume:
	default:
		return fmt.Errorf("%w: part %q", ErrConfig, part)
	}
	var s spec
	if err := readLine(lines, &s); err != nil {
		return err
	}
	if part == Produce {
		return produce(ctx, s, lines, out)
	}
	return consume(ctx, s, lines, out)
}

func readLine(in *bufio.Reader, to any) error {
	line, err := in.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("line of the benchmark: %w", err)
	}
	return json.Unmarshal(line, to)
}

// say writes a line for the benchmark.
func say(out io.Writer, v any) error { return json.NewEncoder(out).Encode(v) }

// up is what a part says when it is ready.
type up struct {
	Ready bool   `json:"ready"`
	Addr  string `json:"addr,omitempty"`
}
