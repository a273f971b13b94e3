package doctor

import "fmt"

// answer is whether a rule is about a packet.
type answer uint8

const (
	no    answer = iota
	maybe        // it depends on what is not known here: the source address, a mark, a rate
	yes
)

// action is what a rule does with a packet that it is about.
type action uint8

const (
	goOn   action = iota
	accept        // of this hook; later hooks may still drop it
	drop
	jump
	back // to the chain that jumped here
)

// rule is one of a chain.
type rule struct {
	about  answer
	action action
	chain  string // to jump to
	final  bool   // does not come back from there
	text   string // for people
}

// chain is a list of rules; the packets of a hook begin in those that have one.
type chain struct {
	name   string
	hook   string // "input", "output" or ""
	policy action // accept or drop, of chains with a hook
	rules  []rule
	allow  string // the command that lets RoCE pass
}

// ruleset is the chains of one table by name. Which packet its rules are about is
// decided when it is read: one of RoCE v2, from or to a peer.
type ruleset struct {
	name   string
	chains map[string]*chain
}

// fate is what may happen to a packet in a chain.
type fate struct {
	passes, dropped bool
	through         bool   // it may come out at the end
	by              string // the first rule, or policy, that drops it
}

// fateIn follows a packet through the chains of a hook.
func (s ruleset) fateIn(c *chain) fate {
	f := s.follow(c, map[*chain]fate{})
	if !f.through {
		return f
	}
	if c.policy == drop {
		f.drop(fmt.Sprintf("policy drop of chain %s in table %s", c.name, s.name))
	} else {
		f.passes = true
	}
	return f
}

// follow follows a packet through a chain. done has the chains that were
// followed: they are jumped to from many places.
func (s ruleset) follow(c *chain, done map[*chain]fate) fate {
	if f, ok := done[c]; ok {
		return f
	}
	done[c] = fate{through: true} // of a loop, which the kernel does not allow
	f := s.rules(c, c.rules, done)
	done[c] = f
	return f
}

func (s ruleset) rules(c *chain, rules []rule, done map[*chain]fate) (f fate) {
	for _, r := range rules {
		if r.about == no {
			continue
		}
		ends := true // for packets that the rule is about
		switch r.action {
		case goOn:
			ends = false
		case accept:
			f.passes = true
		case drop:
			f.drop(fmt.Sprintf("rule %q of chain %s in table %s", r.text, c.name, s.name))
		case back:
			f.through = true
		case jump:
			if to := s.chains[r.chain]; to != nil {
				inner := s.follow(to, done)
				f.passes = f.passes || inner.passes
				if inner.dropped {
					f.drop(inner.by)
				}
				ends = !inner.through
				if r.final && inner.through { // goto comes out where this chain does
					f.through, ends = true, true
				}
			} else {
				ends = false
			}
		}
		if ends && r.about == yes {
			return f
		}
	}
	f.through = true
	return f
}

func (f *fate) drop(by string) {
	f.dropped = true
	if f.by == "" {
		f.by = by
	}
}
