//go:build !linux

package rdma

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
)

var errNotLinux = fmt.Errorf("RDMA devices of this system: %w", errors.ErrUnsupported)

// sysfsOfKernel is a directory that other systems do not have: no device.
func sysfsOfKernel() fs.FS { return os.DirFS("/sys") }

func routeTo(netip.Addr) (Route, error) { return Route{}, errNotLinux }

func hostNetdevs() ([]Netdev, error) { return nil, errNotLinux }

func mappedDevice(string) (string, error) { return "", errNotLinux }

// NetnsMode is for Linux only: it returns errors.ErrUnsupported, wrapped.
func NetnsMode() (string, error) { return "", errNotLinux }
