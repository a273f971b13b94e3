// Package record cuts a shard's bytes into records, and frames records for a
// shard: the store itself keeps bytes, and knows no records.
//
// # Framings
//
//	Raw        no borders: a record is what was delivered together
//	Lines      bytes without '\n', then '\n'
//	Delimited  uvarint n (1 to 3 bytes, as short as possible)
//	           u32     CRC32C of the bytes of n and the n bytes that follow, little-endian
//	           n bytes
//
// All records of a shard have the same framing; which one is not in the bytes.
// Raw and Lines take what they get. Delimited finds out when it is begun inside a
// record, or when bytes are not what was framed: zeros and text do not pass.
//
// # Borders
//
// A framed record is one record of a producer.Appender, whose batches are whole
// numbers of records, and which the durable store keeps or loses as a whole. So
// the end of a shard is always the end of a record, also after a crash. What is
// delivered to a consumer has other borders; a [Cutter] goes across them.
//
// # Errors
//
// Bytes that are no record are an [Error] with the position of the record that
// they should have been. The Cutter then stays there: nothing is skipped unless
// the caller does, by [Cutter.Reset].
package record
