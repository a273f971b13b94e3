package rdma

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"syscall"
)

// maxGIDs bounds a table. The largest seen is 1,024 (rxe).
const maxGIDs = 4096

// A dirReader reads files of one directory of a sysfs faster than by their path.
// A table of a thousand slots is read before each connection attempt.
type dirReader interface {
	// openDir returns a function that reads a file of the directory; its bytes
	// die at the next call. done ends it.
	openDir(name string) (read func(file string) ([]byte, error), done func(), err error)
}

func openDir(sys fs.FS, name string) (read func(file string) ([]byte, error), done func(), err error) {
	if d, ok := sys.(dirReader); ok {
		return d.openDir(name)
	}
	return func(file string) ([]byte, error) { return fs.ReadFile(sys, path.Join(name, file)) }, func() {}, nil
}

// readGIDs reads the live entries of a port directory's table by index, not
// annotated. The files gids/0, gids/1, ... are all there, one a slot. An empty
// slot reads as zeros in gids, and as EINVAL (some kernels: ENODATA) in
// gid_attrs; neither is an error, nor is a slot that an address change empties
// between the two.
func readGIDs(sys fs.FS, dir string, port int, layer LinkLayer) ([]GIDEntry, error) {
	read, done, err := openDir(sys, path.Join(dir, "gids"))
	if err != nil {
		return nil, fmt.Errorf("GID table: %w", err)
	}
	defer done()
	var table []GIDEntry
	var bad error
	for index := range maxGIDs {
		text, err := read(strconv.Itoa(index))
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err == nil && string(bytes.TrimSpace(text)) == emptySlot {
			continue
		}
		e := GIDEntry{Port: port, Index: index}
		if err == nil {
			e.GID, err = ParseGID(string(text))
		}
		if err == nil {
			err = readAttrs(sys, dir, layer, &e)
		}
		switch {
		case err == nil && !e.GID.IsZero():
			table = append(table, e)
		case err != nil && !isHole(err) && bad == nil:
			bad = fmt.Errorf("GID %d: %w", index, err)
		}
	}
	if len(table) == 0 && bad != nil {
		return nil, bad // nothing can be read: not the same as an empty table
	}
	return table, nil
}

// emptySlot is the text of the zero GID.
const emptySlot = "0000:0000:0000:0000:0000:0000:0000:0000"

func isHole(err error) bool {
	return errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENODATA) || errors.Is(err, fs.ErrNotExist)
}

// readAttrs reads type and netdev of an entry.
func readAttrs(sys fs.FS, dir string, layer LinkLayer, e *GIDEntry) error {
	name := strconv.Itoa(e.Index)
	kind, err := readText(sys, path.Join(dir, "gid_attrs", "types", name))
	switch {
	case err == nil:
		e.Type = parseGIDType(kind, layer)
	case layer == LinkLayerInfiniBand:
		e.Type = TypeIB // an InfiniBand port may have no gid_attrs
	case !isHole(err):
		return err
	}
	if e.Type == TypeIB {
		return nil
	}
	e.Netdev, err = readText(sys, path.Join(dir, "gid_attrs", "ndevs", name))
	if err != nil && !isHole(err) {
		return err
	}
	return nil
}

// parseGIDType reads the text of gid_attrs/types. The kernel has one word for
// InfiniBand and RoCE v1 ("IB/RoCE v1"): the link layer tells them apart.
func parseGIDType(text string, layer LinkLayer) GIDType {
	switch {
	case text == "RoCE v2":
		return TypeRoCEv2
	case text == "IB/RoCE v1" && layer == LinkLayerInfiniBand:
		return TypeIB
	case text == "IB/RoCE v1":
		return TypeRoCEv1
	}
	return TypeUnknown
}

// readText is a sysfs file without its line end.
func readText(sys fs.FS, name string) (string, error) {
	b, err := fs.ReadFile(sys, name)
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(b)), nil
}
