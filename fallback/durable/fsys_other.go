//go:build !linux

package durable

// datasync flushes more than it has to: there is no fdatasync here. On Darwin it
// is F_FULLFSYNC, which is what reaches the disk.
func datasync(f osFile) error { return f.Sync() }
