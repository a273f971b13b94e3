package wire

import (
	"encoding/binary"
	"fmt"
)

const (
	listFixed      = 2
	listReplyFixed = 2
	listEntryMin   = infoFixed + 1 + 1
)

// MaxList entries of the greatest size fit a frame.
var _ [MaxPayload - (listReplyFixed + MaxList*(infoFixed+1+MaxShard))]struct{}

// List asks for up to Limit shards whose names come behind After, by name.
type List struct {
	After []byte // at most MaxShard bytes; empty: from the first
	Limit uint16 // 1 to MaxList
}

// AppendTo appends l's payload to dst.
func (l *List) AppendTo(dst []byte) ([]byte, error) {
	if err := l.checkLimit(); err != nil {
		return dst, err
	}
	dst = binary.LittleEndian.AppendUint16(dst, l.Limit)
	return appendStr(dst, "shard name", l.After, 0, MaxShard)
}

func (l *List) checkLimit() error {
	if l.Limit < 1 || l.Limit > MaxList {
		return fmt.Errorf("list of %d shards, needs 1 to %d: %w", l.Limit, MaxList, ErrBadRequest)
	}
	return nil
}

// ParseList reads a List request; After is a part of b.
func ParseList(b []byte) (List, error) {
	if err := atLeast(b, "list", listFixed, ErrBadRequest); err != nil {
		return List{}, err
	}
	l := List{Limit: binary.LittleEndian.Uint16(b)}
	if err := l.checkLimit(); err != nil {
		return List{}, err
	}
	var err error
	l.After, err = lastStr(b[listFixed:], "shard name", 0, MaxShard, ErrBadRequest)
	if err != nil {
		return List{}, err
	}
	return l, nil
}

// ListEntry is one shard of a List reply.
type ListEntry struct {
	Shard []byte // canonical name
	ShardInfo
}

// AppendListReply appends the payload of a List reply to dst: at most MaxList entries.
func AppendListReply(dst []byte, entries []ListEntry) ([]byte, error) {
	if len(entries) > MaxList {
		return dst, fmt.Errorf("list reply of %d shards, at most %d: %w", len(entries), MaxList, ErrBadRequest)
	}
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(entries)))
	for i := range entries {
		dst = entries[i].ShardInfo.AppendTo(dst)
		var err error
		if dst, err = appendStr(dst, "shard name", entries[i].Shard, 1, MaxShard); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// ParseListReply reads a List reply; the names are parts of b.
func ParseListReply(b []byte) ([]ListEntry, error) {
	if err := atLeast(b, "list reply", listReplyFixed, ErrMalformed); err != nil {
		return nil, err
	}
	n := int(binary.LittleEndian.Uint16(b))
	b = b[listReplyFixed:]
	// Checked before the entries are allocated.
	if n > MaxList || n > len(b)/listEntryMin {
		return nil, fmt.Errorf("list reply of %d shards in %d B: %w", n, len(b), ErrMalformed)
	}
	entries := make([]ListEntry, n)
	for i := range entries {
		if err := atLeast(b, "list entry", infoFixed, ErrMalformed); err != nil {
			return nil, err
		}
		var err error
		if entries[i].ShardInfo, err = ParseShardInfo(b[:infoFixed]); err != nil {
			return nil, err
		}
		if entries[i].Shard, b, err = takeStr(b[infoFixed:], "shard name", 1, MaxShard, ErrMalformed); err != nil {
			return nil, err
		}
	}
	if len(b) != 0 {
		return nil, fmt.Errorf("%d B behind the list reply: %w", len(b), ErrMalformed)
	}
	return entries, nil
}
