package sink

import (
	"context"
	"errors"
	"fmt"

	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/fallback/wire"
)

// stored is a connection to a shard of a durable store of its own.
type stored struct {
	dir *durable.Dir // closed with its log
	log *durable.Log
}

// store opens the real sink's connections in a new directory.
func store(path string) (all []connection, err error) {
	dir, err := durable.Open(path, durable.Options{Policy: durable.Always})
	if err != nil {
		return nil, err
	}
	for i := range connections {
		log, err := dir.Log(shardName(i))
		if err != nil {
			return nil, errors.Join(err, dir.Close())
		}
		all = append(all, &stored{dir, log})
	}
	return all, nil
}

func shardName(i int) string { return fmt.Sprintf("bench/%04d", i) }

func (s *stored) write(ctx context.Context, bytes []byte) error {
	_, err := s.log.Append(ctx, wire.NoOffset, bytes)
	return err
}

func (s *stored) close() error {
	err := s.log.Close()
	return errors.Join(err, s.dir.Close()) // every connection does: closing twice is fine
}
