package guardian

import (
	"slices"
	"strconv"
	"time"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/jsonschema"
)

// A need is one thing that a requirement asks for: an approval, an attestation or a receipt.
type need struct {
	approval    *approval
	attestation *attestation
	receipt     node
	lacks       string // what to say where it is not there
}

// An approval is asked of people.
type approval struct {
	roles  []string // of which a holder must have one; sorted
	quorum uint64   // how many holders must say yes
	ttl    time.Duration
}

// An attestation is asked of a third party.
type attestation struct {
	kind string
	age  time.Duration
	bind []binding
}

// A binding is a claim that must be the value at a pointer.
type binding struct {
	claim string
	here  []string
}

const usualTTL = 10 * time.Minute

// particular is that of a predicate.
func (n *need) particular() bool {
	return n.attestation != nil && n.attestation.bind != nil || n.receipt.op != 0 && n.receipt.particular()
}

// need reads one.
func (c *compiler) need(p part) (need, bool) {
	switch {
	case p.has("receipt"):
		n, ok := c.receipt(p)
		x := need{receipt: n}
		if ok {
			x.lacks = "no receipt of " + n.more.prior.of.name + " in the session, as it is required"
		}
		return x, ok
	case p.has("approval"):
		if !c.alone(p, "approval") {
			return need{}, false
		}
		a, ok := c.l.readApproval(p.get("approval"))
		return need{approval: a}, ok
	case p.has("attestation"):
		if !c.alone(p, "attestation") {
			return need{}, false
		}
		a, ok := c.attestation(p.get("attestation"))
		return need{attestation: a, lacks: "no attestation of type " + a.kind + " that an attestor signed, as it is required"}, ok
	}
	if c.l.object(p, []string{"approval", "attestation", "receipt"}, nil) && p.v.Len() == 0 {
		c.l.refuse(p.at, "no need", "write one of approval, attestation, receipt")
	}
	return need{}, false
}

// alone refuses keys beside the one of a need.
func (c *compiler) alone(p part, key string) bool {
	before := len(c.l.errs)
	return c.l.object(p, []string{key}, nil) && len(c.l.errs) == before
}

func (l *loader) readApproval(p part) (*approval, bool) {
	before := len(l.errs)
	x := &approval{quorum: 1, ttl: usualTTL}
	if !l.object(p, []string{"roles", "quorum", "ttl"}, nil) || len(l.errs) > before {
		return x, false
	}
	if roles, ok := l.need(p, "roles"); ok {
		for _, e := range l.distinct(roles, 1) {
			l.word(e, isRole, "a role: 1 to 64 bytes without control characters")
			x.roles = append(x.roles, e.v.Text())
		}
		if len(x.roles) > contracts.MaxRoles {
			l.refuse(roles.at, strconv.Itoa(len(x.roles))+" roles", "name at most "+strconv.Itoa(contracts.MaxRoles))
		}
	}
	slices.Sort(x.roles)
	if q := p.get("quorum"); q.there() {
		var ok bool
		if x.quorum, ok = q.v.Uint(); !ok || x.quorum < 1 || x.quorum > contracts.MaxListed {
			l.refuse(q.at, "no quorum", "write how many people must approve: an integer from 1 to "+strconv.Itoa(contracts.MaxListed)+", for no call presents more approvals")
		}
	}
	l.duration(p.get("ttl"), &x.ttl)
	return x, len(l.errs) == before
}

func isRole(s string) bool { return contracts.IsWords(s, contracts.MaxRole) }

func (c *compiler) attestation(p part) (*attestation, bool) {
	before := len(c.l.errs)
	x := &attestation{}
	if !c.l.object(p, []string{"type", "bind", "max_age"}, nil) || len(c.l.errs) > before {
		return x, false
	}
	if kind, ok := c.l.need(p, "type"); ok {
		x.kind, _ = c.l.word(kind, isLabel, "1 to 128 bytes without control characters")
	}
	if age, ok := c.l.need(p, "max_age"); ok {
		c.l.duration(age, &x.age)
	}
	if bind := p.get("bind"); bind.there() {
		if bind.v.Kind() == crypto.Object && bind.v.Len() == 0 {
			c.l.refuse(bind.at, "binds nothing", "write {claim: /pointer}, or remove bind")
		}
		c.l.members(bind, func(claim string, here part) {
			if segments, _, ok := c.surely(here); ok {
				x.bind = append(x.bind, binding{claim, segments})
			}
		})
	}
	return x, len(c.l.errs) == before
}

// surely reads a pointer to a value that is never missing or null: what another must be equal to.
func (c *compiler) surely(here part) ([]string, jsonschema.Place, bool) {
	segments, place, ok := c.pointer(here, nil, false)
	if ok && gapOf(place) == open {
		c.l.refuse(here.at, "the value may be missing or null in a call of "+c.t.name, "compare with a value that is required in the schema, or has a default")
		ok = false
	}
	return segments, place, ok
}
