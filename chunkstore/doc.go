// Package chunkstore is the cache of one node: recent chunks and published
// lengths in an arena that consumers read without its help. Package layout
// defines the arena's bytes; this package decides which key holds which way, and
// in which order words are stored so that whatever validates is right.
//
// # Put
//
// A put is a piece [From, End) of one chunk. What happens depends on the valid
// length V of the chunk on the node, 0 when it is not there:
//
//	From > V        ErrPrefix: the node lacks [V, From)
//	From == V       the chunk is extended
//	End <= V        the same bytes again: nothing to do; other bytes: conflict
//	From < V < End  the overlap is compared (other bytes: conflict), the rest extends
//
// The CRC of the resulting prefix must be Put.CRC, else that is a conflict too. A
// conflict at From > 0 is answered by ErrPrefix, so that the writer sends the
// chunk from its start. At From == 0 it is the node that is wrong: published
// bytes never change under one generation, hence the extent is emptied and begun
// under a new generation with this chunk; its other chunks become holes.
//
// Bytes are copied first, then the chunk's descriptor is stored as one word. A
// descriptor never covers bytes that are not there.
//
// # Placing and evicting
//
// A key has two candidate sets of 16 ways. A new key takes an empty way, else one
// whose time to live has passed, of the first set while that has fewer than 8 live
// keys, else of the emptier set; else the least recently modified way of both sets: a
// capacity eviction. (Consumers look into the first set first.) Nothing moves. Measured on
// 131,072 ways: filled once to 85 %, no live key is pushed out; in the steady
// state, where keys come and expire, none at 75 % live, one in a million
// insertions at 80 %, one in a thousand at 85 %.
// Before a way is reused its identity is emptied and its descriptors are zeroed;
// then it gets a new generation and the new identity, the last word last.
//
// A key's age counts from its last accepted put, or for length pages from the
// last publish of any entry of the page. Keys past their time stay readable until
// their way is wanted, or until Evict finds the table filled beyond EvictFrom.
//
// # Publish
//
// An entry is updated in place, word by word; its check word shows a mixture.
// Within one incarnation the length never goes back, and sealed stays. A process
// that is stopped in the midst of an update leaves an entry that does not check
// until it goes on.
//
// # Leases
//
// A publication carries its writer's ballot. The node holds the highest one that
// it has granted or seen for each shard, and refuses those below it (ErrLease): a
// writer that a newer one has displaced learns of it at its next publication. Who
// has no lease may publish while nobody else has one. A lease expires by the
// node's own clock, from the receipt of what renewed it.
//
// The times, generations and keys that these decisions need are in ordinary Go
// memory; the arena holds only what consumers read.
package chunkstore
