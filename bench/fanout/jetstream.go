package fanout

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// The client protocol of NATS, https://docs.nats.io/reference/reference-protocols/nats-protocol,
// and the API of JetStream over it, nats-protocol/../jetstream_api.

// natsMessage is what the server delivers; it is lent until the next one.
type natsMessage struct {
	subject, reply []byte
	header, data   []byte
}

// natsDial connects and says hello.
func natsDial(ctx context.Context, addr string, m *meter) (*counted, error) {
	c, err := dial(ctx, addr, m)
	if err != nil {
		return nil, err
	}
	return c, natsHello(c)
}

func natsHello(c *counted) error {
	if _, err := c.in.ReadSlice('\n'); err != nil { // INFO
		return err
	}
	c.out.WriteString("CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,\"no_responders\":true,\"lang\":\"go\",\"version\":\"1\",\"protocol\":1}\r\n")
	return c.out.Flush()
}

func natsPublish(c *counted, subject, reply string, data []byte) {
	c.out.WriteString("PUB ")
	c.out.WriteString(subject)
	if reply != "" {
		c.out.WriteByte(' ')
		c.out.WriteString(reply)
	}
	c.out.WriteByte(' ')
	c.out.WriteString(strconv.Itoa(len(data)))
	c.out.WriteString("\r\n")
	c.out.Write(data)
	c.out.WriteString("\r\n")
}

// natsNext reads up to the next message, and answers the server's pings. The
// header is copied, and the data is that of a buffer of the caller's.
func natsNext(c *counted, m *natsMessage, buffer *[]byte) error {
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		words := bytes.Fields(line)
		if len(words) == 0 {
			continue
		}
		switch string(words[0]) {
		case "MSG":
			return natsBody(c, words[1:], 0, m, buffer)
		case "HMSG":
			return natsBody(c, words[1:], 1, m, buffer)
		case "PING":
			c.out.WriteString("PONG\r\n")
			if err := c.out.Flush(); err != nil {
				return err
			}
		case "-ERR":
			return fmt.Errorf("%w: %s", errPeer, line)
		}
	}
}

// natsBody reads what follows "subject sid [reply] [header bytes] bytes"; sizes is
// how many numbers come before the last one.
func natsBody(c *counted, words [][]byte, sizes int, m *natsMessage, buffer *[]byte) error {
	if len(words) < 3+sizes {
		return fmt.Errorf("%w: %q", errPeer, words)
	}
	total, err := strconv.Atoi(string(words[len(words)-1]))
	head := 0
	if err == nil && sizes > 0 {
		head, err = strconv.Atoi(string(words[len(words)-2]))
	}
	if err != nil || total < head || head < 0 || total > bufferBytes {
		return fmt.Errorf("%w: %q", errPeer, words)
	}
	need := (*buffer)[:0]
	need = append(need, words[0]...)
	subject := len(need)
	if len(words) > 3+sizes {
		need = append(need, words[2]...)
	}
	reply := len(need)
	need = append(need, make([]byte, total+2)...)
	if _, err := io.ReadFull(c.in, need[reply:]); err != nil {
		return err
	}
	*buffer = need
	m.subject, m.reply = need[:subject], need[subject:reply]
	m.header, m.data = need[reply:reply+head], need[reply+head:reply+total]
	return nil
}

// jetRequest asks JetStream's API for something and returns its error.
func jetRequest(c *counted, inbox, subject string, request any) error {
	b, err := json.Marshal(request)
	if err != nil {
		return err
	}
	natsPublish(c, subject, inbox, b)
	if err := c.ask(1); err != nil {
		return err
	}
	var m natsMessage
	var buffer []byte
	for {
		if err := natsNext(c, &m, &buffer); err != nil {
			return err
		}
		if string(m.subject) == inbox {
			return jetError(m.data)
		}
	}
}

func jetError(answer []byte) error {
	if !bytes.Contains(answer, []byte(`"error"`)) {
		if len(answer) == 0 {
			return fmt.Errorf("%w: JetStream is not there", errPeer)
		}
		return nil
	}
	return fmt.Errorf("%w: %.200s", errPeer, answer)
}

// inboxOf is unique on the server: streams are, and consumers are numbered.
func inboxOf(s spec, who string) string { return "_INBOX." + s.Stream + "." + who }

