package producer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rmatail/rmatail/chunkstore/cluster"
	"github.com/rmatail/rmatail/chunkstore/layout"
	"github.com/rmatail/rmatail/fallback/wire"
)

// dialTime bounds a connection and its handshake. Nobody waits for it but the
// writers of the first moments, who have deadlines of their own.
const dialTime = 2 * time.Second

// node is one node of the cluster as the writers see it: a queue, a connection,
// and what it lacks. Any goroutine may offer; its own goroutine connects, takes
// the answers, and lets it rest after a failure.
type node struct {
	c     *ReplicaCache
	name  string
	local LocalNode // nil: it is elsewhere

	life  context.Context // ends with the node
	end   context.CancelFunc
	wake  chan struct{} // capacity 1: the node's goroutine has something to look at
	count nodeCounters
	// proving: it is back after a failure, and has not answered anything yet. It gets
	// what it is to hold, and no writer waits for it.
	proving atomic.Bool
	// reached is what reach has found last: the repair goroutine's.
	reached struct {
		at  time.Time
		age time.Duration
	}
	// turn is the repair goroutine's, too: what it has spent on the node, and when it
	// looks at it again after a failure.
	turn struct {
		spent time.Duration
		after time.Time
	}

	mu struct {
		sync.Mutex
		at     cluster.Node
		state  nodeState
		client *wire.Client // of nodeLive
		reason error        // of the last rest
		epoch  uint64       // of the arena; 0: not known
		size   uint64       // of the arena in bytes; 0: not known
		rest   breaker

		queue   fifo[task]               // not sent
		flights fifo[flight]             // sent, oldest first
		queued  int                      // bytes of queue
		flying  int                      // bytes of flights
		head    [64]byte                 // scratch of launch
		told    map[layout.Hash]struct{} // shards that the node was told of on this connection; nil: it does not want to know

		missing missing
	}
}

// nodeCounters are those of NodeStats.
type nodeCounters struct {
	puts, putBytes, resends, publishes, skipped, failed, suspensions, repaired atomic.Uint64
}

type nodeState int

const (
	nodeConnecting nodeState = iota // for the first time: tasks wait for it
	nodeLive
	nodeSuspended // it has failed: tasks are refused
	nodeProbing   // the same, while it is tried again
	nodeGone      // it is not of the cluster any more
	nodeLocal
)

func (s nodeState) String() string {
	return [...]string{"connecting", "live", "suspended", "probing", "gone", "local"}[s]
}

// newNode starts a node's goroutine, unless the node is in this process.
func (c *ReplicaCache) newNode(at cluster.Node) *node {
	n := &node{c: c, name: at.Name, local: c.cfg.Local[at.Name], wake: make(chan struct{}, 1)}
	n.life, n.end = context.WithCancel(c.life)
	n.mu.at = at
	if n.local != nil {
		n.mu.state = nodeLocal
		return n
	}
	c.ended.Add(1)
	go n.run()
	return n
}

// run connects, takes answers until the connection fails, rests, and so on.
func (n *node) run() {
	defer n.c.ended.Done()
	for {
		if client := n.connect(); client != nil {
			n.answers(client)
			client.Close() // it has failed already, or the node is given up: there is nothing to tell
		}
		if !n.doze() {
			n.leave()
			return
		}
	}
}

// connect makes the node live; nil: it did not come to that.
func (n *node) connect() *wire.Client {
	n.mu.Lock()
	if n.mu.state == nodeSuspended {
		n.mu.state = nodeProbing
	}
	at := n.mu.at
	n.mu.Unlock()
	ctx, cancel := context.WithTimeout(n.life, dialTime)
	defer cancel()
	client, err := n.c.cfg.Dial(ctx, at)
	if err != nil {
		n.trip(fmt.Errorf("connection: %w", err))
		return nil
	}
	// What was put to another arena is missing from this one. It is noted before
	// the node takes anything, so that nothing is noted that it takes.
	n.mu.Lock()
	if n.mu.at.Addr != at.Addr { // it moved meanwhile: who answers may be another
		n.mu.Unlock()
		client.Close()
		return nil
	}
	epoch := client.Hello().Epoch
	emptied := n.mu.epoch != 0 && n.mu.epoch != epoch
	n.mu.epoch, n.mu.size = epoch, client.Hello().ArenaSize
	n.mu.Unlock()
	if emptied {
		n.c.emptied(n)
	}
	n.mu.Lock()
	if n.mu.at.Addr != at.Addr {
		n.mu.Unlock()
		client.Close()
		return nil
	}
	back := n.mu.state != nodeConnecting
	n.proving.Store(back)
	n.mu.state, n.mu.client, n.mu.told = nodeLive, client, nil
	if client.Hello().Features&wire.FeatureNames != 0 {
		n.mu.told = map[layout.Hash]struct{}{}
	}
	n.mu.rest.recovered(time.Now())
	n.launchMore()
	n.mu.Unlock()
	client.Flush(time.Now().Add(n.c.cfg.Timeout))
	if back {
		n.c.cfg.Logger.Info("a node is back", "node", n.name, "addr", at.Addr)
	}
	n.c.rouse()
	return client
}

// answers settles what was sent, in order, until the node fails and all of it is
// settled.
func (n *node) answers(client *wire.Client) {
	for {
		n.mu.Lock()
		var f flight
		flying, live := n.mu.flights.len() > 0, n.mu.state == nodeLive
		if flying {
			f = *n.mu.flights.front()
		}
		n.mu.Unlock()
		switch {
		case flying:
			n.land(f)
		case !live:
			return
		default:
			select {
			case <-n.wake:
			case <-client.Lost():
				n.trip(client.Err())
			case <-n.life.Done():
				n.trip(ErrClosed)
			}
		}
	}
}

