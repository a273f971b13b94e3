//go:build !linux

package rdma

import (
	"errors"
	"fmt"
	"net/netip"
)

var errNotLinux = fmt.Errorf("RDMA devices of this system: %w", errors.ErrUnsupported)

func routeTo(netip.Addr) (Route, error) { return Route{}, errNotLinux }

func hostNetdevs() ([]Netdev, error) { return nil, errNotLinux }

func mappedDevice(string) (string, error) { return "", errNotLinux }

// NetnsMode is for Linux only: it returns errors.ErrUnsupported, wrapped.
func NetnsMode() (string, error) { return "", errNotLinux }
