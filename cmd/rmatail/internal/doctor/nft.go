package doctor

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// iptablesTables are the tables that iptables keeps in nftables, of the families ip
// and ip6.
var iptablesTables = []string{"filter", "nat", "mangle", "raw", "security"}

// readNFT reads what `nft --json list ruleset` prints, but for tables of the
// families ip and ip6 whose rules are known already.
func readNFT(text []byte, known []string, netdevs []string) ([]ruleset, error) {
	var all struct {
		NFTables []struct {
			Chain *nftChain `json:"chain"`
			Rule  *nftRule  `json:"rule"`
		} `json:"nftables"`
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("output of nft: %w", err)
	}
	var sets []ruleset
	set := func(family, table string) *ruleset {
		name := family + " " + table
		if i := slices.IndexFunc(sets, func(s ruleset) bool { return s.name == name }); i >= 0 {
			return &sets[i]
		}
		sets = append(sets, ruleset{name: name, chains: map[string]*chain{}})
		return &sets[len(sets)-1]
	}
	ours := func(family, table string) bool {
		return family == "inet" || (family == "ip" || family == "ip6") && !slices.Contains(known, table)
	}
	for _, item := range all.NFTables {
		if c := item.Chain; c != nil && ours(c.Family, c.Table) {
			set(c.Family, c.Table).chains[c.Name] = c.chain()
		}
	}
	for _, item := range all.NFTables {
		if r := item.Rule; r != nil && ours(r.Family, r.Table) {
			if c := set(r.Family, r.Table).chains[r.Chain]; c != nil {
				c.rules = append(c.rules, r.rule(netdevs))
			}
		}
	}
	return sets, nil
}

type nftChain struct {
	Family, Table, Name, Type, Hook, Policy string
}

func (n *nftChain) chain() *chain {
	c := &chain{name: n.Name, policy: accept, allow: fmt.Sprintf("nft insert rule %s %s %s udp dport 4791 accept", n.Family, n.Table, n.Name)}
	if n.Type == "filter" {
		switch n.Hook {
		case "input", "prerouting":
			c.hook = "input"
		case "output", "postrouting":
			c.hook = "output"
		}
	}
	if n.Policy == "drop" {
		c.policy = drop
	}
	return c
}

type nftRule struct {
	Family, Table, Chain string
	Expr                 []map[string]json.RawMessage
}

// rule reads the expressions of a rule: all matches must fit, and the statements
// are carried out in turn.
func (n *nftRule) rule(netdevs []string) rule {
	r := rule{about: yes}
	var words []string
	for _, e := range n.Expr {
		for kind, body := range e {
			switch kind {
			case "match":
				var m nftMatch
				is := maybe
				if json.Unmarshal(body, &m) == nil {
					is = m.about(netdevs)
					words = append(words, m.text())
				}
				r.about = min(r.about, is)
			case "accept":
				r.action = accept
			case "drop", "reject":
				r.action = drop
			case "return":
				r.action = back
			case "jump", "goto":
				var to struct{ Target string }
				_ = json.Unmarshal(body, &to) // an empty target leads nowhere
				r.action, r.chain, r.final = jump, to.Target, kind == "goto"
			case "counter", "log", "mangle", "notrack":
			case "vmap": // a verdict by a value
				r.about, r.action = min(r.about, maybe), accept
			default: // limit, quota, set, xt, ...: not known
				r.about = min(r.about, maybe)
			}
			if kind != "match" && kind != "counter" {
				words = append(words, kind)
			}
		}
	}
	r.text = strings.Join(words, " ")
	return r
}

type nftMatch struct {
	Op   string          `json:"op"`
	Left json.RawMessage `json:"left"`
	// Right is a value, a list of them, {"set": [...]} or {"range": [a, b]}.
	Right json.RawMessage `json:"right"`
}

func (m nftMatch) left() (what string) {
	var l struct {
		Payload *struct{ Protocol, Field string } `json:"payload"`
		Meta    *struct{ Key string }             `json:"meta"`
		CT      *struct{ Key string }             `json:"ct"`
	}
	switch err := json.Unmarshal(m.Left, &l); {
	case err != nil:
	case l.Payload != nil:
		return l.Payload.Protocol + " " + l.Payload.Field
	case l.Meta != nil:
		return l.Meta.Key
	case l.CT != nil:
		return "ct " + l.CT.Key
	}
	return "?"
}

func (m nftMatch) text() string { return m.left() + " " + string(m.Right) }

// about is whether a RoCE packet matches.
func (m nftMatch) about(netdevs []string) answer {
	is := maybe
	switch left := m.left(); left {
	case "udp dport", "th dport":
		is = m.has(rocePort)
	case "tcp dport", "tcp sport", "sctp dport":
		return no
	case "l4proto", "ip protocol", "ip6 nexthdr":
		is = max(m.has("udp"), m.has(17))
	case "nfproto":
		return maybe // IPv4 or IPv6
	case "ct state":
		is = m.has("new") // see iptablesRule
	case "iif", "iifname", "oif", "oifname":
		is = no
		for _, n := range netdevs {
			is = max(is, m.has(n))
		}
	}
	if m.Op == "!=" && is != maybe {
		is = yes - is
	}
	return is
}

// has is whether a value is among the right side's.
func (m nftMatch) has(want any) answer {
	var right any
	if json.Unmarshal(m.Right, &right) != nil {
		return maybe
	}
	return hasValue(right, want)
}

func hasValue(right, want any) answer {
	switch r := right.(type) {
	case float64:
		if n, ok := want.(int); ok {
			return yesIf(int(r) == n)
		}
		return no
	case string:
		if strings.HasPrefix(r, "@") {
			return maybe // a named set
		}
		text, ok := want.(string)
		prefix, wild := strings.CutSuffix(r, "*")
		return yesIf(ok && (r == text || wild && strings.HasPrefix(text, prefix)))
	case []any:
		is := no
		for _, v := range r {
			is = max(is, hasValue(v, want))
		}
		return is
	case map[string]any:
		if set, ok := r["set"]; ok {
			return hasValue(set, want)
		}
		if ends, ok := r["range"].([]any); ok && len(ends) == 2 {
			low, lok := ends[0].(float64)
			high, hok := ends[1].(float64)
			if n, ok := want.(int); ok && lok && hok {
				return yesIf(int(low) <= n && n <= int(high))
			}
		}
	}
	return maybe
}
