package doctor

import (
	"slices"
	"strconv"
	"strings"
)

// readIPTables reads what iptables-save prints. netdevs are those that RoCE
// packets come by.
func readIPTables(save []byte, tool string, netdevs []string) []ruleset {
	var sets []ruleset
	var current *ruleset
	for line := range strings.Lines(string(save)) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "*"):
			sets = append(sets, ruleset{name: line[1:], chains: map[string]*chain{}})
			current = &sets[len(sets)-1]
		case current == nil || line == "" || line[0] == '#':
		case line[0] == ':':
			words := strings.Fields(line[1:])
			if len(words) < 2 {
				continue
			}
			c := &chain{name: words[0], hook: hookOf(words[0], current.name), policy: accept,
				allow: tool + " -t " + current.name + " -I " + words[0] + " -p udp --dport 4791 -j ACCEPT"}
			if words[1] == "DROP" {
				c.policy = drop
			}
			current.chains[c.name] = c
		case strings.HasPrefix(line, "-A "):
			words := splitQuoted(line)
			if len(words) < 2 || current.chains[words[1]] == nil {
				continue
			}
			c := current.chains[words[1]]
			c.rules = append(c.rules, iptablesRule(line, words[2:], netdevs))
		}
	}
	return sets
}

// hookOf is where a built-in chain is asked. Those of nat only see the first
// packet, to change its addresses.
func hookOf(chain, table string) string {
	switch {
	case table == "nat":
		return ""
	case chain == "INPUT" || chain == "PREROUTING":
		return "input"
	case chain == "OUTPUT" || chain == "POSTROUTING":
		return "output"
	}
	return ""
}

// modules whose options are known below, or change nothing.
var knownMatches = []string{"udp", "tcp", "multiport", "comment", "state", "conntrack"}

func iptablesRule(text string, words []string, netdevs []string) rule {
	r := rule{about: yes, text: text}
	also := func(a answer) { r.about = min(r.about, a) }
	for i := 0; i < len(words); {
		negated := words[i] == "!"
		if negated {
			i++
		}
		if i == len(words) {
			break
		}
		option := words[i]
		i++
		var values []string
		for i < len(words) && words[i] != "!" && !strings.HasPrefix(words[i], "-") {
			values = append(values, words[i])
			i++
		}
		value := ""
		if len(values) > 0 {
			value = values[0]
		}
		is := maybe
		switch option {
		case "-p", "--protocol":
			is = yesIf(value == "udp" || value == "17" || value == "all" || value == "0")
		case "-m", "--match":
			if slices.Contains(knownMatches, value) {
				continue
			}
		case "--comment", "--reject-with", "--log-prefix", "--log-level", "--set-mark", "--set-xmark":
			continue
		case "--dport", "--destination-port", "--dports", "--destination-ports":
			is = yesIf(portIn(value, rocePort))
		case "-i", "--in-interface", "-o", "--out-interface":
			is = yesIf(slices.ContainsFunc(netdevs, func(n string) bool {
				prefix, wild := strings.CutSuffix(value, "+")
				return n == value || wild && strings.HasPrefix(n, prefix)
			}))
		case "--state", "--ctstate":
			// The two directions of RoCE are no request and reply to the kernel: ports
			// differ, so the first packet of each is new.
			is = yesIf(slices.Contains(strings.Split(value, ","), "NEW"))
		case "-j", "--jump", "-g", "--goto":
			r.target(value)
			r.final = option == "-g" || option == "--goto"
			continue
		}
		if negated && is != maybe {
			is = yes - is
		}
		also(is)
	}
	return r
}

// target sets what a rule does by the name of its target.
func (r *rule) target(name string) {
	switch name {
	case "ACCEPT":
		r.action = accept
	case "DROP", "REJECT":
		r.action = drop
	case "RETURN":
		r.action = back
	case "LOG", "NFLOG", "MARK", "CONNMARK", "TRACE", "CT", "NOTRACK", "CHECKSUM", "TCPMSS", "DSCP", "TOS", "ULOG", "AUDIT", "SET":
		r.action = goOn
	default:
		r.action, r.chain = jump, name
	}
}

// rocePort is where RoCE v2 packets go.
const rocePort = 4791

func yesIf(b bool) answer {
	if b {
		return yes
	}
	return no
}

// portIn reads "4791", "4000:5000" or "22,4791,5000:6000".
func portIn(list string, port int) bool {
	for _, item := range strings.Split(list, ",") {
		low, high, ranged := strings.Cut(item, ":")
		if !ranged {
			high = low
		}
		from, err := strconv.Atoi(low)
		if low == "" {
			from, err = 0, nil
		}
		to, err2 := strconv.Atoi(high)
		if high == "" {
			to, err2 = 65535, nil
		}
		if err == nil && err2 == nil && from <= port && port <= to {
			return true
		}
	}
	return false
}

// splitQuoted splits at spaces outside of double quotes.
func splitQuoted(s string) []string {
	var words []string
	var word strings.Builder
	quoted, started := false, false
	for _, r := range s {
		switch {
		case r == '"':
			quoted, started = !quoted, true
		case r == ' ' && !quoted:
			if started {
				words = append(words, word.String())
			}
			word.Reset()
			started = false
		default:
			word.WriteRune(r)
			started = true
		}
	}
	if started {
		words = append(words, word.String())
	}
	return words
}
