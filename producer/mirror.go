package producer

import (
	"errors"
	"slices"
	"time"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/wire"
)

// mirror brings the durable bytes of one shard into a cache: it knows the tail
// chunk, what was put of it, and what is published. It has no lock and no
// goroutine; the Appender calls it under its own.
//
// Its one promise: a length is published only after the put of its tail chunk
// has succeeded. Any chunk below may be missing from the cache, which is legal.
// How long the cache may take, and what it does about nodes that are away or lack
// what a put continues, is the cache's matter.
type mirror struct {
	shard       layout.Shard
	hash        layout.Hash
	incarnation uint64
	cache       Cache
	clock       func() time.Time
	metrics     *metrics

	length uint64 // durable end: [0, length) went through here or was there before
	sealed bool

	// The tail chunk. bufs[cur][:valid] are its bytes, crc is their CRC, unless
	// blind. Two buffers: a record that completes the buffered chunk and goes on
	// needs both until the puts have returned.
	bufs  [2][layout.ChunkSize]byte
	cur   int
	chunk uint64
	valid int
	crc   uint32
	// blind: the start of the tail chunk is unknown (the durable store no longer
	// has it, or could not read it). Nothing of this chunk can be put.
	blind bool
	held  int // prefix of the tail chunk that the cache took; 0 also when unknown

	current  bool // the cache took the present state
	lastBeat time.Time
	ballot   layout.Ballot // under which it is published; zero: without a lease
	lost     error         // a newer writer's ballot has displaced this one's

	puts []layout.Put // of this round, reused
	errs []error      // one for each put, reused
	tail bool         // the last of puts is that of the tail chunk
}

func newMirror(cfg Config, m *metrics, incarnation uint64) *mirror {
	mi := &mirror{
		shard: cfg.Shard, hash: cfg.Shard.Hash(incarnation), incarnation: incarnation,
		cache: cfg.Cache, clock: cfg.Clock, metrics: m,
	}
	mi.begin(0)
	return mi
}

// begin makes an empty chunk the tail.
func (m *mirror) begin(chunk uint64) {
	m.chunk, m.valid, m.held, m.blind = chunk, 0, 0, false
	m.crc = layout.SeedCRC(m.hash, chunk)
}

// jump makes length the durable end, whatever was known before. tail are the
// bytes of its tail chunk, or shorter (then the chunk is blind).
func (m *mirror) jump(length uint64, tail []byte) {
	m.length, m.current = length, false
	chunk, valid := layout.Tail(length)
	m.begin(chunk)
	m.valid = valid
	if len(tail) != valid {
		m.blind = true
		return
	}
	copy(m.bufs[m.cur][:], tail)
	m.crc = layout.ExtendCRC(m.crc, tail)
}

// extend takes in durable bytes and plans their puts. p is borrowed until flush
// has returned.
func (m *mirror) extend(p []byte) {
	m.reset()
	m.current = false
	for len(p) > 0 {
		if m.valid == layout.ChunkSize {
			m.begin(m.chunk + 1)
		}
		n := min(len(p), layout.ChunkSize-m.valid)
		m.length += uint64(n)
		if m.valid == 0 && n < len(p) { // a whole chunk below the tail: no copy
			m.whole(p[:n])
			p = p[n:]
			continue
		}
		buf := &m.bufs[m.cur]
		copy(buf[m.valid:], p[:n])
		if !m.blind {
			m.crc = layout.ExtendCRC(m.crc, p[:n])
		}
		m.valid += n
		p = p[n:]
		m.plan(len(p) == 0)
	}
}

// whole plans a complete chunk that is not the tail.
func (m *mirror) whole(data []byte) {
	m.valid = layout.ChunkSize // so that the next one begins a chunk
	if m.cache == nil {
		return
	}
	m.puts = append(m.puts, layout.Put{Shard: m.hash, Incarnation: m.incarnation, Chunk: m.chunk, CRC: layout.ExtendCRC(m.crc, data), Data: data})
}

// plan plans the buffered chunk, from what the cache holds of it. If it is not
// the tail any more, the other buffer becomes the current one.
func (m *mirror) plan(tail bool) {
	buf := m.bufs[m.cur][:m.valid]
	if !tail {
		m.cur ^= 1
	}
	switch {
	case m.cache == nil:
		return
	case m.blind && !tail:
		m.metrics.holes.Inc()
		return
	case m.blind:
		return
	}
	m.puts = append(m.puts, layout.Put{Shard: m.hash, Incarnation: m.incarnation, Chunk: m.chunk, From: m.held, CRC: m.crc, Data: buf[m.held:], Whole: buf})
	m.tail = tail
}

func (m *mirror) reset() {
	clear(m.puts) // drop the borrowed bytes
	m.puts, m.tail = m.puts[:0], false
}

// flush performs the planned puts, then publishes. It never fails: what the
// cache did not take is counted, and taken up by a later extend or refill.
func (m *mirror) flush() {
	if m.cache == nil || m.lost != nil {
		return
	}
	m.errs = slices.Grow(m.errs[:0], len(m.puts))[:len(m.puts)]
	clear(m.errs)
	if len(m.puts) > 0 {
		m.cache.Put(m.shard, m.puts, m.errs)
	}
	var tailErr error
	for i, err := range m.errs {
		switch {
		case err == nil:
			m.metrics.puts.Inc()
			m.metrics.putBytes.Add(float64(len(m.puts[i].Data)))
			continue
		case m.tail && i == len(m.errs)-1:
			tailErr = err
		default:
			m.metrics.holes.Inc()
		}
		m.metrics.skip(reasonOf(err))
	}
	tail := m.tail
	m.reset()
	switch {
	case m.blind:
		m.metrics.skip(reasonBlind)
		return
	case tail && tailErr != nil:
		m.held = 0
		return
	case tail:
		m.held = m.valid
	}
	m.publish()
}

// publish moves the published end to the durable one.
func (m *mirror) publish() {
	if m.length > 0 && m.held != m.valid {
		return
	}
	now := m.clock()
	e := layout.Entry{Length: m.length, TailCRC: m.crc, HeartbeatMS: uint64(now.UnixMilli()), Incarnation: m.incarnation}
	if m.sealed {
		e.Flags |= layout.FlagSealed
	}
	err := m.cache.Publish(layout.Publication{Shard: m.shard, Entry: e.Seal(m.hash), Ballot: m.ballot})
	switch {
	case err == nil:
		m.metrics.publishes.Inc()
		m.current, m.lastBeat = true, now
		return
	case errors.Is(err, wire.ErrLease) && m.ballot != layout.Ballot{}:
		m.lost = err
	}
	m.metrics.skip(reasonOf(err))
}

// refill puts the whole tail chunk again and publishes: it tells consumers that
// the producer lives, retries what failed, and fills a cache that was restarted.
func (m *mirror) refill() {
	m.reset()
	m.held = 0
	if m.valid > 0 {
		m.plan(true)
	}
	m.flush()
}
