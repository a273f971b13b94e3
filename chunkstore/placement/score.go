package placement

import (
	"encoding/binary"
	"math"

	"github.com/rmatail/rmatail/chunkstore/layout"
)

// nameHash is what a node's name counts for.
func nameHash(name string) uint64 {
	h := layout.StreamHash("node/" + name) // no stream has a '/' in its name
	return binary.LittleEndian.Uint64(h[:8])
}

// keyHash mixes a key into 64 bits.
func keyHash(hash layout.Hash, number uint64) uint64 {
	return mix(binary.LittleEndian.Uint64(hash[:8]) ^ mix(binary.LittleEndian.Uint64(hash[8:])^mix(number)))
}

// score is greater the better the node suits the key; it is positive and finite.
func (c *candidate) score(key uint64) float64 {
	// 52 bits and a half make a float in (0, 1) exactly.
	u := (float64(mix(c.hash^key)>>12) + 0.5) / (1 << 52)
	return c.weight / -ln(u)
}

// mix is a bijection of 64 bits in which every bit of the input moves every bit of
// the result.
func mix(x uint64) uint64 {
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	return x ^ x>>32
}

// ln is the natural logarithm of u in (0, 1), with a relative error of 1e-13 or
// less. Unlike math.Log, which is assembly on some machines, it is the same to the
// last bit on all of them: IEEE 754 rounds each operation in one way, and an
// explicit conversion keeps the compiler from fusing two (Go specification,
// "Floating-point operators").
func ln(u float64) float64 {
	m, e := math.Frexp(u) // u = m * 2^e, m in [1/2, 1)
	if m < math.Sqrt2/2 {
		m, e = 2*m, e-1
	}
	// ln(m) = 2 atanh(s); |s| < 0.172, so that s^18 and what follows is below 1e-14.
	s := (m - 1) / (m + 1)
	q := float64(s * s)
	sum := 1.0 / 17
	sum = float64(sum*q) + 1.0/15
	sum = float64(sum*q) + 1.0/13
	sum = float64(sum*q) + 1.0/11
	sum = float64(sum*q) + 1.0/9
	sum = float64(sum*q) + 1.0/7
	sum = float64(sum*q) + 1.0/5
	sum = float64(sum*q) + 1.0/3
	sum = float64(sum*q) + 1
	return float64(float64(e)*math.Ln2) + float64(2*s*sum)
}
