package guardian

import (
	"net/netip"
	"strings"

	"github.com/helmkernel/helm/guardian/internal/value"
)

// destinations reads the operands of within, url, host, email and cidr.
func (c *compiler) destinations(list []part, o op, x *operand) bool {
	var below, query []value.Subtree
	var names, wild []string
	var nets []netip.Prefix
	whole := true
	for _, p := range list {
		s := p.v.Text()
		ok, form := false, ""
		switch o {
		case opWithin:
			ok, form = value.IsPath(s), "an absolute path like /srv/data"
			below = append(below, value.PathTree(s))
		case opURL:
			form = "a URL like https://host/path/, with ? at the end if a query is permitted"
			var t value.Subtree
			var permitted bool
			if t, permitted, ok = value.ReadURLTree(s); permitted {
				query = append(query, t)
			}
			below = append(below, t)
		case opHost:
			form = "a host name, or *.name for those strictly below it"
			name, star := strings.CutPrefix(s, "*.")
			var host []byte
			if host, ok = value.AppendHost(nil, []byte(name)); star {
				_, ip := value.ReadIP(host)
				ok = ok && !ip && host[0] != '['
				wild = append(wild, string(host))
			} else {
				names = append(names, string(host))
			}
		case opEmail:
			form = "a domain like corp.com, or an address"
			var b []byte
			if strings.Contains(s, "@") {
				b, _, _, ok = value.ReadEmail(nil, []byte(s))
			} else {
				b, ok = value.AppendDomain(nil, []byte(s))
			}
			names = append(names, string(b))
		case opCIDR:
			form = "a network like 10.0.0.0/8 or 2001:db8::/32, without bits after its length"
			prefix, err := netip.ParsePrefix(s)
			ok = err == nil && prefix == prefix.Masked() && !prefix.Addr().Is4In6()
			nets = append(nets, prefix)
		}
		if !ok {
			c.l.refuse(p.at, quote(s)+" is not "+form, "correct it")
			whole = false
		}
	}
	if !whole {
		return false
	}
	x.below, x.query, x.networks = value.NewSubtrees(below), value.NewSubtrees(query), value.NewNetworks(nets)
	x.set, x.wild = value.NewSet(names, false), value.NewSet(wild, false)
	return true
}
