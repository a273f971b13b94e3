package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// client is one who looks. Its next event replaces the one that it has not taken.
type client struct{ next chan []byte }

// offer gives an event to a client that may be busy. One goroutine at a time.
func (c *client) offer(event []byte) {
	select {
	case <-c.next:
	default:
	}
	c.next <- event
}

// join adds a client, and begins to sample if it is the first. history is the event
// of what was seen before. ok is false if there are too many, or the page is closed.
func (p *Page) join() (c *client, history []byte, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.closed || len(p.mu.clients) >= p.cfg.Clients {
		return nil, nil, false
	}
	c = &client{next: make(chan []byte, 1)}
	p.mu.clients[c] = struct{}{}
	if !p.mu.sampling {
		p.mu.sampling = true
		p.work.Go(p.sample)
	}
	return c, event("history", append(append([]byte("["), bytes.Join(raw(p.mu.points), []byte(","))...), ']')), true
}

func raw(points []json.RawMessage) [][]byte {
	all := make([][]byte, len(points))
	for i, pt := range points {
		all[i] = pt
	}
	return all
}

func (p *Page) leave(c *client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.mu.clients, c)
}

// sample takes samples until nobody looks.
func (p *Page) sample() {
	t := time.NewTicker(p.cfg.Every)
	defer t.Stop()
	for p.wanted() {
		p.publish(p.snapshot())
		select {
		case <-t.C:
		case <-p.life.Done():
		}
	}
}

// snapshot takes a sample. A panic in it is a bug of what is shown, and no reason to
// end what is looked at: the page shows it.
func (p *Page) snapshot() (s Sample) {
	defer func() {
		if v := recover(); v != nil {
			s = Sample{Frame: map[string]string{"error": fmt.Sprintf("a bug, please report it: %v", v)}}
			if p.cfg.Panicked != nil {
				p.cfg.Panicked(v)
			}
		}
	}()
	return p.cfg.Snapshot(p.life)
}

// wanted says whether somebody looks. If not, the next one begins to sample again.
func (p *Page) wanted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.mu.clients) > 0 && !p.mu.closed {
		return true
	}
	if p.cfg.Idle != nil {
		p.cfg.Idle() // before another sampler can begin
	}
	p.mu.sampling = false
	return false
}

// publish gives a sample to all clients.
func (p *Page) publish(s Sample) {
	frame, err := json.Marshal(s.Frame)
	if err != nil {
		frame, _ = json.Marshal(map[string]string{"error": err.Error()}) // of strings alone
	}
	point, err := json.Marshal(s.Point)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil && s.Point != nil {
		if n := len(p.mu.points); n >= p.cfg.Points {
			p.mu.points = append(p.mu.points[:0], p.mu.points[n-p.cfg.Points+1:]...)
		}
		p.mu.points = append(p.mu.points, point)
	}
	e := event("frame", frame)
	for c := range p.mu.clients {
		c.offer(e)
	}
}

// event is one server-sent event; JSON has no line breaks.
func event(name string, data []byte) []byte {
	return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", name, data)
}

// events is GET /events.
func (p *Page) events(w http.ResponseWriter, r *http.Request) {
	c, next, ok := p.join()
	if !ok {
		w.Header().Set("Retry-After", "5")
		http.Error(w, fmt.Sprintf("%d clients look at this page already, or the node goes down", p.cfg.Clients), http.StatusServiceUnavailable)
		return
	}
	defer p.leave(c)
	rc := http.NewResponseController(w)
	// The server's own bounds are for answers that end.
	if err := rc.SetReadDeadline(time.Time{}); err != nil {
		http.Error(w, "events need a connection of their own", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no") // proxies that buffer would hold events back
	for {
		if rc.SetWriteDeadline(time.Now().Add(p.cfg.Write)) != nil {
			return
		}
		if _, err := w.Write(next); err != nil {
			return
		}
		if rc.Flush() != nil {
			return
		}
		select {
		case next = <-c.next:
		case <-r.Context().Done():
			return
		case <-p.life.Done():
			return
		}
	}
}