func jetSubject(stream string, shard int) string { return stream + "." + strconv.Itoa(shard) }

// jetSender publishes to a stream, a subject for each shard, and waits for the
// acknowledgements of so many at most.
type jetSender struct {
	s        spec
	c        *counted
	acks     *acks
	subjects []string
	inbox    string
}

func newJetSender(ctx context.Context, s spec) (*jetSender, error) {
	c, err := natsDial(ctx, s.Addr, new(meter))
	if err != nil {
		return nil, err
	}
	j := &jetSender{s: s, c: c, inbox: inboxOf(s, "producer")}
	for i := range s.Shards {
		j.subjects = append(j.subjects, jetSubject(s.Stream, i))
	}
	stop := c.closeWith(ctx)
	defer stop()
	fmt.Fprintf(c.out, "SUB %s 1\r\n", j.inbox)
	if err := jetRequest(c, j.inbox, "$JS.API.STREAM.CREATE."+s.Stream, map[string]any{
		"name": s.Stream, "subjects": []string{s.Stream + ".*"}, "storage": "file", "retention": "limits", "discard": "old", "num_replicas": 1,
		"max_consumers": -1, "max_msgs": -1, "max_bytes": -1}); err != nil {
		c.Close()
		return nil, err
	}
	var m natsMessage
	var buffer []byte
	j.acks = newAcks(func() error {
		if err := natsNext(c, &m, &buffer); err != nil {
			return err
		}
		return jetError(m.data)
	})
	return j, nil
}

func (j *jetSender) send(ctx context.Context, shard int, b []byte) error {
	size := j.s.Workload.record()
	for ; len(b) > 0; b = b[size:] {
		if j.c.out.Available() < size+256 || len(j.acks.room) == acksMost {
			if err := j.c.out.Flush(); err != nil {
				return err
			}
		}
		if err := j.acks.add(ctx); err != nil {
			return err
		}
		natsPublish(j.c, j.subjects[shard], j.inbox, b[:size])
	}
	return j.c.out.Flush()
}

func (j *jetSender) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), settleTime)
	defer cancel()
	err := pollUntil(ctx, j.acks.settled)
	j.c.Close()
	j.acks.reading.Wait()
	return err
}

// followJetStream is an ordered push consumer: no acknowledgements, flow control by
// the server's requests, as nats.go's ordered consumers have.
func followJetStream(c *counted, s spec, consumer int, to *sink) error {
	if err := natsHello(c); err != nil {
		return err
	}
	who := c.LocalAddr().String()
	name := "c" + strings.NewReplacer(".", "-", ":", "-").Replace(who)
	inbox, deliver := inboxOf(s, name), inboxOf(s, name+"d")
	fmt.Fprintf(c.out, "SUB %s 1\r\nSUB %s 2\r\n", inbox, deliver)
	b, err := json.Marshal(map[string]any{"stream_name": s.Stream, "config": map[string]any{
		"deliver_subject": deliver, "deliver_policy": "all", "ack_policy": "none", "replay_policy": "instant", "flow_control": true,
		"idle_heartbeat": int64(5 * time.Second), "mem_storage": true, "num_replicas": 1, "max_deliver": 1, "inactive_threshold": int64(5 * time.Minute)}})
	if err != nil {
		return err
	}
	natsPublish(c, "$JS.API.CONSUMER.CREATE."+s.Stream, inbox, b)
	if err := c.ask(1); err != nil {
		return err
	}
	var m natsMessage
	var buffer []byte
	for {
		if err := natsNext(c, &m, &buffer); err != nil {
			return err
		}
		switch {
		case string(m.subject) == inbox:
			if err := jetError(m.data); err != nil {
				return err
			}
		case len(m.header) > 0: // flow control or a heartbeat
			if len(m.reply) > 0 {
				natsPublish(c, string(m.reply), "", nil)
				if err := c.ask(1); err != nil {
					return err
				}
			}
		default:
			if err := jetMessage(s, &m, to); err != nil {
				return err
			}
		}
	}
}

func jetMessage(s spec, m *natsMessage, to *sink) error {
	shard, err := strconv.Atoi(string(m.subject[bytes.LastIndexByte(m.subject, '.')+1:]))
	if err != nil || shard < 0 || shard >= s.Shards {
		return fmt.Errorf("%w: message of %q", errPeer, m.subject)
	}
	return to.take(shard, m.data)
}
