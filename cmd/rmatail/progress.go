package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// screen is what log records are written to: standard error, or what keeps them
// apart from a progress bar there.
type screen struct {
	mu struct {
		sync.Mutex
		out io.Writer
	}
}

func newScreen(out io.Writer) *screen {
	s := &screen{}
	s.mu.out = out
	return s
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.out.Write(p)
}

func (s *screen) turn(out io.Writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.out = out
}

// redraw is how often progress is drawn.
const redraw = 200 * time.Millisecond

// showProgress draws what account says, with a bar when the input's size is
// known, until the function it returns is called. It draws on a terminal only.
func showProgress(p *process, account *ledger, size int64) (end func()) {
	if terminal(p.stderr) == nil {
		return func() {}
	}
	bars := mpb.New(mpb.WithOutput(p.stderr), mpb.WithRefreshRate(redraw))
	began := time.Now()
	text := decor.Any(func(decor.Statistics) string {
		s := account.sum()
		rate := float64(s.Bytes) / time.Since(began).Seconds()
		return fmt.Sprintf("%s  %s/s  %d lines  durable to %d", inUnits(float64(s.Bytes)), inUnits(rate), s.Lines, s.To)
	})
	var bar *mpb.Bar
	if size > 0 {
		bar = bars.New(size, mpb.BarStyle(), mpb.BarWidth(32), mpb.AppendDecorators(decor.Percentage(), decor.Name("  "), text))
	} else {
		bar = bars.New(0, mpb.NopStyle(), mpb.PrependDecorators(text))
	}
	p.screen.turn(bars)
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(redraw / 2)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				bar.SetCurrent(min(int64(account.sum().Input), max(size-1, 0))) // a full bar would end by itself
			case <-quit:
				return
			}
		}
	}()
	return func() {
		close(quit)
		<-ended
		bar.Abort(true)
		bars.Wait()
		p.screen.turn(p.stderr)
	}
}

// inUnits prints bytes for a reader in a hurry.
func inUnits(n float64) string {
	unit := 0
	for n >= 1024 && unit < 4 {
		n, unit = n/1024, unit+1
	}
	if unit == 0 {
		return fmt.Sprintf("%.0f B", n)
	}
	return fmt.Sprintf("%.1f %s", n, []string{"B", "KiB", "MiB", "GiB", "TiB"}[unit])
}
