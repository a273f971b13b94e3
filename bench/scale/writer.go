package scale

import (
	"context"
	"sync"
	"time"

	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/durable"
	"github.com/rmatail/rmatail/producer"
)

// Writes is what writers put into the nodes, of all shards together.
type Writes struct {
	// PutsPerBatch and PublishesPerBatch are those of one replica each.
	PutsPerBatch      float64 `json:"puts_per_batch"`
	PublishesPerBatch float64 `json:"publishes_per_batch"`
	BytesPerByte      float64 `json:"bytes_per_byte"`
	// DataGbps and DataPuts are what a data node takes, MetadataPublishes what a
	// metadata node takes, on average.
	DataGbps          float64 `json:"data_gbps"`
	DataPuts          float64 `json:"data_puts_per_second"`
	MetadataPublishes float64 `json:"metadata_publishes_per_second"`
}

// writerBatches is how many batches the real Appender writes to learn what one costs.
const writerBatches = 256

// writes runs the real Appender over a log and a cache that only count.
func writes(e Experiment, net Network, view *cluster.View) (Writes, error) {
	cycle := net.Flush + 2*net.RTT
	perSecond := min(1/cycle.Seconds(), e.shardRate()/float64(e.RecordBytes))
	size := max(int(e.shardRate()/perSecond)/e.RecordBytes, 1) * e.RecordBytes
	c := &countingCache{}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	a, err := producer.Open(ctx, producer.Config{Shard: layout.Shard{Stream: "streama"}, Log: &countingLog{}, Cache: c, Heartbeat: time.Hour})
	if err != nil {
		return Writes{}, err
	}
	defer a.Close(ctx)
	batch := make([]byte, size)
	for range writerBatches {
		ack, err := a.Append(ctx, batch)
		if err != nil {
			return Writes{}, err
		}
		if _, err := ack.Wait(ctx); err != nil {
			return Writes{}, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	w := Writes{PutsPerBatch: float64(c.mu.puts) / writerBatches, PublishesPerBatch: float64(c.mu.publishes) / writerBatches,
		BytesPerByte: float64(c.mu.bytes) / float64(writerBatches*size)}
	shards := float64(e.Streams * e.Shards)
	w.DataPuts = shards * perSecond * w.PutsPerBatch * float64(view.Full) / float64(e.DataNodes)
	w.DataGbps = shards * e.shardRate() * 8 / 1e9 * w.BytesPerByte * float64(view.Full) / float64(e.DataNodes)
	w.MetadataPublishes = shards * perSecond * w.PublishesPerBatch * float64(view.MetadataReplicas) / float64(e.MetadataNodes)
	return w, nil
}

// countingCache takes everything.
type countingCache struct {
	mu struct {
		sync.Mutex
		puts, publishes, bytes int
	}
}

func (c *countingCache) Put(_ layout.Shard, puts []layout.Put, _ []error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range puts {
		c.mu.puts++
		c.mu.bytes += len(p.Data)
	}
}

func (c *countingCache) Publish(layout.Publication) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.publishes++
	return nil
}

// countingLog is durable at once, and keeps nothing.
type countingLog struct{ end uint64 }

func (l *countingLog) Append(_ context.Context, off uint64, p []byte) (uint64, error) {
	l.end = off + uint64(len(p))
	return l.end, nil
}

func (l *countingLog) Info() durable.Info {
	return durable.Info{Incarnation: incarnation, Length: l.end}
}
func (l *countingLog) Flush(context.Context) error { return nil }
func (l *countingLog) Seal() error                 { return nil }
func (l *countingLog) Close() error                { return nil }
