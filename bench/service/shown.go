package service

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/rmatail/rmatail/chunkstore"
	"github.com/rmatail/rmatail/chunkstore/server"
	"github.com/rmatail/rmatail/fallback/wire"
)

const (
	// shownShards are open for append in a node that is looked at: each has a row of
	// the page and series of the metrics.
	shownShards = 50
	shownArena  = 64 << 20
	// lookEvery is how often the metrics are scraped. The page takes its own samples, a
	// second apart.
	lookEvery = time.Second
)

// shown is a node with a store, a page and metrics, and those who look at it.
type shown struct {
	node
	dir     string
	http    *http.Client
	looking sync.WaitGroup
	ctx     context.Context
	cancel  context.CancelFunc
	failed  chan error // the first error of who looks
}

func newShown(ctx context.Context, p Phase) (*shown, error) {
	dir, err := os.MkdirTemp("", "rmatail-bench-*")
	if err != nil {
		return nil, err
	}
	s, err := server.New(server.Config{Listen: "127.0.0.1:0", HTTP: "127.0.0.1:0", Dir: dir, Arena: chunkstore.Config{Bytes: shownArena}, Socket: server.SocketNone, RDMAMode: server.RDMAOff})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	serving, stop := context.WithCancel(context.Background())
	n := &shown{node: node{s: s, done: make(chan error, 1), stop: stop}, dir: dir, http: &http.Client{Transport: &http.Transport{}}, failed: make(chan error, 1)}
	n.ctx, n.cancel = context.WithCancel(ctx)
	go func() { n.done <- s.Serve(serving) }()
	if err := n.fill(ctx); err != nil {
		return nil, errors.Join(err, n.close())
	}
	if !p.Watched {
		return n, nil
	}
	first := make(chan struct{})
	n.looking.Go(func() { n.tell(n.follow(first)) })
	n.looking.Go(func() { n.tell(n.scrape()) })
	select {
	case <-first:
		return n, nil
	case err := <-n.failed:
		return nil, errors.Join(err, n.close())
	}
}

// fill makes shards.
func (n *shown) fill(ctx context.Context) error {
	c, err := wire.Dial(ctx, n.addr(), wire.Options{Name: "bench"})
	if err != nil {
		return err
	}
	defer c.Close()
	data := make([]byte, 100_000)
	for i := range shownShards {
		a := wire.Append{Offset: wire.NoOffset, Shard: fmt.Appendf(nil, "bench/%04d", i), Data: data}
		head, err := a.AppendTo(nil)
		if err != nil {
			return err
		}
		if _, err := c.Call(ctx, wire.OpAppend, head, data); err != nil {
			return fmt.Errorf("append: %w", err)
		}
	}
	return nil
}

// tell keeps the first error of who looks, unless the phase has ended.
func (n *shown) tell(err error) {
	if err == nil || n.ctx.Err() != nil {
		return
	}
	select {
	case n.failed <- err:
	default:
	}
}

func (n *shown) get(path string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(n.ctx, http.MethodGet, "http://"+n.s.HTTPAddr().String()+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := n.http.Do(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("%s: %s", path, resp.Status), resp.Body.Close())
	}
	return resp, nil
}

// follow takes the page's events; first is closed with the first frame.
func (n *shown) follow(first chan struct{}) error {
	resp, err := n.get("/events")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	in := bufio.NewReaderSize(resp.Body, 64<<10)
	for events := 0; ; {
		line, err := in.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
		if string(line) == "event: frame\n" {
			if events++; events == 1 {
				close(first)
			}
		}
	}
}

func (n *shown) scrape() error {
	t := time.NewTicker(lookEvery)
	defer t.Stop()
	for {
		resp, err := n.get("/metrics")
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			return err
		}
		select {
		case <-t.C:
		case <-n.ctx.Done():
			return nil
		}
	}
}

func (n *shown) close() error {
	n.cancel()
	n.looking.Wait()
	n.http.CloseIdleConnections()
	err := errors.Join(n.node.close(), os.RemoveAll(n.dir))
	select {
	case failed := <-n.failed:
		return errors.Join(err, failed)
	default:
		return err
	}
}
