package server

import (
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rmatail/rmatail/auth"
	"github.com/rmatail/rmatail/fallback/wire"
)

// tally is what all connections of one client share of the node. Clients are told
// apart by identity, or where nobody is asked for one, by address.
type tally struct {
	name    string
	durable *budget      // bytes of durable reads that are not with the client yet
	waits   atomic.Int64 // AwaitArena requests that are not answered
	wrongs  wrongs
	mu      struct {
		sync.Mutex
		connections, pairs, bytes int
		// Requests are paced: at is when the next one is due, at the rate's pace.
		at time.Time
	}
}

// clients are those that have connections, or had one a moment ago and are ahead of
// their rate.
type clients struct {
	mu struct {
		sync.Mutex
		byName map[string]*tally
	}
}

// enter counts a connection of a client in. The error is that it has too many.
func (cs *clients) enter(name string, l *Limits) (*tally, error) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c := cs.mu.byName[name]
	if c == nil {
		if cs.mu.byName == nil {
			cs.mu.byName = map[string]*tally{}
		}
		c = &tally{name: name, durable: newBudget(l.ClientDurableBytes)}
		cs.mu.byName[name] = c
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.connections >= l.ClientConnections {
		return nil, &wire.Error{Status: wire.StatusBusy, Message: fmt.Sprintf("%d connections of %s are open already; share them, or raise the node's limit", l.ClientConnections, name)}
	}
	c.mu.connections++
	return c, nil
}

// leave undoes enter. Who is ahead of its rate is remembered, so that coming back does
// not make it forgotten.
func (cs *clients) leave(c *tally) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.connections--
	cs.drop(c, time.Now())
}

// sweep forgets who has no connection and is not ahead of its rate any more.
func (cs *clients) sweep(now time.Time) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, c := range cs.mu.byName {
		c.mu.Lock()
		cs.drop(c, now)
		c.mu.Unlock()
	}
}

// drop forgets a client, if there is nothing to remember. Both locks are held.
func (cs *clients) drop(c *tally, now time.Time) {
	if c.mu.connections == 0 && !c.mu.at.After(now.Add(-paceBurst)) {
		delete(cs.mu.byName, c.name)
	}
}

// addWait counts a request in that waits for news.
func (c *tally) addWait(limit int) bool {
	if c.waits.Add(1) > int64(limit) {
		c.waits.Add(-1)
		return false
	}
	return true
}

// take counts bytes in that wait for a disk; a client that has none waiting may take
// any number.
func (c *tally) take(n, limit int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.bytes > 0 && c.mu.bytes+n > limit {
		return false
	}
	c.mu.bytes += n
	return true
}

func (c *tally) give(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.bytes -= n
}

// addPair counts a queue pair in.
func (c *tally) addPair(limit int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.pairs >= limit {
		return false
	}
	c.mu.pairs++
	return true
}

func (c *tally) removePair() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.pairs--
}

// paceBurst is how far a client may be ahead of its rate.
const paceBurst = 100 * time.Millisecond

// due is how long a request that has come now has to wait, at so many a second.
func (c *tally) due(now time.Time, perSecond int) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if earliest := now.Add(-paceBurst); c.mu.at.Before(earliest) {
		c.mu.at = earliest
	}
	c.mu.at = c.mu.at.Add(time.Second / time.Duration(perSecond))
	return c.mu.at.Sub(now)
}

// pace holds a connection up whose client asks for more than its rate, or for too much
// that is refused: nothing more is read from it meanwhile, and so its own sockets slow it
// down.
func (c *conn) pace() error {
	wait := c.client.wrongs.due()
	if limit := c.s.cfg.Limits.RequestsPerSecond; limit > 0 {
		wait = max(wait, c.client.due(time.Now(), limit))
	}
	if wait <= 0 {
		return nil
	}
	c.s.counters.paced.Add(1)
	if err := c.flush(); err != nil { // what has been answered is not to wait with it
		return err
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.life.Done(): // it was cut off
		return net.ErrClosed
	case <-c.s.serving.Done(): // the node ends: its own deadline follows
	}
	return nil
}

// name is by what a client is told from others.
func (c *conn) clientName() string {
	switch {
	case c.s.cfg.Guard == nil:
		return hostOf(c.nc)
	case c.id == auth.Anonymous: // not one, but whoever: they do not use up each other's share
		return string(c.id) + " " + hostOf(c.nc)
	}
	return string(c.id)
}

// hostOf is the address of a connection's other end, without its port.
func hostOf(nc net.Conn) string {
	addr := nc.RemoteAddr().String()
	if h, _, err := net.SplitHostPort(addr); err == nil {
		return h
	}
	return addr
}

// networkOf is hostOf, or the network of 64 bits of an IPv6 address: whoever has one
// of its addresses has them all.
func networkOf(nc net.Conn) string {
	t, ok := nc.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return hostOf(nc)
	}
	ip := t.AddrPort().Addr().Unmap()
	if ip.Is4() || ip.IsLoopback() || ip.IsLinkLocalUnicast() {
		return hostOf(nc)
	}
	return netip.PrefixFrom(ip.WithZone(""), 64).Masked().String()
}

// strangers counts the connections whose Hello has not come, by address or network.
type strangers struct {
	mu struct {
		sync.Mutex
		of map[string]int
	}
}

// enter counts one in, unless there are limit from there already.
func (s *strangers) enter(host string, limit int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.of == nil {
		s.mu.of = map[string]int{}
	}
	if s.mu.of[host] >= limit {
		return false
	}
	s.mu.of[host]++
	return true
}

func (s *strangers) leave(host string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.of[host]--; s.mu.of[host] == 0 {
		delete(s.mu.of, host)
	}
}
