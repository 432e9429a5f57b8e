package compile

import (
	"net/netip"
	"strings"

	"github.com/helmkernel/helm/guardian/internal/program"
	"github.com/helmkernel/helm/guardian/internal/value"
)

// destinations reads the operands of within, url, host, email and cidr.
func (c *constants) destinations(list []docValue, o program.Op, x *program.Operand) bool {
	var below, query []value.Subtree
	var names, wild []string
	var nets []netip.Prefix
	whole := true
	for _, p := range list {
		s := p.v.Text()
		ok, form := false, ""
		switch o {
		case program.OpWithin:
			ok, form = value.IsPath(s), "an absolute path like /srv/data"
			below = append(below, value.PathTree(s))
		case program.OpURL:
			form = "a URL like https://host/path/, with ? at the end if a query is permitted"
			var t value.Subtree
			var permitted bool
			t, permitted, ok = value.ReadURLTree(s)
			if permitted {
				query = append(query, t)
			}
			below = append(below, t)
		case program.OpHost:
			form = "a host name, or *.name for those strictly below it"
			name, star := strings.CutPrefix(s, "*.")
			var host []byte
			host, ok = value.AppendHost(nil, []byte(name))
			if star {
				_, ip := value.ReadIP(host)
				ok = ok && !ip && host[0] != '['
				wild = append(wild, string(host))
			} else {
				names = append(names, string(host))
			}
		case program.OpEmail:
			form = "a domain like corp.com, or an address"
			var b []byte
			if strings.Contains(s, "@") {
				b, _, _, ok = value.ReadEmail(nil, []byte(s))
			} else {
				b, ok = value.AppendDomain(nil, []byte(s))
			}
			names = append(names, string(b))
		case program.OpCIDR:
			form = "a network like 10.0.0.0/8 or 2001:db8::/32, without bits after its length"
			prefix, err := netip.ParsePrefix(s)
			ok = err == nil && prefix == prefix.Masked() && !prefix.Addr().Is4In6()
			nets = append(nets, prefix)
		}
		if !ok {
			c.refuse(p.at, quote(s)+" is not "+form, "correct it")
			whole = false
		}
	}
	if !whole {
		return false
	}
	x.Below, x.Query, x.Networks = value.NewSubtrees(below), value.NewSubtrees(query), value.NewNetworks(nets)
	x.Set, x.Wild = value.NewSet(names, false), value.NewSet(wild, false)
	return true
}

// windows reads the windows of a test of the time.
func (c *constants) windows(p docValue) (*value.Week, bool) {
	week := new(value.Week)
	list, ok := c.strings(p)
	for _, e := range list {
		if s := e.v.Text(); !week.Add(s) {
			c.refuse(e.at, quote(s)+" is no window", `write it like "Mon-Fri 08:00-18:00", within one day`)
			ok = false
		}
	}
	return week, ok
}
