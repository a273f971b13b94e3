//go:build !linux

package rdma

import "testing"

func kernelResources(t *testing.T) string { t.Fatal("needs Linux"); return "" }
