package chaos

import (
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"
)

// link is how a network treats what passes it.
type link struct {
	delay          time.Duration // each way
	bytesPerSecond int           // each way and connection; 0: no bound
	// loss is the part of the packets that are lost; TCP sends them again after
	// retransmission, and everything behind them waits.
	loss float64
	// cut lets nothing pass, and says nothing: a partition.
	cut bool
}

// network is what lies between some processes and one node.
type network interface {
	addr() string // at which those processes reach the node
	set(link)     // makes it another network
	reset()       // ends all connections
}

// retransmission is how long a lost packet holds up a connection: the least
// retransmission timeout of Linux.
const retransmission = 200 * time.Millisecond

// proxy is a network between some processes and one node. It listens at an
// address of its own, so that each kind of client can have another network.
type proxy struct {
	target   string
	listener net.Listener
	work     sync.WaitGroup

	mu struct {
		sync.Mutex
		link
		changed chan struct{} // closed when link is another one
		open    map[net.Conn]struct{}
		closed  bool
	}
}

func newProxy(t testing.TB, target string) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{target: target, listener: l}
	p.mu.changed, p.mu.open = make(chan struct{}), map[net.Conn]struct{}{}
	p.work.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

// set makes the network another one.
func (p *proxy) set(l link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.link = l
	close(p.mu.changed)
	p.mu.changed = make(chan struct{})
}

// reset ends all connections as a router that has forgotten them does.
func (p *proxy) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.mu.open {
		c.(*net.TCPConn).SetLinger(0)
		c.Close()
	}
}

func (p *proxy) close() {
	p.mu.Lock()
	p.mu.closed = true
	p.mu.Unlock()
	p.listener.Close()
	p.set(link{})
	p.reset()
	p.work.Wait()
}

func (p *proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		if p.keep(c) {
			p.work.Go(func() { p.carry(c) })
		}
	}
}

// keep notes an open connection; false when the proxy is closed.
func (p *proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.closed {
		c.Close()
		return false
	}
	p.mu.open[c] = struct{}{}
	return true
}

func (p *proxy) forget(c net.Conn) {
	c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.mu.open, c)
}

// carry connects a client to the node. A partition holds up the connecting, too.
func (p *proxy) carry(c net.Conn) {
	defer p.forget(c)
	if p.pass() == nil {
		return
	}
	d, err := net.DialTimeout("tcp", p.target, 2*time.Second)
	if err != nil {
		c.(*net.TCPConn).SetLinger(0) // refused
		return
	}
	if !p.keep(d) {
		return
	}
	defer p.forget(d)
	var both sync.WaitGroup
	both.Go(func() { p.pipe(d, c) })
	both.Go(func() { p.pipe(c, d) })
	both.Wait()
}

// pass waits until the network is not cut, and returns what it is like; nil when
// the proxy is closed.
func (p *proxy) pass() *link {
	for {
		p.mu.Lock()
		l, changed, closed := p.mu.link, p.mu.changed, p.mu.closed
		p.mu.Unlock()
		switch {
		case closed:
			return nil
		case !l.cut:
			return &l
		}
		<-changed
	}
}

// parcel is what was read at once, and when it is due at the other end.
type parcel struct {
	data []byte
	due  time.Time
}

// pipe carries one direction: what is delayed does not hold up what comes behind,
// what is lost does.
func (p *proxy) pipe(to, from net.Conn) {
	road := make(chan parcel, 64)
	var arrive sync.WaitGroup
	arrive.Go(func() {
		for m := range road {
			if d := time.Until(m.due); d > 0 {
				<-time.After(d)
			}
			if p.pass() == nil {
				break
			}
			if _, err := to.Write(m.data); err != nil {
				break
			}
		}
		// Either end that is gone ends both directions.
		to.Close()
		from.Close()
		for range road { // the reader must not hang
		}
	})
	defer arrive.Wait()
	defer close(road)
	var free time.Time // when the line is free again
	for {
		b := make([]byte, 16<<10)
		n, err := from.Read(b)
		if n > 0 {
			l := p.pass()
			if l == nil {
				return
			}
			free = later(free, time.Now())
			if l.bytesPerSecond > 0 {
				free = free.Add(time.Duration(n) * time.Second / time.Duration(l.bytesPerSecond))
			}
			if l.loss > 0 && rand.Float64() < l.loss*float64(1+n/1460) {
				free = free.Add(retransmission)
			}
			road <- parcel{b[:n], free.Add(l.delay)}
		}
		if err != nil {
			return
		}
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
