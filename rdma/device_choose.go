package rdma

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// way is a netdev to look for devices on.
type way struct {
	route Route
	why   string
}

// Choose picks the device, port and GID for a connection:
//
//  1. a device on the netdev that owns Local,
//  2. a device on the netdev that the route to the peer leaves by; when the
//     peer's address is this host's own (its route goes to lo), on the netdev
//     that owns the address,
//  3. for a loopback peer, any device: both ends are this host.
//
// A port that is not active, or where [ChooseGID] finds nothing, counts as
// absent. A device or index that was asked for is used or is an error. The
// peer's address is the one in PeerGID where that is a routable one, else Peer.
//
// The error is a *NoDeviceError; it matches ErrNoGID too if a device was there
// but for its GIDs.
func (h Host) Choose(q Query) (Choice, error) {
	netdevs, err := h.hostNetdevs()
	if err != nil {
		return Choice{}, err
	}
	devices, err := h.devices(netdevs)
	if err != nil {
		return Choice{}, err
	}
	s := search{host: h, query: q, devices: devices, seen: map[string]bool{}}
	if len(devices) == 0 {
		return Choice{}, s.fail("this host has none: load the NIC's RDMA driver, " +
			"or make one with `rdma link add rxe0 type rxe netdev NETDEV`")
	}
	ways := s.ways(netdevs)
	if q.Device != "" {
		return s.named(ways)
	}
	for _, w := range ways {
		found, how := s.on(w)
		for _, c := range found {
			if choice, ok := s.try(c, w, w.why+", "+how); ok {
				return choice, nil
			}
		}
	}
	s.rest(ways)
	if s.routeErr != nil {
		return Choice{}, s.fail(s.routeErr.Error())
	}
	return Choice{}, s.fail("set the device and the GID index to override the choice")
}

// search is one run of Choose.
type search struct {
	host     Host
	query    Query
	devices  []Device
	routeErr error
	local    bool // the peer's address is this host's own
	reasons  []DeviceReason
	seen     map[string]bool // ports that have a reason
}

// ways lists the netdevs to try, the best first.
func (s *search) ways(netdevs []Netdev) []way {
	q := s.query
	peer := q.Peer.Unmap()
	if gid := q.PeerGID.Addr(); q.PeerType != TypeIB && !q.PeerGID.IsZero() && !gid.IsLinkLocalUnicast() {
		peer = gid
	}
	var ways []way
	var route Route
	if peer.IsValid() {
		route, s.routeErr = s.host.routeTo(peer)
	}
	s.local = route.Local
	if netdev, ok := ownerOf(q.Local, netdevs); ok {
		ways = append(ways, way{
			route: Route{Netdev: netdev, Source: q.Local.Unmap(), Gateway: route.Gateway, Local: route.Local},
			why:   fmt.Sprintf("%s owns the local address %v", netdev, q.Local),
		})
	}
	switch {
	case !peer.IsValid():
		ways = append(ways, way{why: "no peer address"})
	case s.routeErr != nil:
	case route.Local:
		if netdev, ok := ownerOf(peer, netdevs); ok {
			ways = append(ways, way{
				route: Route{Netdev: netdev, Source: peer, Local: true},
				why:   fmt.Sprintf("peer %v is this host, the address is on %s", peer, netdev),
			})
		}
		if peer.IsLoopback() {
			ways = append(ways, way{route: Route{Local: true}, why: "the peer is this host"})
		}
	default:
		ways = append(ways, way{route: route, why: fmt.Sprintf("the route to %v leaves by %s", peer, route.Netdev)})
	}
	return ways
}

// ownerOf is the netdev that has the address. All of 127.0.0.0/8 is lo's.
func ownerOf(addr netip.Addr, netdevs []Netdev) (string, bool) {
	if !addr.IsValid() {
		return "", false
	}
	zone, addr := addr.Zone(), addr.WithZone("").Unmap()
	for _, d := range netdevs {
		for _, p := range d.Prefixes {
			own := p.Addr().WithZone("").Unmap()
			if own == addr && (zone == "" || zone == d.Name) || own.IsLoopback() && own.Is4() && p.Contains(addr) {
				return d.Name, true
			}
		}
	}
	return "", false
}

