//go:build !linux

package chaos

// inNamespace needs network namespaces.
func (s *site) inNamespace(*node, int) { s.t.Skip("network namespaces are Linux's") }