// land waits for the answer to the oldest flight, and settles it.
func (n *node) land(f flight) {
	var payload []byte
	err := f.err
	if f.name != nil {
		_, _ = f.name.Wait() // a node that refuses it refuses the put, too
	}
	if f.call != nil {
		payload, err = f.call.Wait()
	}
	if err == nil && f.r.op == wire.OpLease {
		var reply wire.LeaseReply
		if reply, err = wire.ParseLeaseReply(payload); err == nil {
			err = f.r.replied(f.task, reply)
		}
	}
	if fatal(err) {
		n.trip(err)
	} else {
		n.proving.Store(false)
	}
	n.mu.Lock()
	n.mu.flights.shift()
	n.mu.flying -= f.size()
	again := errors.Is(err, wire.ErrNeedPrefix) && f.task.resend() && n.mu.state == nodeLive
	if again {
		// Before all that waits: what comes may continue it.
		n.mu.queue.unshift(f.task)
		n.mu.queued += f.size()
	}
	n.launchMore()
	client := n.mu.client
	n.mu.Unlock()
	if client != nil {
		client.Flush(time.Now().Add(n.c.cfg.Timeout))
	}
	if again {
		n.count.resends.Add(1)
		return
	}
	n.settle(f.task, err)
}

// fatal says whether an error means that the node had better be left alone: all
// but the answers that it gives in good health.
func fatal(err error) bool {
	return err != nil && !errors.Is(err, wire.ErrNeedPrefix) && !errors.Is(err, wire.ErrLease) && !errors.Is(err, wire.ErrBadRequest) && !errors.Is(err, wire.ErrForbidden)
}

func (n *node) poke() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// trip suspends the node, if it is not already: what waits is refused, what is
// under way may still be answered.
func (n *node) trip(err error) {
	n.mu.Lock()
	if n.mu.state > nodeLive && n.mu.state != nodeProbing {
		n.mu.Unlock()
		return
	}
	first := n.mu.state != nodeProbing
	n.mu.state, n.mu.client = nodeSuspended, nil
	n.mu.reason = fmt.Errorf("%w: node %s: %w", errSuspended, n.name, err)
	n.mu.rest.failed(time.Now(), rand.Float64())
	refused, why := n.mu.queue.take(), n.mu.reason
	n.mu.queued = 0
	n.mu.Unlock()
	if first && n.life.Err() == nil {
		n.count.suspensions.Add(1)
		n.c.cfg.Logger.Warn("a node is left alone for a while", "node", n.name, "addr", n.addr(), "err", err, "refused", len(refused))
	}
	n.poke()
	for _, t := range refused {
		n.count.skipped.Add(1)
		n.settle(t, why)
	}
}

// doze waits until the node may be tried again. false: it is to end.
func (n *node) doze() bool {
	n.mu.Lock()
	until := n.mu.rest.until
	n.mu.Unlock()
	t := time.NewTimer(time.Until(until))
	defer t.Stop()
	select {
	case <-t.C:
		return n.life.Err() == nil
	case <-n.life.Done():
		return false
	}
}

// leave refuses everything from now on.
func (n *node) leave() {
	n.trip(ErrClosed)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.state = nodeGone
	n.mu.reason = fmt.Errorf("%w: node %s: %w", errSuspended, n.name, ErrClosed)
	n.mu.missing.gaps = nil
}

// settle counts the outcome of a task, notes what the node lacks by it, and tells
// the round.
func (n *node) settle(t task, err error) {
	switch {
	case err == nil && t.r.op == wire.OpPut:
		n.count.puts.Add(1)
		n.count.putBytes.Add(uint64(len(t.r.puts[t.slot].Data)))
	case err == nil && t.r.op == wire.OpPublish:
		n.count.publishes.Add(1)
	case err != nil:
		if !errors.Is(err, errSuspended) && !errors.Is(err, errNodeQueue) {
			n.count.failed.Add(1)
		}
		if t.r.op == wire.OpPut && t.full && !t.r.repairs && !errors.Is(err, wire.ErrBadRequest) && !errors.Is(err, wire.ErrForbidden) {
			p := &t.r.puts[t.slot]
			from := p.Chunk * layout.ChunkSize
			n.lacks(gap{s: t.r.shard, from: from, to: from + uint64(p.From+len(p.Data))})
		}
		if t.r.op == wire.OpPublish && errors.Is(err, wire.ErrLease) {
			t.r.shard.displace(t.r.publication.Ballot, err)
		}
	}
	t.r.settle(t, err)
}

// direct runs a task of a node in this process.
func (n *node) direct(t task) {
	var err error
	switch t.r.op {
	case wire.OpPut:
		err = n.local.Put(t.r.shard.shard, t.r.puts[t.slot])
	case wire.OpPublish:
		err = n.local.Publish(t.r.publication)
	default:
		var reply wire.LeaseReply
		if reply, err = n.local.Lease(t.r.lease); err == nil {
			err = t.r.replied(t, reply)
		}
	}
	n.settle(t, err)
}

// move gives the node another address, or roles.
func (n *node) move(at cluster.Node) {
	n.mu.Lock()
	moved := n.mu.at.Addr != at.Addr
	n.mu.at = at
	n.mu.Unlock()
	if moved && n.local == nil {
		n.trip(fmt.Errorf("moved to %s: %w", at.Addr, errMoved))
	}
}

func (n *node) arenaBytes() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mu.size
}

func (n *node) addr() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mu.at.Addr
}
