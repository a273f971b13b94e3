package wire

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
	"time"
)

// unhex reads annotated hex: "|" and blanks are nothing, "#" begins a comment.
func unhex(t *testing.T, s string) []byte {
	t.Helper()
	var digits strings.Builder
	for line := range strings.Lines(s) {
		line, _, _ = strings.Cut(line, "#")
		for _, f := range strings.Fields(line) {
			if f != "|" {
				digits.WriteString(f)
			}
		}
	}
	b, err := hex.DecodeString(digits.String())
	if err != nil {
		t.Fatalf("golden: %v", err)
	}
	return b
}

// text is hex for ASCII.
func text(s string) string { return " " + hex.EncodeToString([]byte(s)) + " " }

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

func frame(h Header, payload []byte) []byte {
	h.Length = uint32(len(payload))
	return append(AppendHeader(nil, h), payload...)
}

var goldenPut = Put{
	ShardHash: [16]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
	Chunk:     0x0102030405060708, CRC: 0xdeadbeef, From: 4094, Data: []byte{0xaa, 0xbb},
}

// goldens pins every frame type, requests and replies, byte by byte.
var goldens = []struct {
	name string
	got  func() []byte
	want string
}{
	{"hello request", func() []byte {
		return frame(Header{Op: OpHello, Budget: 5 * time.Second}, must(HelloRequest{Version: 2, Name: "tail"}.AppendTo(nil)))
	}, `
		0b000000 | 01 | 00 | 0000 | 0000000000000000 | 88130000 | 3e9f9696 # 11 B, Hello, id 0, 5,000 ms
		` + text("RMAT") + ` | 0200 | 04 ` + text("tail") + `  # version 2, name`},
	{"hello request with a token", func() []byte {
		return frame(Header{Op: OpHello, Budget: 5 * time.Second}, must(HelloRequest{Version: 2, Name: "tail", Token: "secret"}.AppendTo(nil)))
	}, `
		12000000 | 01 | 00 | 0000 | 0000000000000000 | 88130000 | 59432d64 # 18 B
		` + text("RMAT") + ` | 0200 | 04 ` + text("tail") + ` | 06 ` + text("secret") + `  # version 2, name, token`},
	{"hello reply", func() []byte {
		return frame(Header{Op: OpHello}, must(HelloReply{
			Version: 2, Features: FeatureDurable | FeatureRDMA, Epoch: 0x1122334455667788, ArenaSize: 64 << 20, ShmPath: "/s", BootID: "b-1",
		}.AppendTo(nil)))
	}, `
		1d000000 | 01 | 00 | 0000 | 0000000000000000 | 00000000 | 53597d61
		0200 | 03000000 | 8877665544332211 | 0000000400000000 # version, features, epoch, 64 MiB
		02 2f73 | 03 622d31                                  # /s, b-1`},
	{"hello reply with a ticket", func() []byte {
		return frame(Header{Op: OpHello}, must(HelloReply{Version: 2, Epoch: 1, ArenaSize: 4096, ShmPath: "/s", BootID: "b", Ticket: "t1"}.AppendTo(nil)))
	}, `
		1e000000 | 01 | 00 | 0000 | 0000000000000000 | 00000000 | 9441b938
		0200 | 00000000 | 0100000000000000 | 0010000000000000
		02 2f73 | 01 62 | 02 7431                            # /s, b, t1`},
	{"name request", func() []byte {
		n := Name{Incarnation: 7, Shard: []byte("a/0001")}
		return frame(Header{Op: OpName, ID: 3}, must(n.AppendTo(nil)))
	}, `
		0f000000 | 0f | 00 | 0000 | 0300000000000000 | 00000000 | 7bc47688
		0700000000000000 | 06 ` + text("a/0001")},
	{"read arena request", func() []byte {
		return frame(Header{Op: OpReadArena, ID: 0x10002, Budget: 30 * time.Millisecond}, must(AppendReadArena(nil, []ArenaRead{{4096, 512}, {1 << 33, 65536}})))
	}, `
		1a000000 | 02 | 00 | 0000 | 0200010000000000 | 1e000000 | ffec9e84
		0200                               # two reads
		0010000000000000 00020000          # 512 B at 4,096
		0000000002000000 00000100          # 64 KiB at 8 GiB`},
	{"read arena reply", func() []byte {
		return append(AppendReply(nil, Header{Op: OpReadArena, ID: 0x10002, Budget: time.Second}, 3), 7, 8, 9)
	}, `
		03000000 | 02 | 00 | 0000 | 0200010000000000 | 00000000 | 31f040ad
		070809`},
	{"rdma connect request", func() []byte { return frame(Header{Op: OpRDMAConnect, ID: 3}, []byte{1, 2}) }, `
		02000000 | 03 | 00 | 0000 | 0300000000000000 | 00000000 | e7a52892
		0102`},
	{"put request", func() []byte {
		return frame(Header{Op: OpPut, ID: 4}, append(must(goldenPut.AppendTo(nil)), goldenPut.Data...))
	}, `
		22000000 | 04 | 00 | 0000 | 0400000000000000 | 00000000 | e9849625
		000102030405060708090a0b0c0d0e0f   # shard hash
		0807060504030201 | efbeadde        # chunk, CRC of [0, 4,096)
		fe0f | 0000                        # from 4,094, reserved
		aabb`},
	{"put reply", func() []byte { return AppendReply(nil, Header{Op: OpPut, ID: 4}, 0) }, `
		00000000 | 04 | 00 | 0000 | 0400000000000000 | 00000000 | 15aa06bf`},
	{"publish request", func() []byte {
		return frame(Header{Op: OpPublish, ID: 5}, must((&Publish{
			Shard: []byte("web/0001"), Incarnation: 7, Length: 0x10000, TailCRC: 0x01020304, Flags: ShardSealed, HeartbeatMS: 0x18000000000,
			Ballot: Ballot{Sequence: 9, Nonce: 0x1122334455667788},
		}).AppendTo(nil)))
	}, `
		37000000 | 05 | 00 | 0000 | 0500000000000000 | 00000000 | ad94ac76
		0700000000000000 | 0000010000000000 | 0000000080010000 # incarnation, length, heartbeat
		0900000000000000 | 8877665544332211                   # ballot
		04030201 | 0100 | 08 ` + text("web/0001") + `                 # tail CRC, sealed, shard`},
	{"append request", func() []byte {
		a := Append{Shard: []byte("web/0001"), Offset: NoOffset, Data: []byte("hi\n")}
		return frame(Header{Op: OpAppend, ID: 6}, append(must(a.AppendTo(nil)), a.Data...))
	}, `
		14000000 | 06 | 00 | 0000 | 0600000000000000 | 00000000 | 4f51159b
		ffffffffffffffff | 08 ` + text("web/0001") + ` | 68690a        # at the end, shard, data`},
	{"append reply", func() []byte { return frame(Header{Op: OpAppend, ID: 6}, Appended{Pos: 256, End: 259}.AppendTo(nil)) }, `
		10000000 | 06 | 00 | 0000 | 0600000000000000 | 00000000 | bb8f1a46
		0001000000000000 | 0301000000000000`},
	{"stat request", func() []byte { return frame(Header{Op: OpStat, ID: 7}, must(AppendStat(nil, "a/0000"))) }, `
		07000000 | 07 | 00 | 0000 | 0700000000000000 | 00000000 | 8570a77b
		06 ` + text("a/0000")},
	{"stat reply", func() []byte {
		return frame(Header{Op: OpStat, ID: 7}, ShardInfo{Incarnation: 1, First: 2, Length: 3, Flags: ShardSealed}.AppendTo(nil))
	}, `
		1a000000 | 07 | 00 | 0000 | 0700000000000000 | 00000000 | 16721354
		0100000000000000 | 0200000000000000 | 0300000000000000 | 0100`},
	{"durable read request", func() []byte {
		return frame(Header{Op: OpReadDurable, ID: 8}, must((&ReadDurable{Shard: []byte("a/0000"), Pos: 9, Max: 1 << 20}).AppendTo(nil)))
	}, `
		13000000 | 08 | 00 | 0000 | 0800000000000000 | 00000000 | 6c568d98
		0900000000000000 | 00001000 | 06 ` + text("a/0000")},
	{"list request", func() []byte {
		return frame(Header{Op: OpList, ID: 9}, must((&List{After: []byte("a/0000"), Limit: 100}).AppendTo(nil)))
	}, `
		09000000 | 09 | 00 | 0000 | 0900000000000000 | 00000000 | 024b8ff0
		6400 | 06 ` + text("a/0000")},
	{"list reply", func() []byte {
		return frame(Header{Op: OpList, ID: 9}, must(AppendListReply(nil, []ListEntry{{Shard: []byte("b/0000"), ShardInfo: ShardInfo{1, 2, 3, 0}}})))
	}, `
		23000000 | 09 | 00 | 0000 | 0900000000000000 | 00000000 | e7aeecd5
		0100                                                    # one shard
		0100000000000000 0200000000000000 0300000000000000 0000 06` + text("b/0000")},
	{"node stat request", func() []byte { return frame(Header{Op: OpNodeStat, ID: 10}, nil) }, `
		00000000 | 0a | 00 | 0000 | 0a00000000000000 | 00000000 | 056b5538`},
	{"node stat reply", func() []byte { return frame(Header{Op: OpNodeStat, ID: 10}, []byte("{}")) }, `
		02000000 | 0a | 00 | 0000 | 0a00000000000000 | 00000000 | 7f84d256
		7b7d`},
	{"ping request", func() []byte { return frame(Header{Op: OpPing, ID: 11, Budget: 1}, nil) }, `
		00000000 | 0b | 00 | 0000 | 0b00000000000000 | 01000000 | 73186d26 # a nanosecond rounds up to 1 ms`},
	{"lease request", func() []byte {
		l := Lease{Action: LeaseAcquire, Ballot: Ballot{2, 3}, TTL: 10 * time.Second, Owner: []byte("n1"), Shard: []byte("a/0000")}
		return frame(Header{Op: OpLease, ID: 12}, must(l.AppendTo(nil)))
	}, `
		1f000000 | 0c | 00 | 0000 | 0c00000000000000 | 00000000 | aabfb2f9
		0200000000000000 0300000000000000 | 10270000 | 02      # ballot, 10,000 ms, acquire
		02 6e31 | 06 ` + text("a/0000")},
	{"lease reply", func() []byte {
		r := LeaseReply{Ballot: Ballot{4, 5}, Left: 1500 * time.Microsecond, Owner: []byte("n2")}
		return frame(Header{Op: OpLease, ID: 12}, must(r.AppendTo(nil)))
	}, `
		17000000 | 0c | 00 | 0000 | 0c00000000000000 | 00000000 | b3744146
		0400000000000000 0500000000000000 | 02000000 | 02 6e32 # ballot, 1.5 ms rounded up, owner`},
	{"fill request", func() []byte {
		f := Fill{Incarnation: 7, Extent: 0x010203, Shard: []byte("a/0000")}
		return frame(Header{Op: OpFill, ID: 13}, must(f.AppendTo(nil)))
	}, `
		17000000 | 0d | 00 | 0000 | 0d00000000000000 | 00000000 | 7dad3c85
		0700000000000000 | 0302010000000000 | 06 ` + text("a/0000") + ` # incarnation, extent`},
	{"fill reply", func() []byte { return frame(Header{Op: OpFill, ID: 13}, Filled{End: 0x20000}.AppendTo(nil)) }, `
		08000000 | 0d | 00 | 0000 | 0d00000000000000 | 00000000 | 94400fc4
		0000020000000000`},
	{"await request", func() []byte {
		a := AwaitArena{Wait: 250 * time.Millisecond, Words: []ArenaWord{{0x2000, 7}, {0x2020, 1 << 40}}, Reads: []ArenaRead{{0x2000, 64}}}
		return frame(Header{Op: OpAwaitArena, ID: 14}, must(a.AppendTo(nil)))
	}, `
		34000000 | 0e | 00 | 0000 | 0e00000000000000 | 00000000 | 9f688568
		fa000000 | 0200 | 0100                                # 250 ms, two words, one read
		0020000000000000 0700000000000000
		2020000000000000 0000000000010000
		0020000000000000 40000000                             # 64 B at 8,192`},
	{"await request of an extent", func() []byte {
		a := AwaitArena{Words: []ArenaWord{{0x2000, 7}}, Reads: []ArenaRead{{0x2000, 64}}, Along: ExtentRead{ShardHash: [16]byte{15: 0xee}, Extent: 0x0102, From: 0x30, N: 0x40}}
		return frame(Header{Op: OpAwaitArena, ID: 14}, must(a.AppendTo(nil)))
	}, `
		44000000 | 0e | 00 | 0000 | 0e00000000000000 | 00000000 | 27bc5a0b
		00000000 | 0100 | 0100
		0020000000000000 0700000000000000
		0020000000000000 40000000
		000000000000000000000000000000ee | 0201000000000000 | 30000000 | 40000000 # shard, extent, from, n`},
	{"await reply", func() []byte { return append(AppendReply(nil, Header{Op: OpAwaitArena, ID: 14}, 2), 1, 2) }, `
		02000000 | 0e | 00 | 0000 | 0e00000000000000 | 00000000 | 54781155
		0102`},
	{"lease refusal", func() []byte {
		return AppendError(nil, Header{Op: OpPublish, ID: 13}, &Error{Status: StatusLease, Arg0: 4, Arg1: 5, Message: "n2"})
	}, `
		12000000 | 05 | 13 | 0000 | 0d00000000000000 | 00000000 | 264a802a
		0400000000000000 | 0500000000000000 | ` + text("n2")},
	{"refusal", func() []byte {
		return AppendError(nil, Header{Op: OpReadDurable, ID: 8}, &Error{Status: StatusOutOfRetention, Arg0: 4096, Arg1: 8192, Message: "gone"})
	}, `
		14000000 | 08 | 03 | 0000 | 0800000000000000 | 00000000 | 5c97d5b4
		0010000000000000 | 0020000000000000 | ` + text("gone")},
}

func TestGoldenFrames(t *testing.T) {
	for _, g := range goldens {
		got, want := g.got(), unhex(t, g.want)
		if !bytes.Equal(got, want) {
			t.Errorf("%s:\n got %x\nwant %x", g.name, got, want)
		}
	}
}
