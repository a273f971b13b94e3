package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

// refusals are payloads that must not parse; each breaks one rule.
func refusals() []struct {
	name  string
	parse func([]byte) error
	p     []byte
} {
	name := func(n int) []byte { return append([]byte{byte(n)}, strings.Repeat("x", n)...) }
	fixed := func(n int) []byte { return make([]byte, n) }
	cat := func(ps ...[]byte) []byte { return bytes.Join(ps, nil) }
	u16 := func(v uint16) []byte { return binary.LittleEndian.AppendUint16(nil, v) }
	u32 := func(v uint32) []byte { return binary.LittleEndian.AppendUint32(nil, v) }
	u64 := func(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v) }
	read := func(off uint64, n uint32) []byte { return cat(u64(off), u32(n)) }
	hello := func(p []byte) error { _, err := ParseHelloRequest(p); return err }
	helloReply := func(p []byte) error { _, err := ParseHelloReply(p); return err }
	reads := func(p []byte) error { _, err := ParseReadArena(p); return err }
	put := func(p []byte) error { _, err := ParsePut(p); return err }
	publish := func(p []byte) error { _, err := ParsePublish(p); return err }
	appendReq := func(p []byte) error { _, err := ParseAppend(p); return err }
	appended := func(p []byte) error { _, err := ParseAppended(p); return err }
	lease := func(p []byte) error { _, err := ParseLease(p); return err }
	leaseReply := func(p []byte) error { _, err := ParseLeaseReply(p); return err }
	fill := func(p []byte) error { _, err := ParseFill(p); return err }
	filled := func(p []byte) error { _, err := ParseFilled(p); return err }
	wait := func(p []byte) error { _, err := ParseAwaitArena(p); return err }
	word := func(off uint64) []byte { return cat(u64(off), u64(1)) }
	waitOf := func(words, reads uint16) []byte { return cat(u32(1), u16(words), u16(reads)) }
	query := cat(fixed(leaseOffAction), []byte{byte(LeaseQuery)})
	stat := func(p []byte) error { _, err := ParseStat(p); return err }
	info := func(p []byte) error { _, err := ParseShardInfo(p); return err }
	durable := func(p []byte) error { _, err := ParseReadDurable(p); return err }
	list := func(p []byte) error { _, err := ParseList(p); return err }
	listReply := func(p []byte) error { _, err := ParseListReply(p); return err }
	refusal := func(p []byte) error { _, err := ParseError(StatusBusy, p); return err }
	entry := cat(fixed(infoFixed), name(3))
	return []struct {
		name  string
		parse func([]byte) error
		p     []byte
	}{
		{"hello, empty", hello, nil},
		{"hello, wrong magic", hello, cat([]byte("HTTP"), u16(Version), name(1))},
		{"hello, no name", hello, cat([]byte(Magic), u16(Version))},
		{"hello, long name", hello, cat([]byte(Magic), u16(Version), name(MaxName+1))},
		{"hello, cut name", hello, cat([]byte(Magic), u16(Version), name(5)[:5])},
		{"hello, bytes behind", hello, cat([]byte(Magic), u16(Version), name(5), fixed(1))},
		{"hello reply, short", helloReply, cat(u16(Version), fixed(helloReplyFixed-3))},
		{"hello reply, no path", helloReply, cat(u16(Version), fixed(helloReplyFixed-2))},
		{"hello reply, no boot id", helloReply, cat(u16(Version), fixed(helloReplyFixed-2), name(1))},
		{"hello reply, long path", helloReply, cat(u16(Version), fixed(helloReplyFixed-2), name(MaxShmPath+1), name(1))},
		{"hello reply, bytes behind", helloReply, cat(u16(Version), fixed(helloReplyFixed-2), name(1), name(1), fixed(1))},
		{"reads, empty", reads, nil},
		{"reads, none", reads, u16(0)},
		{"reads, too many", reads, cat(u16(MaxReads+1), bytes.Repeat(read(0, 1), MaxReads+1))},
		{"reads, fewer than counted", reads, cat(u16(2), read(0, 1))},
		{"reads, more than counted", reads, cat(u16(1), read(0, 1), read(0, 1))},
		{"reads, cut", reads, cat(u16(1), read(0, 1)[:11])},
		{"reads, of nothing", reads, cat(u16(1), read(0, 0))},
		{"reads, wrap", reads, cat(u16(1), read(math.MaxUint64, 1))},
		{"reads, one too large", reads, cat(u16(1), read(0, MaxRead+1))},
		{"reads, too large together", reads, cat(u16(2), read(0, MaxRead), read(0, 1))},
		{"reads, sum over 4 GiB", reads, cat(u16(2), read(0, math.MaxUint32), read(0, 2))},
		{"put, short", put, fixed(putFixed - 1)},
		{"put, no data", put, fixed(putFixed)},
		{"put, too much data", put, fixed(putFixed + MaxPutData + 1)},
		{"put, past the chunk", put, cat(fixed(putOffFrom), u16(4096), fixed(2), fixed(1))},
		{"put, reserved bits", put, cat(fixed(putOffReserved), u16(1), fixed(1))},
		{"publish, short", publish, fixed(publishFixed - 1)},
		{"publish, no shard", publish, fixed(publishFixed)},
		{"publish, empty shard", publish, cat(fixed(publishFixed), name(0))},
		{"publish, long shard", publish, cat(fixed(publishFixed), name(MaxShard+1))},
		{"publish, unknown flag", publish, cat(fixed(publishOffFlags), u16(2), name(1))},
		{"publish, bytes behind", publish, cat(fixed(publishFixed), name(1), fixed(1))},
		{"publish, nonce without sequence", publish, cat(fixed(publishOffNonce), u64(1), fixed(6), name(1))},
		{"lease, short", lease, fixed(leaseFixed - 1)},
		{"lease, no action", lease, cat(fixed(leaseFixed), name(0), name(1))},
		{"lease, unknown action", lease, cat(fixed(leaseOffAction), []byte{4}, name(0), name(1))},
		{"lease, no shard", lease, cat(query, name(0))},
		{"lease, long owner", lease, cat(query, name(MaxName+1), name(1))},
		{"lease, long shard", lease, cat(query, name(0), name(MaxShard+1))},
		{"lease, bytes behind", lease, cat(query, name(0), name(1), fixed(1))},
		{"lease, for too long", lease, cat(u64(1), u64(1), u32(600_001), []byte{2}, name(0), name(1))},
		{"lease, for no time", lease, cat(u64(1), u64(1), u32(0), []byte{2}, name(0), name(1))},
		{"lease, without a ballot", lease, cat(u64(0), u64(0), u32(1), []byte{2}, name(0), name(1))},
		{"lease, nonce without sequence", lease, cat(u64(0), u64(1), u32(1), []byte{3}, name(0), name(1))},
		{"lease reply, short", leaseReply, fixed(leaseReplyFixed - 1)},
		{"lease reply, no owner", leaseReply, fixed(leaseReplyFixed)},
		{"lease reply, bytes behind", leaseReply, cat(fixed(leaseReplyFixed), name(1), fixed(1))},
		{"lease reply, nonce without sequence", leaseReply, cat(u64(0), u64(1), u32(0), name(0))},
		{"fill, short", fill, fixed(fillFixed - 1)},
		{"fill, no shard", fill, cat(fixed(fillFixed), name(0))},
		{"fill, long shard", fill, cat(fixed(fillFixed), name(MaxShard+1))},
		{"fill, bytes behind", fill, cat(fixed(fillFixed), name(1), fixed(1))},
		{"fill reply, short", filled, fixed(filledFixed - 1)},
		{"fill reply, long", filled, fixed(filledFixed + 1)},
		{"wait, short", wait, fixed(awaitFixed - 1)},
		{"wait, for too long", wait, cat(u32(60_001), u16(1), u16(1), word(0), read(0, 1))},
		{"wait, for no word", wait, cat(waitOf(0, 1), read(0, 1))},
		{"wait, for too many words", wait, cat(waitOf(MaxAwaitWords+1, 1), bytes.Repeat(word(0), MaxAwaitWords+1), read(0, 1))},
		{"wait, fewer words than counted", wait, cat(waitOf(2, 1), word(0))},
		{"wait, word not aligned", wait, cat(waitOf(1, 1), word(4), read(0, 1))},
		{"wait, words of two blocks", wait, cat(waitOf(2, 1), word(4088), word(4096), read(0, 1))},
		{"wait, no read", wait, cat(waitOf(1, 0), word(0))},
		{"wait, cut read", wait, cat(waitOf(1, 1), word(0), read(0, 1)[:11])},
		{"wait, bytes behind", wait, cat(waitOf(1, 1), word(0), read(0, 1), fixed(1))},
		{"wait, read too large", wait, cat(waitOf(1, 1), word(0), read(0, MaxRead+1))},
		{"append, short", appendReq, fixed(appendFixed - 1)},
		{"append, no data", appendReq, cat(fixed(appendFixed), name(1))},
		{"append, too much data", appendReq, cat(fixed(appendFixed), name(1), fixed(MaxAppend+1))},
		{"append, empty shard", appendReq, cat(fixed(appendFixed), name(0), fixed(1))},
		{"append, wraps", appendReq, cat(u64(math.MaxUint64-1), name(1), fixed(1))},
		{"append reply, short", appended, fixed(appendedFixed - 1)},
		{"append reply, long", appended, fixed(appendedFixed + 1)},
		{"append reply, backwards", appended, cat(u64(2), u64(1))},
		{"stat, empty", stat, nil},
		{"stat, cut", stat, []byte{5, 'a'}},
		{"stat, bytes behind", stat, cat(name(1), fixed(1))},
		{"info, short", info, fixed(infoFixed - 1)},
		{"info, long", info, fixed(infoFixed + 1)},
		{"info, first above length", info, cat(u64(0), u64(2), u64(1), u16(0))},
		{"info, unknown flag", info, cat(fixed(infoOffFlags), u16(0x8000))},
		{"durable read, short", durable, fixed(readDurableFixed - 1)},
		{"durable read, of nothing", durable, cat(fixed(readDurableFixed), name(1))},
		{"durable read, too large", durable, cat(u64(0), u32(MaxRead+1), name(1))},
		{"durable read, bytes behind", durable, cat(u64(0), u32(1), name(1), fixed(1))},
		{"list, short", list, fixed(1)},
		{"list, of none", list, cat(u16(0), name(0))},
		{"list, of too many", list, cat(u16(MaxList+1), name(0))},
		{"list, long name", list, cat(u16(Version), name(MaxShard+1))},
		{"list reply, empty", listReply, nil},
		{"list reply, count without entries", listReply, u16(MaxList)},
		{"list reply, count over the limit", listReply, cat(u16(MaxList+1), bytes.Repeat(entry, MaxList+1))},
		{"list reply, cut entry", listReply, cat(u16(2), entry, entry[:len(entry)-1])},
		{"list reply, bytes behind", listReply, cat(u16(1), entry, fixed(1))},
		{"list reply, nameless shard", listReply, cat(u16(1), fixed(infoFixed), name(0), fixed(1))},
		{"refusal, short", refusal, fixed(errFixed - 1)},
		{"refusal, long", refusal, fixed(maxErrReply + 1)},
		{"opaque, empty", CheckOpaque, nil},
		{"opaque, long", CheckOpaque, fixed(MaxOpaque + 1)},
	}
}

