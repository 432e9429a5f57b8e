package compile

import (
	"slices"
	"strconv"
	"time"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian/internal/program"
	"github.com/helmkernel/helm/guardian/internal/value"
	"github.com/helmkernel/helm/internal/grammar"
)

const usualTTL = 10 * time.Minute

// requirementNeed reads one need of a requirement.
func (c *compiler) requirementNeed(p docValue) (program.Need, bool) {
	switch {
	case p.has("receipt"):
		n, ok := c.receipt(p, 1, relaxes)
		n.At = c.placed(p.at)
		x := program.Need{Receipt: n}
		if ok {
			x.Lacks = "no receipt of " + n.More.Prior.Tool + " in the session, as it is required"
		}
		return x, ok
	case p.has("approval"):
		if !c.strict(p, []string{"approval"}) {
			return program.Need{}, false
		}
		a, ok := c.approval(p.get("approval"))
		return program.Need{Approval: a}, ok
	case p.has("attestation"):
		if !c.strict(p, []string{"attestation"}) {
			return program.Need{}, false
		}
		a, ok := c.attestation(p.get("attestation"))
		lacks := "no attestation of type " + a.Type + " that an attestor signed, as it is required"
		return program.Need{Attestation: a, Lacks: lacks}, ok
	}
	keys := grammar.Needs
	it := p.v.Iter()
	switch {
	case !p.isObject():
		c.object(p, keys)
	case !it.Next():
		c.refuse(p.at, "no need", "write one of approval, attestation, receipt")
	default: // its other keys are no keys of a need for the same reason
		key := string(it.Key())
		c.refuse(p.at+"/"+value.EscapeSegment(key), "unknown key "+quote(key), instead(key, keys))
	}
	return program.Need{}, false
}

func (c *compiler) approval(p docValue) (*program.Approval, bool) {
	before := c.refused
	x := &program.Approval{Quorum: 1, TTL: usualTTL}
	if !c.strict(p, grammar.Approval) {
		return x, false
	}
	if roles, ok := c.need(p, "roles"); ok {
		for _, e := range c.distinct(roles, 1) {
			isRole := func(s string) bool { return contracts.IsWords(s, contracts.MaxRole) }
			c.word(e, isRole, "a role: 1 to 64 bytes without control characters")
			x.Roles = append(x.Roles, e.v.Text())
		}
		if len(x.Roles) > contracts.MaxRoles {
			remedy := "name at most " + strconv.Itoa(contracts.MaxRoles)
			c.refuse(roles.at, strconv.Itoa(len(x.Roles))+" roles", remedy)
		}
	}
	slices.Sort(x.Roles)
	if q := p.get("quorum"); q.exists() {
		n, ok := q.v.Uint()
		x.Quorum = n
		if !ok || n < 1 || n > contracts.MaxListed {
			c.refuse(q.at, "no quorum", "write how many people must approve: an integer from 1 to "+
				strconv.Itoa(contracts.MaxListed)+", for no call presents more approvals")
		}
	}
	c.duration(p.get("ttl"), &x.TTL)
	return x, c.refused == before
}

func (c *compiler) attestation(p docValue) (*program.Attestation, bool) {
	before := c.refused
	x := &program.Attestation{}
	if !c.strict(p, grammar.Attestation) {
		return x, false
	}
	if kind, ok := c.need(p, "type"); ok {
		x.Type, _ = c.word(kind, isWords, formWords)
	}
	if age, ok := c.need(p, "max_age"); ok {
		c.duration(age, &x.Age)
	}
	if bind := p.get("bind"); bind.exists() {
		if bind.isObject() && bind.v.Len() == 0 {
			c.refuse(bind.at, "binds nothing", "write {claim: /pointer}, or remove bind")
		}
		c.members(bind, func(claim string, here docValue) {
			if segments, _, ok := c.required(here); ok {
				x.Bind = append(x.Bind, program.Binding{Claim: claim, Here: segments})
			}
		})
	}
	return x, c.refused == before
}
