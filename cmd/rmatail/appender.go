package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
	"github.com/rmatail/rmatail/producer"
	"github.com/rmatail/rmatail/rdma"
)

// appender appends to one shard. One caller at a time.
type appender interface {
	// append returns where p lies. p is durable by policy then.
	append(ctx context.Context, p []byte) (pos, end uint64, err error)
	seal(context.Context) error
	close(context.Context) error
	retries() uint64
}

func (c *appendCmd) open(p *process) (appender, error) {
	if c.Dir != "" {
		return c.openDir(p)
	}
	addr := storeFlags{Server: c.Server}.address()
	a := &remoteAppender{shard: c.Shard.String(), retryFor: c.RetryFor,
		dial: func(ctx context.Context) (*wire.Client, error) { return dial(ctx, p, addr) },
		note: func(err error) { p.log.Warn("trying again", "err", err) }}
	ctx, cancel := context.WithTimeout(p, openTimeout)
	defer cancel()
	if err := a.connect(ctx); err != nil {
		return nil, err
	}
	return a, nil
}

// remoteAppender appends through a node, and again when the node was away.
//
// Each append says at which offset it expects to lie. That is what makes a
// repetition safe: if the first try was carried out after all, the offset is no
// longer the length, and the bytes there tell whose they are.
type remoteAppender struct {
	shard    string
	retryFor time.Duration
	dial     func(context.Context) (*wire.Client, error)
	note     func(error)

	client *wire.Client // nil: not connected
	log    *durable.Remote
	end    uint64 // length, as far as known
	tried  uint64
}

func (a *remoteAppender) retries() uint64 { return a.tried }

// connect dials and learns the length.
func (a *remoteAppender) connect(ctx context.Context) error {
	if a.client != nil {
		a.client.Close()
		a.client = nil
	}
	client, err := a.dial(ctx)
	if err != nil {
		return err
	}
	a.client, a.log = client, durable.NewRemote(client)
	i, err := a.log.Stat(ctx, a.shard)
	if errors.Is(err, wire.ErrUnknownShard) { // the first append creates it
		return nil
	}
	if err != nil {
		return err
	}
	if i.Sealed {
		return fmt.Errorf("%w: %s at %d; append to another shard", durable.ErrSealed, a.shard, i.Length)
	}
	a.end = i.Length
	return nil
}

func (a *remoteAppender) append(ctx context.Context, p []byte) (pos, end uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, a.retryFor+openTimeout)
	defer cancel()
	var backoff rdma.Backoff
	giveUp := time.Now().Add(a.retryFor)
	at, doubt := a.end, false // doubt: p may lie at at already
	for {
		if a.client != nil {
			pos, end, err = a.attempt(ctx, at, p)
		} else {
			err = a.connect(ctx)
			if err == nil {
				continue
			}
		}
		switch {
		case err == nil:
			a.end = end
			return pos, end, nil
		case errors.Is(err, wire.ErrOffset):
			if doubt && a.holds(ctx, at, p) {
				a.end = max(a.end, at+uint64(len(p)))
				return at, at + uint64(len(p)), nil
			}
			at, doubt = lengthOf(err, at), false
			continue
		case !away(err) || time.Now().After(giveUp):
			return 0, 0, err
		}
		doubt = doubt || errors.Is(err, durable.ErrUnknownOutcome)
		a.tried++
		a.note(err)
		if !sleep(ctx, backoff.Next(nil)) {
			return 0, 0, err
		}
		if a.client != nil && a.client.Err() != nil {
			a.client.Close()
			a.client = nil
		}
	}
}

// attempt bounds one try, so that a node that hangs is tried again too.
func (a *remoteAppender) attempt(ctx context.Context, at uint64, p []byte) (pos, end uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	return a.log.Append(ctx, a.shard, at, p)
}

const attemptTimeout = 10 * time.Second

// holds says whether p lies at pos.
func (a *remoteAppender) holds(ctx context.Context, pos uint64, p []byte) bool {
	have := make([]byte, len(p))
	n, err := a.log.ReadAt(ctx, a.shard, pos, have)
	return err == nil && n == len(p) && bytes.Equal(have, p)
}

// lengthOf returns the length that a refused offset came with.
func lengthOf(err error, otherwise uint64) uint64 {
	var refused *wire.Error
	if errors.As(err, &refused) && refused.Status == wire.StatusOffset {
		return refused.Arg0
	}
	return otherwise
}

func (a *remoteAppender) seal(context.Context) error {
	return fmt.Errorf("%w: sealing needs --dir", errUsage)
}

func (a *remoteAppender) close(context.Context) error {
	if a.client == nil {
		return nil
	}
	return a.client.Close()
}

// sleep waits, and says whether ctx let it.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// dirAppender appends to a durable directory, and mirrors it into a node's cache
// if there is one.
type dirAppender struct {
	dir   *durable.Dir
	cache *producer.RemoteCache // nil: none
	*producer.Appender
}

func (c *appendCmd) openDir(p *process) (a appender, err error) {
	ctx, cancel := context.WithTimeout(p, openTimeout)
	defer cancel()
	d := &dirAppender{}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.closeStore())
		}
	}()
	if d.dir, err = durable.Open(c.Dir, durable.Options{Policy: durable.Policy(c.Policy), Logger: p.quiet}); err != nil {
		return nil, err
	}
	log, err := d.dir.Log(c.Shard.String())
	if err != nil {
		return nil, err
	}
	cfg := producer.Config{Shard: c.Shard.Shard, Log: log, Logger: p.quiet,
		ReadTail: func(ctx context.Context, pos uint64, b []byte) (int, error) {
			return d.dir.ReadAt(ctx, c.Shard.String(), pos, b)
		}}
	if c.Server != "" {
		d.cache = producer.NewRemoteCache(func(ctx context.Context) (*wire.Client, error) { return dial(ctx, p, c.Server) })
		cfg.Cache = d.cache
	}
	if d.Appender, err = producer.Open(ctx, cfg); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return d, nil
}

func (a *dirAppender) append(ctx context.Context, p []byte) (pos, end uint64, err error) {
	ack, err := a.Appender.Append(ctx, p)
	if err == nil {
		pos, err = ack.Wait(ctx)
	}
	return pos, pos + uint64(len(p)), err
}

func (a *dirAppender) seal(ctx context.Context) error { return a.Appender.Seal(ctx) }
func (a *dirAppender) retries() uint64                { return 0 }

func (a *dirAppender) close(ctx context.Context) error {
	return errors.Join(a.Appender.Close(ctx), a.closeStore())
}

func (a *dirAppender) closeStore() (err error) {
	if a.cache != nil {
		err = a.cache.Close()
	}
	if a.dir != nil {
		err = errors.Join(err, a.dir.Close())
	}
	return err
}
