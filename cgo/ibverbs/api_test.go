package ibverbs

import (
	"bytes"
	"go/ast"
	"go/build"
	"go/parser"
	"go/printer"
	"go/token"
	"maps"
	"slices"
	"strings"
	"testing"
)

// exported returns the exported declarations of the package as built with that
// context: functions and methods with their types, and types. Fields of the
// handle types are not exported, so the types compare by name.
func exported(t *testing.T, goos string, cgo bool, tags ...string) map[string]string {
	t.Helper()
	ctx := build.Default
	ctx.GOOS, ctx.CgoEnabled, ctx.BuildTags = goos, cgo, tags
	pkg, err := ctx.ImportDir(".", 0)
	if err != nil {
		t.Fatal(err)
	}
	api := make(map[string]string)
	fset := token.NewFileSet()
	for _, name := range append(slices.Clone(pkg.GoFiles), pkg.CgoFiles...) {
		f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if !d.Name.IsExported() {
					continue
				}
				key := d.Name.Name
				if d.Recv != nil {
					key = text(t, fset, d.Recv.List[0].Type) + "." + key
				}
				api[key] = text(t, fset, d.Type)
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						if s.Name.IsExported() {
							api[s.Name.Name] = "type"
						}
					case *ast.ValueSpec:
						for _, n := range s.Names {
							if n.IsExported() {
								api[n.Name] = d.Tok.String()
							}
						}
					}
				}
			}
		}
	}
	return api
}

func text(t *testing.T, fset *token.FileSet, n ast.Node) string {
	t.Helper()
	var b bytes.Buffer
	if err := printer.Fprint(&b, fset, n); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestStubHasTheSameAPI compares what the real package exports with each way of
// building the stub.
func TestStubHasTheSameAPI(t *testing.T) {
	real := exported(t, "linux", true)
	if len(real) < 100 || real["*QP.PostPoll"] == "" {
		t.Fatalf("only %d exported names seen in the real package", len(real))
	}
	for name, stub := range map[string]map[string]string{
		"noverbs":       exported(t, "linux", true, "noverbs"),
		"without cgo":   exported(t, "linux", false),
		"another GOOS":  exported(t, "darwin", true),
		"darwin no cgo": exported(t, "darwin", false),
	} {
		for _, k := range slices.Sorted(maps.Keys(real)) {
			if real[k] != stub[k] {
				t.Errorf("%s: %s: real %q, stub %q", name, k, real[k], stub[k])
			}
		}
		for k := range stub {
			if _, ok := real[k]; !ok {
				t.Errorf("%s: %s is only in the stub", name, k)
			}
		}
	}
}

// TestNoOtherRights: the package offers no right by which a peer could write here, and
// no flag that lets the bytes of several requests come in any order that the bus likes
// (IBV_ACCESS_RELAXED_ORDERING). The numbers are those of verbs.h.
func TestNoOtherRights(t *testing.T) {
	want := map[string]string{"AccessLocalWrite": "const", "AccessRemoteRead": "const", "Access": "type"}
	got := map[string]string{}
	for name, kind := range exported(t, "linux", true) {
		if strings.HasPrefix(name, "Access") {
			got[name] = kind
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("rights: %v, want %v", got, want)
	}
	if AccessLocalWrite != 1 || AccessRemoteRead != 4 {
		t.Errorf("local write %d, remote read %d", AccessLocalWrite, AccessRemoteRead)
	}
}
