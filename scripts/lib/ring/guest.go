package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"strings"
)

// section is what one test binary printed in a guest.
type section struct {
	pkg    string
	output []byte
	exit   string // "" when the guest ended before the binary did
}

// sections splits marked output and calls do with each section as it ends. What
// stands outside of sections is dropped: the guest's own messages go to stderr.
func sections(r io.Reader, do func(section) error) error {
	in := bufio.NewReaderSize(r, 1<<16)
	var s *section
	flush := func() error {
		if s == nil {
			return nil
		}
		done := *s
		s = nil
		return do(done)
	}
	for {
		line, err := in.ReadBytes('\n')
		text := strings.TrimSpace(string(line))
		if p, ok := strings.CutPrefix(text, "=== PACKAGE "); ok {
			if err := flush(); err != nil {
				return err
			}
			s = &section{pkg: p}
		} else if code, ok := strings.CutPrefix(text, "=== EXIT "); ok && s != nil {
			s.exit = code
			if err := flush(); err != nil {
				return err
			}
		} else if s != nil {
			s.output = append(s.output, line...)
		}
		if err == io.EOF {
			return flush()
		}
		if err != nil {
			return err
		}
	}
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
