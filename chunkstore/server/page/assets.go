package page

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
)

//go:embed index.html page.css page.js icon.svg
var assets embed.FS

// addAssets serves the files. Each has a tag by its content, so that a browser asks
// and is answered in a word.
func (p *Page) addAssets() {
	for _, f := range []struct{ pattern, name, kind string }{
		{"GET /{$}", "index.html", "text/html; charset=utf-8"},
		{"GET /page.css", "page.css", "text/css; charset=utf-8"},
		{"GET /page.js", "page.js", "text/javascript; charset=utf-8"},
		{"GET /icon.svg", "icon.svg", "image/svg+xml"},
	} {
		content, err := assets.ReadFile(f.name)
		if err != nil {
			panic(err) // it is in the binary
		}
		sum := sha256.Sum256(content)
		tag := `"` + hex.EncodeToString(sum[:8]) + `"`
		p.mux.HandleFunc(f.pattern, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "no-cache")
			w.Header().Set("ETag", tag)
			if r.Header.Get("If-None-Match") == tag {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			w.Header().Set("Content-Type", f.kind)
			_, _ = w.Write(content) // a client that has gone is told nothing
		})
	}
}
