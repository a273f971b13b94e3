package rdma

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// maxGIDs bounds a table. The largest seen is 1,024 (rxe).
const maxGIDs = 4096

// readGIDs reads the live entries of a port directory's table by index, not
// annotated. An empty slot reads as zeros in gids, and as EINVAL (some kernels:
// ENODATA) in gid_attrs; neither is an error, nor is a slot that an address
// change empties between the two.
func readGIDs(sys fs.FS, dir string, port int, layer LinkLayer) ([]GIDEntry, error) {
	slots, err := fs.ReadDir(sys, path.Join(dir, "gids"))
	if err != nil {
		return nil, fmt.Errorf("GID table: %w", err)
	}
	var table []GIDEntry
	var bad error
	for _, slot := range slots {
		index, err := strconv.Atoi(slot.Name())
		if err != nil || index < 0 || index >= maxGIDs {
			continue
		}
		e, err := readGID(sys, dir, index, layer)
		switch {
		case err == nil:
			e.Port = port
			table = append(table, e)
		case isHole(err):
		case bad == nil:
			bad = fmt.Errorf("GID %d: %w", index, err)
		}
	}
	if len(table) == 0 && bad != nil {
		return nil, bad // nothing can be read: not the same as an empty table
	}
	slices.SortFunc(table, compareEntries)
	return table, nil
}

// errEmptySlot marks a slot without a GID.
var errEmptySlot = errors.New("empty slot")

func isHole(err error) bool {
	return errors.Is(err, errEmptySlot) || errors.Is(err, syscall.EINVAL) ||
		errors.Is(err, syscall.ENODATA) || errors.Is(err, fs.ErrNotExist)
}

func readGID(sys fs.FS, dir string, index int, layer LinkLayer) (GIDEntry, error) {
	name := strconv.Itoa(index)
	text, err := readText(sys, path.Join(dir, "gids", name))
	if err != nil {
		return GIDEntry{}, err
	}
	gid, err := ParseGID(text)
	if err != nil {
		return GIDEntry{}, err
	}
	if gid.IsZero() {
		return GIDEntry{}, errEmptySlot
	}
	e := GIDEntry{Index: index, GID: gid}
	kind, err := readText(sys, path.Join(dir, "gid_attrs", "types", name))
	switch {
	case err == nil:
		e.Type = parseGIDType(kind, layer)
	case layer == LinkLayerInfiniBand:
		e.Type = TypeIB // an InfiniBand port may have no gid_attrs
	case !isHole(err):
		return GIDEntry{}, err
	}
	if e.Type != TypeIB {
		e.Netdev, err = readText(sys, path.Join(dir, "gid_attrs", "ndevs", name))
		if err != nil && !isHole(err) {
			return GIDEntry{}, err
		}
	}
	return e, nil
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
