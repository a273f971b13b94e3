package doctor

import (
	"fmt"
	"slices"

	"github.com/rmatail/rmatail/rdma"
)

// checkFirewall is about UDP port 4791. Packets of soft-RoCE pass through the
// kernel's packet filter; those of hardware do not.
func (e *exam) checkFirewall() {
	var netdevs []string
	hardware := false
	e.eachPort(func(d rdma.Device, p rdma.Port, _ string) {
		if _, soft := e.rxe(d); !soft {
			hardware = true
			return
		}
		for _, n := range p.Netdevs {
			netdevs = appendNew(netdevs, n)
		}
	})
	switch f := e.Firewall; {
	case len(netdevs) == 0 && hardware:
		e.say("firewall", "", OK, "hardware does not pass through this host's packet filter; if peers are not reached, it is one between (UDP port 4791)")
	case len(netdevs) == 0:
		return
	case f.Absent && len(f.IPv4)+len(f.IPv6) == 0:
		e.say("firewall", "", OK, "the kernel's packet filter is not loaded")
	case f.Err != nil && len(f.NFT)+len(f.IPv4)+len(f.IPv6) == 0:
		e.say("firewall", "", Unknown, fmt.Sprintf("whether it lets UDP port 4791 pass cannot be found out: %v", f.Err), "nft list ruleset   # as root", "iptables-save")
	default:
		e.judgeFirewall(netdevs)
	}
}

func (e *exam) judgeFirewall(netdevs []string) {
	f := e.Firewall
	sets := append(readIPTables(f.IPv4, "iptables", netdevs), readIPTables(f.IPv6, "ip6tables", netdevs)...)
	if len(f.NFT) > 0 {
		var known []string
		if len(f.IPv4) > 0 {
			known = iptablesTables
		}
		more, err := readNFT(f.NFT, known, netdevs)
		if err != nil {
			e.say("firewall", "", Unknown, err.Error(), "nft list ruleset   # as root")
			return
		}
		sets = append(sets, more...)
	}
	said := false
	for _, s := range sets {
		names := make([]string, 0, len(s.chains))
		for n := range s.chains {
			names = append(names, n)
		}
		slices.Sort(names)
		for _, n := range names {
			c := s.chains[n]
			if c.hook == "" {
				continue
			}
			fate := s.fateIn(c)
			if !fate.dropped {
				continue
			}
			said = true
			if !fate.passes {
				e.say("firewall", "", Fail, fmt.Sprintf("drops RoCE packets (UDP port 4791, %s): %s", c.hook, fate.by), e.allow(c)...)
			} else {
				e.say("firewall", "", Warn, fmt.Sprintf("may drop RoCE packets (UDP port 4791, %s) of some peers: %s", c.hook, fate.by), e.allow(c)...)
			}
		}
	}
	if !said {
		e.say("firewall", "", OK, "lets UDP port 4791 pass")
	}
}

// allow is how RoCE is let through here: by the tool that manages the rules, if
// there is one.
func (e *exam) allow(c *chain) []string {
	switch {
	case e.command("firewall-cmd"):
		return []string{"firewall-cmd --permanent --add-port=4791/udp && firewall-cmd --reload"}
	case e.command("ufw"):
		return []string{"ufw allow 4791/udp"}
	}
	return []string{c.allow}
}
