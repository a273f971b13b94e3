// Package wire is the one TCP protocol of rmatail: frames, payload codecs, a pipelined client and the helpers a server
// needs. This comment is its byte-exact specification; everything is little-endian.
//
// # Connection
//
// A connection (TCP or a Unix stream socket) carries frames in both directions. Its first frame is a Hello request with
// id 0; the client sends nothing else until the Hello reply has come. After that, requests are pipelined: a client may
// have many of them unanswered, a server may answer them in any order, and there is NO order between two unanswered
// requests: whoever needs "put, then publish" waits for the put's reply. A frame that cannot be trusted (CRC, flags,
// over-long, not a Hello at first) ends the connection, because the border of the next frame is unknown; a request that is merely
// wrong (unknown operation, payload that does not parse) is answered with BadRequest.
//
// A connection may be TLS 1.3 (RFC 8446) from its first byte on; a node takes either TLS or plain TCP at one address. Frames know
// their own borders, so nobody relies on close_notify. Who the client is, its certificate says, or a token in its Hello; a
// client that is not known is refused with StatusUnknownPeer in reply to its Hello, one that asks for what it may not do with
// StatusForbidden. Epoch, arena and socket of the Hello's reply are those that the client may read.
//
// # Frame
//
//	offset size
//	 0     4    payload length, at most MaxPayload (1 MiB + 4 KiB) and at most what the operation allows
//	 4     1    operation; a reply repeats its request's
//	 5     1    status: 0 in requests and in good replies
//	 6     2    flags: 0
//	 8     8    request id: chosen by the client, unique among its unanswered requests; a reply repeats it
//	16     4    budget in milliseconds: how long the caller will wait, counted from the request's arrival; 0: the server's
//	            default; 0 in replies
//	20     4    CRC32C (Castagnoli) of bytes 0 to 20
//	24     -    payload
//
// The header CRC guards the framing. Payload bytes have no checksum of their own here: arena bytes and puts carry theirs
// (chunkstore/layout), appended bytes rely on TCP's.
//
// # Payloads
//
// "str" is one length byte and that many bytes. A payload has exactly the bytes written here: more or fewer is an error.
//
//	op             request                                        good reply
//	 1 Hello       0 magic "RMAT" | 4 version u16 | 6 str name    0 version u16 | 2 features u32 | 6 node epoch u64 |
//	               (<= 64) | str token (1..255), or nothing       14 arena size u64 | 22 str shm socket path (<= 200,
//	                                                              empty: none) | str boot id (<= 64) | str ticket
//	                                                              (1..64), or nothing
//	 2 ReadArena   0 count u16 (1..256) | 2 count x               the bytes, concatenated in request order
//	               { offset u64, n u32 >= 1 }, sum of n <= 1 MiB
//	 3 RDMAConnect opaque, 1..1,024                               opaque, 1..1,024
//	 4 Put         0 shard hash [16] | 16 chunk u64 | 24 crc u32  empty
//	               of the prefix [0, from+len) | 28 from u16 |
//	               30 reserved u16 = 0 | 32 data 1..4,096,
//	               from+len <= 4,096
//	 5 Publish     0 incarnation u64 | 8 length u64 | 16          empty
//	               heartbeat ms u64 | 24 sequence u64 | 32 nonce
//	               u64 | 40 tail crc u32 | 44 flags u16 | 46 str
//	               shard
//	 6 Append      0 offset u64 (NoOffset: at the end) |          0 position u64 | 8 end u64
//	               8 str shard | data 1..1 MiB
//	 7 Stat        0 str shard                                    0 incarnation u64 | 8 first u64 | 16 length u64 |
//	                                                              24 flags u16
//	 8 ReadDurable 0 position u64 | 8 max u32 (1..1 MiB) |        bytes, 0..max; none when position == length
//	               12 str shard
//	 9 List        0 limit u16 (1..4,096) | 2 str after (<= 139,  0 count u16 (<= limit) | 2 count x { incarnation u64,
//	               empty: from the first)                         first u64, length u64, flags u16, str shard }, by name
//	10 NodeStat    empty                                          JSON
//	11 Ping        empty                                          empty
//	12 Lease       0 sequence u64 | 8 nonce u64 | 16 ttl ms u32   0 sequence u64 | 8 nonce u64 | 16 left ms
//	               | 20 action u8 (1 query, 2 acquire, 3          u32 | 20 str owner (<= 64)
//	               release) | 21 str owner (<= 64) | str shard
//	13 Fill        0 incarnation u64 | 8 extent u64 | 16 str      0 end u64
//	               shard
//	14 AwaitArena  0 wait ms u32 (<= 60,000) | 4 words u16        as of ReadArena, and the
//	               (1..128) | 6 reads u16 (1..256) | 8 words x    extent's bytes
//	               { offset u64, value u64 } | reads x { offset
//	               u64, n u32 >= 1 }, sum of n <= 1 MiB |
//	               nothing, or shard hash [16], extent u64,
//	               from u32, n u32 >= 1
//	15 Name        0 incarnation u64 | 8 str shard                empty
//
// A shard is its canonical name "stream/NNNN", 1..139 bytes; its syntax is chunkstore/layout's business. Shard flags: bit 0
// sealed. Features: bit 0 a durable store is served, bit 1 RDMA is served,
// bit 2 Fill is answered, bit 3 AwaitArena is, bit 4 a Name is wanted: it says which shard a hash stands for, on its connection, in
// the Puts that were sent behind it, so that a node that does not let everybody write everything can tell what is put, bit 5 an
// AwaitArena may read of an extent.
//
// # Waiting
//
// AwaitArena is ReadArena that waits for news: it is answered as soon as one of its 8-byte words has another value than the one it states,
// at once if one has already, and after wait with the bytes that are there then: a reply says nothing of why it came, the bytes do. The
// offsets of words are multiples of 8, and all lie in one aligned block of 4,096 bytes, which must be a slot for length pages
// (chunkstore/layout). Words are compared when something was published in their page, or the page was evicted, not at every store: what else
// changes them is seen later, and after wait at the latest. A node bounds the waits of a connection and of all, and refuses those above with
// StatusBusy: then ask by ReadArena now and then, as of nodes without the feature. Who cannot know yet where the next bytes will be, because
// the extent that they begin has no place before they come, names that extent: the reply has n bytes of it, wherever it is by then, or
// zeros if the node lacks it. It is no proof of anything either.
//
// # Leases
//
// Who writes a shard says so with a ballot, sequence and nonce, on the nodes that hold the shard's length page. Ballots are ordered by
// sequence, then nonce; both zero stand for a writer without a lease, and sequence 0 with another nonce is refused. A node holds the
// highest ballot that it has granted or seen for a shard. Acquire (sequence >= 1, ttl 1 ms to 10 min) is granted if the ballot is not
// below the held one; the reply always tells what is held then. Release ends the lease, if the ballot is the held one, and keeps the
// ballot. A Publish whose ballot is below the held one is refused with StatusLease; one that is above makes the node hold it, so that a
// restarted node learns; one that is not below renews the lease for its ttl (of a node's setting, if the node has learnt it so). A
// Publish without a lease is refused with StatusLease while a lease is held that has not expired. Expiry goes by the node's own clock from
// the receipt of what renewed it: no clocks are compared.
//
// A reply with status != 0 has the payload 0 arg0 u64 | 8 arg1 u64 | 16 message (0..512, UTF-8, for people). Which numbers
// a status carries is said at its constant.
//
// A server that does not speak the client's version answers Hello with StatusVersion, arg0 = its own version, and closes.
//
// # Which requests may be sent again
//
// A request whose reply did not come (deadline, lost connection) may or may not have been carried out. Safe to repeat, on
// any connection: Hello, ReadArena, AwaitArena, Stat, ReadDurable, List, NodeStat, Ping and Name, which change nothing; Lease, because
// the same ballot is granted again, and ends no other; Fill, which changes what is in the arena and no byte of it; Put, because the bytes of a
// chunk at a position never change; Publish, because a node keeps the greatest length of an incarnation, so that a late
// duplicate is stale and not wrong. Append is safe only with an explicit offset: when the first attempt was carried out, the
// second is refused with StatusOffset, whose arg0 then is at least offset + len(data); under the one-writer rule that means
// "already there". Append at the end (NoOffset) must not be repeated: the bytes could land twice. RDMAConnect makes
// an endpoint per request; repeating it is safe but uses another one until the connection closes. Op.Repeatable holds this table.
package wire
