package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/rmatail/rmatail/fallback/wire"
)

type versionCmd struct {
	JSON bool `name:"json" help:"One JSON object."`
}

// version is what this binary was built from.
type version struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Protocol int    `json:"protocol"`
	CGO      bool   `json:"cgo"`
}

func thisVersion() version {
	v := version{Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Protocol: wire.Version}
	b, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	v.Version = b.Main.Version
	for _, s := range b.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		case "CGO_ENABLED":
			v.CGO = s.Value == "1"
		}
	}
	return v
}

func (c *versionCmd) Run(p *process) error {
	v := thisVersion()
	if c.JSON {
		return json.NewEncoder(p.stdout).Encode(v)
	}
	_, err := fmt.Fprintf(p.stdout, "rmatail %s (protocol %d, %s, %s)\n", v.Version, v.Protocol, v.Go, v.Platform)
	return err
}
