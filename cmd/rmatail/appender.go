package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
	"github.com/rmatail/rmatail/producer"
)

// dirAppender appends to a durable directory, and mirrors it into the caches of a
// node or a cluster if there are any.
type dirAppender struct {
	dir   *durable.Dir
	cache *producer.ReplicaCache // nil: none
	*producer.Appender
}

// openDir opens the directory; source has the nodes that mirror it, or is nil.
func (c *appendCmd) openDir(p *process, dir string, source cluster.Source) (a *dirAppender, err error) {
	ctx, cancel := context.WithTimeout(p, openTimeout)
	defer cancel()
	d := &dirAppender{}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.closeStore())
		}
	}()
	if d.dir, err = durable.Open(dir, durable.Options{Policy: durable.Policy(c.Policy), Logger: p.quiet}); err != nil {
		return nil, err
	}
	log, err := d.dir.Log(c.Shard.String())
	if err != nil {
		return nil, err
	}
	cfg := producer.Config{Shard: c.Shard.Shard, Log: log, Logger: p.log, WaitForSpace: c.RetryFor,
		// The input comes in batches already.
		Limits: producer.Limits{QueueBytes: int(c.InFlight), BatchBytes: durable.MaxAppend, Linger: -1},
		ReadTail: func(ctx context.Context, pos uint64, b []byte) (int, error) {
			return d.dir.ReadAt(ctx, c.Shard.String(), pos, b)
		}}
	if source != nil {
		view, _ := source.View()
		if d.cache, err = producer.NewReplicaCache(producer.ReplicaConfig{
			Source: source, Store: d.dir, TTL: view.TTL, Owner: writerName(), Logger: p.quiet,
			Dial: func(ctx context.Context, n cluster.Node) (*wire.Client, error) { return dial(ctx, p, n.Addr) },
		}); err != nil {
			return nil, errors.Join(err, log.Close())
		}
		cfg.Cache = d.cache
	}
	if d.Appender, err = producer.Open(ctx, cfg); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return d, nil
}

// writerName is who holds the lease of what this process writes, for people.
func writerName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("append %.40s:%d", host, os.Getpid())
}

func (a *dirAppender) seal(ctx context.Context) error { return a.Appender.Seal(ctx) }

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