// on returns the ports that a way leads to.
func (s *search) on(w way) ([]candidate, string) {
	if w.route.Netdev != "" {
		return s.host.on(w.route.Netdev, s.devices)
	}
	all := candidates(s.devices)
	sortCandidates(all)
	return all, "any device will do"
}

// named is the search among the ports of the device that was asked for.
func (s *search) named(ways []way) (Choice, error) {
	i := slices.IndexFunc(s.devices, func(d Device) bool { return d.Name == s.query.Device })
	if i < 0 {
		names := make([]string, 0, len(s.devices))
		for _, d := range s.devices {
			names = append(names, d.Name)
		}
		return Choice{}, s.fail(fmt.Sprintf("%s, which was asked for, is not here; there are: %s",
			s.query.Device, strings.Join(names, ", ")))
	}
	d := s.devices[i]
	if d.Err != nil {
		s.reasons = append(s.reasons, DeviceReason{Device: d.Name, Err: d.Err})
	}
	for _, p := range d.Ports {
		c, tried := candidate{d, p}, false
		for _, w := range ways {
			if w.route.Netdev == "" || !slices.Contains(p.Netdevs, w.route.Netdev) {
				continue
			}
			tried = true
			if choice, ok := s.try(c, w, "asked for; "+w.why); ok {
				return choice, nil
			}
		}
		if tried {
			continue
		}
		// A network of its own for RDMA: the peer's GID is in it, the address
		// of the bootstrap connection is not.
		why := "asked for; no route to the peer leaves by it"
		if s.local {
			why = "asked for; the peer is this host, by another netdev"
		}
		if choice, ok := s.try(c, way{}, why); ok {
			return choice, nil
		}
	}
	return Choice{}, s.fail(s.query.Device + ", which was asked for, cannot be used")
}

// try chooses a GID on one port, or notes why there is none.
func (s *search) try(c candidate, w way, why string) (Choice, bool) {
	if s.query.Port != 0 && s.query.Port != c.port.Number {
		s.note(c, fmt.Errorf("port %d was asked for", s.query.Port))
		return Choice{}, false
	}
	if err := c.unusable(); err != nil {
		s.note(c, err)
		return Choice{}, false
	}
	entry, trace, err := ChooseGID(c.port.GIDs, GIDWant{
		Peer:      s.query.Peer,
		PeerGID:   s.query.PeerGID,
		PeerType:  s.query.PeerType,
		LinkLayer: c.port.LinkLayer,
		Explicit:  s.query.GIDIndex,
		Route:     w.route,
	})
	if err != nil {
		s.note(c, err)
		return Choice{}, false
	}
	return Choice{
		Device: c.device, Port: c.port, GID: entry, Route: w.route,
		Why: why, Trace: trace, PassedOver: s.reasons,
	}, true
}

func (s *search) note(c candidate, err error) {
	key := fmt.Sprintf("%s/%d", c.device.Name, c.port.Number)
	if s.seen[key] {
		return // the first, best way counts
	}
	s.seen[key] = true
	s.reasons = append(s.reasons, DeviceReason{Device: c.device.Name, Port: c.port.Number, Err: err})
}

// rest notes why the ports that no way led to were not tried.
func (s *search) rest(ways []way) {
	for _, d := range s.devices {
		if d.Err != nil {
			s.reasons = append(s.reasons, DeviceReason{Device: d.Name, Err: d.Err})
		}
		for _, p := range d.Ports {
			on := "no netdev"
			if len(p.Netdevs) > 0 {
				on = "on " + strings.Join(p.Netdevs, ", ")
			}
			var wanted []string
			for _, w := range ways {
				wanted = append(wanted, w.why)
			}
			if len(wanted) == 0 {
				wanted = []string{"no way to the peer is known"}
			}
			s.note(candidate{d, p}, errors.New(on+"; "+strings.Join(wanted, ", ")))
		}
	}
}

func (s *search) fail(cause string) error {
	return &NoDeviceError{Peer: s.query.Peer, Cause: cause, Reasons: s.reasons}
}
