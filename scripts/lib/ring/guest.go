package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
)

// section is what one test binary printed in a guest.
type section struct {
	pkg    string
	output []byte
	exit   string // "" when the guest ended before the binary did
}

// sections splits marked output. What stands before the first marker is dropped:
// scripts/rxe-vm has shown it.
func sections(all []byte) (out []section) {
	for line := range bytes.Lines(all) {
		text := strings.TrimSpace(string(line))
		if p, ok := strings.CutPrefix(text, "=== PACKAGE "); ok {
			out = append(out, section{pkg: p})
			continue
		}
		if len(out) == 0 {
			continue
		}
		s := &out[len(out)-1]
		if code, ok := strings.CutPrefix(text, "=== EXIT "); ok {
			s.exit = code
			continue
		}
		s.output = append(s.output, line...)
	}
	return out
}

// events converts a section with the tool that go test itself uses. A binary
// that did not exit 0 fails its package whatever it printed.
func (s section) events() ([]byte, error) {
	in := s.output
	if s.exit != "0" && !bytes.HasSuffix(bytes.TrimSpace(in), []byte("FAIL")) {
		in = append(bytes.Clone(in), fmt.Sprintf("\nexit code %q of the test binary in the guest\n\x16FAIL\n", s.exit)...)
	}
	cmd := exec.Command("go", "tool", "test2json", "-p", s.pkg)
	cmd.Stdin = bytes.NewReader(in)
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("test2json of %s: %w", s.pkg, err)
	}
	return out, nil
}
