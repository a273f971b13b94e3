package crccopy

import (
	"testing"

	"golang.org/x/sys/cpu"
)

// TestCopyWithoutInstruction: processors without SSE 4.2 get the same.
func TestCopyWithoutInstruction(t *testing.T) {
	had := cpu.X86.HasSSE42
	defer func() { cpu.X86.HasSSE42 = had }()
	cpu.X86.HasSSE42 = false
	TestCopy(t)
}
