package wire

import "fmt"

// CheckOpaque refuses an RDMAConnect payload (either way) that is empty or longer than MaxOpaque.
func CheckOpaque(p []byte) error {
	if len(p) < 1 || len(p) > MaxOpaque {
		return fmt.Errorf("endpoint description of %d B, needs 1 to %d: %w", len(p), MaxOpaque, ErrBadRequest)
	}
	return nil
}
