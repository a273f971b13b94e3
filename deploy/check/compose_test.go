package check

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
)

// TestCompose loads the file with Compose's own loader, and holds what the services' commands and rights are.
func TestCompose(t *testing.T) {
	options, err := cli.NewProjectOptions([]string{filepath.Join(root, "deploy/compose.yaml")}, cli.WithProfiles([]string{"*"}))
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if len(project.Services) < 3 {
		t.Errorf("%d services", len(project.Services))
	}
	for name, s := range project.Services {
		parses(t, s.Command)
		if !slices.Equal(s.CapDrop, []string{"ALL"}) || !s.ReadOnly || s.Privileged || s.User != "" {
			t.Errorf("%s: not all capabilities are dropped, or it is privileged, or its files can be written, or its user is not the image's", name)
		}
		if slices.Contains(s.SecurityOpt, "no-new-privileges:true") && len(s.CapAdd) > 0 {
			t.Errorf("%s: no-new-privileges withholds the capability of the file", name)
		}
	}
	node := project.Services["node"]
	if u := node.Ulimits["memlock"]; u == nil || u.Single != -1 {
		t.Error("the node's locked memory is limited")
	}
	if node.HealthCheck == nil || len(node.HealthCheck.Test) < 3 {
		t.Fatal("the node has no health check")
	}
	parses(t, node.HealthCheck.Test[2:])
}
