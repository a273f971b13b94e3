package states

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/rmatail/rmatail/chunkstore/cause"
	"github.com/rmatail/rmatail/chunkstore/survey"
)

// ErrNoConsumer is returned when an address has metrics, and none of them is a
// consumer's.
var ErrNoConsumer = errors.New("no reader's metrics there")

// Consumer is what a process that reads tells of its shards.
type Consumer struct {
	Addr   string
	shards map[string]*seen
}

// seen is one shard by a consumer's metrics.
type seen struct {
	state      cause.State
	lag, waits float64 // bytes, seconds
}

// metricsMost bounds a page of metrics.
const metricsMost = 16 << 20

// Ask reads the metrics of a consumer, at host:port or a whole URL.
func Ask(ctx context.Context, addr string) (Consumer, error) {
	url := addr
	if !strings.Contains(url, "://") {
		url = "http://" + addr + "/metrics"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return Consumer{}, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return Consumer{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return Consumer{}, fmt.Errorf("%s answers %s", url, resp.Status)
	}
	c, err := parse(addr, io.LimitReader(resp.Body, metricsMost))
	if err != nil {
		return Consumer{}, fmt.Errorf("%s: %w", url, err)
	}
	return c, nil
}

var (
	sample = regexp.MustCompile(`^rmatail_reader_shard_(state|lag_bytes|lag_seconds)\{(.*)\} ([^ ]+)$`)
	label  = regexp.MustCompile(`([a-z_]+)="((?:[^"\\]|\\.)*)"`)
)

// parse takes the samples that name a shard out of a page of metrics.
func parse(addr string, page io.Reader) (Consumer, error) {
	c := Consumer{Addr: addr, shards: map[string]*seen{}}
	lines := bufio.NewScanner(page)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		m := sample.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		v, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			return c, fmt.Errorf("sample %q: %w", lines.Text(), err)
		}
		labels := map[string]string{}
		for _, l := range label.FindAllStringSubmatch(m[2], -1) {
			labels[l[1]] = l[2] // names of shards have nothing to escape
		}
		s := c.shards[labels["shard"]]
		if s == nil {
			s = &seen{}
			c.shards[labels["shard"]] = s
		}
		switch {
		case m[1] == "lag_bytes":
			s.lag = max(s.lag, v)
		case m[1] == "lag_seconds":
			s.waits = max(s.waits, v)
		case v == 1:
			var state cause.State
			if err := state.UnmarshalText([]byte(labels["state"])); err != nil {
				return c, err
			}
			if s.state == cause.Unknown || survey.Rank(state) < survey.Rank(s.state) {
				s.state = state
			}
		}
	}
	if err := lines.Err(); err != nil {
		return c, err
	}
	if len(c.shards) == 0 {
		return c, ErrNoConsumer
	}
	return c, nil
}

// verdict is what the consumer tells of a shard; ok is false if it tells nothing.
func (c *Consumer) verdict(shard string) (v cause.Verdict, ok bool) {
	s := c.shards[shard]
	if s == nil {
		return v, false
	}
	return cause.Verdict{State: s.state, Why: fmt.Sprintf("consumer at %s: %.0f bytes behind, the oldest for %.1f s", c.Addr, s.lag, s.waits)}, true
}
