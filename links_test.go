package rmatail_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestLinks follows each relative link of each document to a file, and to a heading in it.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	var files []string
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != "." {
			return fs.SkipDir
		}
		if err == nil && filepath.Ext(path) == ".md" {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	links := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			target, heading, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			links++
			path := file
			if target != "" {
				path = filepath.Join(filepath.Dir(file), target)
			}
			to, err := os.ReadFile(path)
			if info, _ := os.Stat(path); info != nil && info.IsDir() {
				continue
			}
			if err != nil {
				t.Errorf("%s links to %s: %v", file, m[1], err)
				continue
			}
			if heading != "" && !headings(string(to))[heading] {
				t.Errorf("%s links to %s: no such heading", file, m[1])
			}
		}
	}
	if links < 20 {
		t.Errorf("only %d links were found", links)
	}
}

// headings are a document's anchors, as GitHub makes them.
func headings(text string) map[string]bool {
	set := map[string]bool{}
	drop := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for line := range strings.Lines(text) {
		if title := strings.TrimLeft(line, "#"); title != line {
			title = drop.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
			set[strings.ReplaceAll(title, " ", "-")] = true
		}
	}
	return set
}
