package layout

// Descriptor is the validation word of one chunk.
type Descriptor uint64

// NewDescriptor binds a CRC and a valid length of 1 to ChunkSize bytes to the
// generation of the way.
func NewDescriptor(crc uint32, valid int, generation uint32) Descriptor {
	return Descriptor(uint64(crc) | uint64(valid)<<32 | uint64(generation&tagMask)<<45)
}

// CRC returns the CRC of the chunk's valid prefix.
func (d Descriptor) CRC() uint32 { return uint32(d) }

// Valid returns how many bytes of the chunk the CRC covers, 0 to ChunkSize;
// more than that is returned as 0, as such a word was never written.
func (d Descriptor) Valid() int {
	if n := int(d >> 32 & (1<<13 - 1)); n <= ChunkSize {
		return n
	}
	return 0
}

// Of reports whether the descriptor was written under the generation.
func (d Descriptor) Of(generation uint32) bool {
	return uint32(d>>45) == generation&tagMask && d.Valid() > 0
}

// ParseDescriptor reads the descriptor of chunk i (0 to 15) from the copied
// descriptors of an extent. One that the copy does not have is zero: nothing here.
func ParseDescriptor(descs []byte, i int) Descriptor {
	if i < 0 || i >= len(descs)/DescriptorSize {
		return 0
	}
	return Descriptor(load64(descs[i*DescriptorSize:]))
}
