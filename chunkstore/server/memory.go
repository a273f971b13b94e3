package server

import (
	"fmt"

	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/wire"
)

// request answers what only touches memory in place, and lets the rest run
// beside. p dies with the call.
func (c *conn) request(h wire.Header, p []byte) {
	if c.s.closing.Load() {
		c.refuse(h, errClosing)
		return
	}
	err := c.mayDo(h.Op)
	if err != nil {
		c.refuse(h, err)
		return
	}
	switch h.Op {
	case wire.OpReadArena:
		err = c.readArena(h, p)
	case wire.OpAwaitArena:
		err = c.awaitArena(h, p)
	case wire.OpPut:
		if err = c.put(p); err == nil {
			c.out.Header(h, 0)
		}
	case wire.OpPublish:
		if err = c.publish(p); err == nil {
			c.out.Header(h, 0)
		}
	case wire.OpLease:
		err = c.lease(h, p)
	case wire.OpPing:
		c.out.Header(h, 0)
	case wire.OpReport:
		if err = c.report(p); err == nil {
			c.out.Header(h, 0)
		}
	case wire.OpName:
		if err = c.name(p); err == nil {
			c.out.Header(h, 0)
		}
	default:
		err = c.beside(h, p)
	}
	if err != nil {
		c.refuse(h, err)
	}
}

// readArena gathers a reply that points into the arena. The bytes may change
// until the kernel has copied them: consumers verify what they get.
func (c *conn) readArena(h wire.Header, p []byte) error {
	reads, err := wire.ParseReadArena(p)
	if err != nil {
		return err
	}
	if err := c.memory.inArena(reads); err != nil {
		return err
	}
	mem := c.memory.arena.Bytes()
	c.out.Header(h, reads.Total())
	for i := range reads.Len() {
		r := reads.At(i)
		c.out.Bytes(mem[r.Off : r.Off+uint64(r.N)])
	}
	c.s.counters.arenaReads.Add(uint64(reads.Len()))
	c.s.counters.arenaReadBytes.Add(uint64(reads.Total()))
	return nil
}

// inArena checks what needs the arena's size.
func (m *memory) inArena(reads wire.ArenaReads) error {
	size := uint64(len(m.arena.Bytes()))
	for i := range reads.Len() {
		if r := reads.At(i); r.Off > size || uint64(r.N) > size-r.Off {
			return &wire.Error{Status: wire.StatusBadRequest, Message: fmt.Sprintf("read of %d B at %d is outside of the arena of %d B", r.N, r.Off, size)}
		}
	}
	return nil
}

// gather gathers the reply to a request whose reads were checked, as readArena does.
func (c *conn) gather(out *wire.Replies, h wire.Header, total int, reads []wire.ArenaRead) {
	mem := c.memory.arena.Bytes()
	out.Header(h, total)
	for _, r := range reads {
		out.Bytes(mem[r.Off : r.Off+uint64(r.N)])
	}
	c.s.counters.arenaReads.Add(uint64(len(reads)))
	c.s.counters.arenaReadBytes.Add(uint64(total))
}

func (c *conn) put(p []byte) error {
	req, err := wire.ParsePut(p)
	if err != nil {
		return err
	}
	cache, err := c.cacheOf(req.ShardHash)
	if err != nil {
		return err
	}
	return cache.Put(layout.Put{
		Shard: req.ShardHash, Chunk: req.Chunk, From: int(req.From), CRC: req.CRC, Data: req.Data,
	})
}

func (c *conn) publish(p []byte) error {
	req, err := wire.ParsePublish(p)
	if err != nil {
		return err
	}
	shard, err := c.names.shard(req.Shard)
	if err != nil {
		return err
	}
	if req.Incarnation == 0 {
		return fmt.Errorf("publish of %v without an incarnation: %w", shard, wire.ErrBadRequest)
	}
	e := layout.Entry{
		Length: req.Length, TailCRC: req.TailCRC, HeartbeatMS: req.HeartbeatMS, Incarnation: req.Incarnation,
	}
	if req.Flags&wire.ShardSealed != 0 {
		e.Flags |= layout.FlagSealed
	}
	cache, err := c.cacheFor(shard)
	if err != nil {
		return err
	}
	return cache.Publish(layout.Publication{
		Shard: shard, Entry: e.Seal(shard.Hash(req.Incarnation)), Ballot: layout.Ballot(req.Ballot),
	})
}

func (c *conn) lease(h wire.Header, p []byte) error {
	req, err := wire.ParseLease(p)
	if err != nil {
		return err
	}
	shard, err := parseShard(req.Shard)
	if err != nil {
		return err
	}
	cache, err := c.leaseCache(shard, req.Action)
	if err != nil {
		return err
	}
	held, err := cache.Lease(req)
	if err != nil {
		return err
	}
	var b [128]byte
	reply, err := held.AppendTo(b[:0])
	if err != nil {
		return err
	}
	c.out.Reply(h, reply)
	return nil
}

// parseShard reads a shard's name in a request.
func parseShard(name []byte) (layout.Shard, error) {
	shard, err := layout.ParseShard(string(name))
	if err != nil {
		return layout.Shard{}, fmt.Errorf("%w: %w", wire.ErrBadRequest, err)
	}
	return shard, nil
}
