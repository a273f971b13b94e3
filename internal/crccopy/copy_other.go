//go:build !amd64

package crccopy

func copyBlock(dst, src []byte) uint32 {
	copy(dst, src)
	return sumOf(dst)
}
