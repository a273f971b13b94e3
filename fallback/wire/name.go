package wire

import "encoding/binary"

const nameFixed = 8

// Name says which shard the puts are of whose hash is that of this shard and incarnation. It counts for every Put behind it on the
// connection, without its reply being waited for. Nodes with FeatureNames want it, once, before the first of these puts.
type Name struct {
	Incarnation uint64
	Shard       []byte // canonical name, 1 to MaxShard bytes
}

// AppendTo appends n's payload to dst.
func (n *Name) AppendTo(dst []byte) ([]byte, error) {
	dst = binary.LittleEndian.AppendUint64(dst, n.Incarnation)
	return appendStr(dst, "shard name", n.Shard, 1, MaxShard)
}

// ParseName reads a Name request; Shard is a part of p.
func ParseName(p []byte) (Name, error) {
	if err := atLeast(p, "name", nameFixed, ErrBadRequest); err != nil {
		return Name{}, err
	}
	n := Name{Incarnation: binary.LittleEndian.Uint64(p)}
	var err error
	if n.Shard, err = lastStr(p[nameFixed:], "shard name", 1, MaxShard, ErrBadRequest); err != nil {
		return Name{}, err
	}
	return n, nil
}