func TestParsersRefuse(t *testing.T) {
	for _, r := range refusals() {
		err := r.parse(r.p)
		if !errors.Is(err, ErrBadRequest) && !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", r.name, err)
		}
	}
}

// What an encoder would write over a limit must not leave the process: the other end would end the connection.
func TestEncodersRefuse(t *testing.T) {
	long := bytes.Repeat([]byte("x"), MaxShard+1)
	for name, enc := range map[string]func() ([]byte, error){
		"hello, long name":     HelloRequest{Name: strings.Repeat("x", MaxName+1)}.encode,
		"hello reply, path":    HelloReply{ShmPath: strings.Repeat("x", MaxShmPath+1)}.encode,
		"hello reply, boot id": HelloReply{BootID: strings.Repeat("x", 256)}.encode,
		"reads, none":          func() ([]byte, error) { return AppendReadArena(nil, nil) },
		"reads, too many":      func() ([]byte, error) { return AppendReadArena(nil, make([]ArenaRead, MaxReads+1)) },
		"reads, too large":     func() ([]byte, error) { return AppendReadArena(nil, []ArenaRead{{0, MaxRead}, {0, 1}}) },
		"put, no data":         func() ([]byte, error) { return (&Put{}).AppendTo(nil) },
		"put, past the chunk":  func() ([]byte, error) { return (&Put{From: 1, Data: make([]byte, 4096)}).AppendTo(nil) },
		"publish, no shard":    func() ([]byte, error) { return (&Publish{}).AppendTo(nil) },
		"publish, long shard":  func() ([]byte, error) { return (&Publish{Shard: long}).AppendTo(nil) },
		"publish, nonce alone": func() ([]byte, error) { return (&Publish{Shard: []byte("a/0000"), Ballot: Ballot{0, 1}}).AppendTo(nil) },
		"lease, no action":     func() ([]byte, error) { return (&Lease{Shard: []byte("a/0000")}).AppendTo(nil) },
		"lease, no ballot": func() ([]byte, error) {
			return (&Lease{Action: LeaseAcquire, TTL: time.Second, Shard: []byte("a/0000")}).AppendTo(nil)
		},
		"lease, long owner": func() ([]byte, error) {
			return (&Lease{Action: LeaseQuery, Owner: long, Shard: []byte("a/0000")}).AppendTo(nil)
		},
		"fill, no shard": func() ([]byte, error) { return (&Fill{}).AppendTo(nil) },
		"wait, too long": func() ([]byte, error) {
			return (&AwaitArena{Wait: MaxAwait + 1, Words: make([]ArenaWord, 1), Reads: []ArenaRead{{0, 1}}}).AppendTo(nil)
		},
		"wait, no words": func() ([]byte, error) { return (&AwaitArena{Reads: []ArenaRead{{0, 1}}}).AppendTo(nil) },
		"wait, no reads": func() ([]byte, error) { return (&AwaitArena{Words: make([]ArenaWord, 1)}).AppendTo(nil) },
		"wait, extent wraps": func() ([]byte, error) {
			return (&AwaitArena{Words: make([]ArenaWord, 1), Reads: []ArenaRead{{0, 1}}, Along: ExtentRead{From: 2, N: 1<<32 - 2}}).AppendTo(nil)
		},
		"wait, extent too long": func() ([]byte, error) {
			return (&AwaitArena{Words: make([]ArenaWord, 1), Reads: []ArenaRead{{0, 1}}, Along: ExtentRead{N: MaxRead}}).AppendTo(nil)
		},
		"wait, two blocks": func() ([]byte, error) {
			return (&AwaitArena{Words: []ArenaWord{{4096, 0}, {4088, 0}}, Reads: []ArenaRead{{0, 1}}}).AppendTo(nil)
		},
		"lease reply, owner":    func() ([]byte, error) { return (&LeaseReply{Owner: long}).AppendTo(nil) },
		"append, no data":       func() ([]byte, error) { return (&Append{Shard: []byte("a/0000")}).AppendTo(nil) },
		"append, long shard":    func() ([]byte, error) { return (&Append{Shard: long, Data: long}).AppendTo(nil) },
		"stat, long shard":      func() ([]byte, error) { return AppendStat(nil, long) },
		"durable read, nothing": func() ([]byte, error) { return (&ReadDurable{Shard: []byte("a/0000")}).AppendTo(nil) },
		"list, none":            func() ([]byte, error) { return (&List{}).AppendTo(nil) },
		"list reply, too many":  func() ([]byte, error) { return AppendListReply(nil, make([]ListEntry, MaxList+1)) },
		"list reply, nameless":  func() ([]byte, error) { return AppendListReply(nil, make([]ListEntry, 1)) },
	} {
		if _, err := enc(); !errors.Is(err, ErrBadRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func (h HelloRequest) encode() ([]byte, error) { return h.AppendTo(nil) }
func (h HelloReply) encode() ([]byte, error)   { return h.AppendTo(nil) }

// roundTrips parse p and, where that works, encode what came out: it must be p again.
var roundTrips = map[string]func(p []byte) ([]byte, error){
	"hello request": func(p []byte) ([]byte, error) {
		h, err := ParseHelloRequest(p)
		if err != nil {
			return nil, err
		}
		return h.AppendTo(nil)
	},
	"hello reply": func(p []byte) ([]byte, error) {
		h, err := ParseHelloReply(p)
		if err != nil {
			return nil, err
		}
		return h.AppendTo(nil)
	},
	"read arena": func(p []byte) ([]byte, error) {
		rs, err := ParseReadArena(p)
		if err != nil {
			return nil, err
		}
		var list []ArenaRead
		total := 0
		for i := range rs.Len() {
			list = append(list, rs.At(i))
			total += int(rs.At(i).N)
		}
		if total != rs.Total() {
			return nil, errors.New("total is not the sum")
		}
		return AppendReadArena(nil, list)
	},
	"put": func(p []byte) ([]byte, error) {
		v, err := ParsePut(p)
		if err != nil {
			return nil, err
		}
		b, err := v.AppendTo(nil)
		return append(b, v.Data...), err
	},
	"publish": func(p []byte) ([]byte, error) {
		v, err := ParsePublish(p)
		if err != nil {
			return nil, err
		}
		return v.AppendTo(nil)
	},
	"lease": func(p []byte) ([]byte, error) {
		v, err := ParseLease(p)
		if err != nil {
			return nil, err
		}
		return v.AppendTo(nil)
	},
	"lease reply": func(p []byte) ([]byte, error) {
		v, err := ParseLeaseReply(p)
		if err != nil {
			return nil, err
		}
		return v.AppendTo(nil)
	},
	"fill": func(p []byte) ([]byte, error) {
		v, err := ParseFill(p)
		if err != nil {
			return nil, err
		}
		return v.AppendTo(nil)
	},
	"name": func(p []byte) ([]byte, error) {
		v, err := ParseName(p)
		if err != nil {
			return nil, err
		}
		return v.AppendTo(nil)
	},
	"fill reply": func(p []byte) ([]byte, error) {
		v, err := ParseFilled(p)
		return v.AppendTo(nil), err
	},
	"wait": func(p []byte) ([]byte, error) {
		v, err := ParseAwaitArena(p)
		if err != nil {
			return nil, err
		}
		a := AwaitArena{Wait: v.Wait, Words: v.Words.AppendTo(nil), Reads: v.Reads.AppendTo(nil), Along: v.Along}
		return a.AppendTo(nil)
	},
	"append": func(p []byte) ([]byte, error) {
		v, err := ParseAppend(p)
		if err != nil {
			return nil, err
		}
		b, err := v.AppendTo(nil)
		return append(b, v.Data...), err
	},
	"append reply": func(p []byte) ([]byte, error) {
		v, err := ParseAppended(p)
		return v.AppendTo(nil), err
	},
	"stat": func(p []byte) ([]byte, error) {
		v, err := ParseStat(p)
		if err != nil {
			return nil, err
		}
		return AppendStat(nil, v)
	},
	"stat reply": func(p []byte) ([]byte, error) {
		v, err := ParseShardInfo(p)
		return v.AppendTo(nil), err
	},
	"durable read": func(p []byte) ([]byte, error) {
		v, err := ParseReadDurable(p)
		if err != nil {
			return nil, err
		}
		return v.AppendTo(nil)
	},
	"list": func(p []byte) ([]byte, error) {
		v, err := ParseList(p)
		if err != nil {
			return nil, err
		}
		return v.AppendTo(nil)
	},
	"list reply": func(p []byte) ([]byte, error) {
		v, err := ParseListReply(p)
		if err != nil {
			return nil, err
		}
		return AppendListReply(nil, v)
	},
	"refusal": func(p []byte) ([]byte, error) {
		e, err := ParseError(StatusOffset, p)
		if err != nil {
			return nil, err
		}
		return e.appendPayload(nil), nil
	},
}

// FuzzPayloads gives every parser every input: no panic, typed errors only, and what parses is encoded as the same bytes.
func FuzzPayloads(f *testing.F) {
	for _, g := range goldens {
		f.Add(g.got()[HeaderLen:])
	}
	for _, r := range refusals() {
		if len(r.p) < 8192 {
			f.Add(r.p)
		}
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		was := bytes.Clone(p)
		for name, trip := range roundTrips {
			got, err := trip(p)
			switch {
			case errors.Is(err, ErrBadRequest), errors.Is(err, ErrMalformed), errors.Is(err, ErrVersion):
			case err != nil:
				t.Errorf("%s: untyped error %v", name, err)
			case !bytes.Equal(got, p):
				t.Errorf("%s: %x came back as %x", name, p, got)
			}
		}
		if !bytes.Equal(was, p) {
			t.Error("a parser wrote to its input")
		}
	})
}

func TestEveryGoldenRoundTrips(t *testing.T) {
	parsed := map[string]bool{}
	for _, g := range goldens {
		p := g.got()[HeaderLen:]
		for name, trip := range roundTrips {
			if got, err := trip(p); err == nil && bytes.Equal(got, p) {
				parsed[name] = true
			}
		}
	}
	for name := range roundTrips {
		if !parsed[name] {
			t.Errorf("no golden parses as %s", name)
		}
	}
}

func TestParsersLendTheirInput(t *testing.T) {
	b := append(must(goldenPut.AppendTo(nil)), goldenPut.Data...)
	p, err := ParsePut(b)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(p, goldenPut) {
		t.Errorf("got %+v", p)
	}
	if &p.Data[0] != &b[putFixed] {
		t.Error("Data is a copy")
	}
	req := must(AppendReadArena(nil, []ArenaRead{{1, 2}, {3, 4}}))
	wait := must((&AwaitArena{Words: make([]ArenaWord, 2), Reads: []ArenaRead{{1, 2}, {3, 4}}}).AppendTo(nil))
	words, list := make([]ArenaWord, 0, 2), make([]ArenaRead, 0, 2)
	for name, f := range map[string]func(){
		"put": func() { _, _ = ParsePut(b) },
		"read arena": func() {
			rs, _ := ParseReadArena(req)
			_ = rs.At(1)
		},
		"wait": func() {
			a, _ := ParseAwaitArena(wait)
			words, list = a.Words.AppendTo(words[:0]), a.Reads.AppendTo(list[:0])
		},
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("parsing a %s allocates %v times", name, n)
		}
	}
}
