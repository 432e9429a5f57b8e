package compile

import (
	"slices"
	"strings"
	"time"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/program"
	"github.com/helmkernel/helm/guardian/internal/value"
	"github.com/helmkernel/helm/internal/grammar"
)

// Keys of a document of each layer.
var layers = []struct {
	name string
	keys []string
}{
	{floorLayer, grammar.FloorKeys},
	{bundleLayer, grammar.BundleKeys},
	{overlayLayer, grammar.OverlayKeys},
}

// head reads what says whether and how to read the rest.
func (l *loader) head(root docValue) bool {
	format, ok := l.need(root, "helm")
	if ok {
		_, ok = l.oneOf(format, grammar.Formats...)
	}
	layer, exists := l.need(root, "layer")
	if !ok || !exists {
		return false
	}
	l.layer, ok = l.oneOf(layer, floorLayer, bundleLayer, overlayLayer)
	if !ok {
		l.layer = ""
		return false
	}
	named := root
	if l.layer == bundleLayer {
		named, ok = l.need(root, "bundle")
		if !ok || !l.object(named, grammar.BundleName) {
			return false
		}
	}
	name, ok := l.need(named, "name")
	l.lacks = !ok || l.layer == floorLayer && !named.has("version")
	if ok {
		l.name, _ = l.word(name, contracts.IsID, formID)
	}
	l.prefix = prefixOf(l.layer, l.name)
	l.record = contracts.PolicyDocument{Digest: crypto.Sum(l.doc.Canonical), Layer: l.layer, Name: l.name, Version: 1}
	if l.layer == overlayLayer && !named.has("version") {
		return true
	}
	if version, ok := l.need(named, "version"); ok {
		l.record.Version, ok = version.v.Uint()
		if !ok || l.record.Version == 0 {
			l.refuse(version.at, "not a version", "write an integer from 1 on")
		}
	}
	return true
}

func prefixOf(layer, name string) string { return layer + ":" + name + ":" }

// elsewhere says in which layers an unknown key is one, if in any.
func elsewhere(key string, keys []string) string {
	var in []string
	for _, x := range layers {
		if slices.Contains(x.keys, key) {
			in = append(in, x.name)
		}
	}
	if in == nil {
		return instead(key, keys)
	}
	remedy := "remove it: " + key + " is a key of " + strings.Join(in, " and ")
	if key == "threat" {
		remedy += ", and of tools"
	}
	return remedy
}

// readBundle reads a P1 document.
func (l *loader) readBundle() {
	l.readCommon()
	tools, ok := l.need(l.root, "tools")
	l.catalog.partial = !ok || !tools.isObject()
	if ok {
		l.members(tools, func(name string, p docValue) {
			before := l.refused
			t := l.readTool(name, p)
			l.catalog.doubtful[name] = l.refused > before
			l.catalog.partial = l.catalog.partial || !contracts.IsTool(name)
			t.Expiry, t.ScopeRule = program.Expiry{At: l.expires, Rule: l.prefix + "expires"}, l.prefix+"scope"
			l.catalog.tools[name] = t
			l.catalog.names = append(l.catalog.names, name)
		})
	}
	if rules, ok := l.need(l.root, "rules"); ok {
		l.readRules(rules)
	}
	l.readConditions()
}

// readLayer reads a P0 or P2 document, which speaks of the tools of all bundles.
func (l *loader) readLayer(tools map[string]*program.Tool, names []string) {
	l.catalog.tools, l.catalog.names = tools, names
	l.readCommon()
	l.terms = l.readTerms()
	if profile := l.root.get("profile"); profile.exists() && l.layer == floorLayer {
		floor{l}.readProfile(profile)
	}
	if ceilings := l.root.get("ceilings"); ceilings.exists() && l.layer == floorLayer {
		floor{l}.readCeilings(ceilings)
	}
	if threat := l.root.get("threat"); threat.exists() && l.layer == floorLayer {
		floor{l}.readThreat(threat)
	}
	if condense := l.root.get("condense"); condense.exists() && l.layer == floorLayer {
		floor{l}.readCondense(condense)
	}
	if rules := l.root.get("rules"); rules.exists() {
		l.readRules(rules)
	}
	l.readConditions()
	if only := l.root.get("only"); only.exists() {
		l.closed, l.terms.Closed = true, true
		l.inside = l.catalog.selected(only, false)
	}
}

// spread adds what the document says of every tool: which are outside of only, and that it expires.
func (l *loader) spread() {
	inside := l.inside
	for _, name := range l.catalog.names {
		t := l.catalog.tools[name]
		outside := l.closed
		if len(inside) > 0 && inside[0] == t {
			inside, outside = inside[1:], false
		}
		if outside || l.expires > 0 {
			l.clause(t).Outside = outside
		}
	}
}

// outsiders reports whether a tool of which the document says nothing else is outside of its only,
// and returns the tools of which the contrary is true: not more than half of all, so that they are
// few to hold.
func (l *loader) outsiders() (outside bool, others []*program.Tool) {
	if !l.closed || 2*len(l.inside) <= len(l.catalog.names) {
		return l.closed, l.inside
	}
	inside := l.inside
	for _, name := range l.catalog.names {
		if len(inside) > 0 && inside[0].Name == name {
			inside = inside[1:]
		} else {
			others = append(others, l.catalog.tools[name])
		}
	}
	return false, others
}

// readCommon refuses keys that the document's layer does not have, unless one of them may stand for
// a key that it lacks. It reads what documents of all
// layers may have and other keys refer to: when the document expires, its lists, and its sandboxes.
func (l *loader) readCommon() {
	for _, x := range layers {
		if x.name == l.layer && !l.lacks {
			l.only(l.root, x.keys, func(key string) string { return elsewhere(key, x.keys) })
		}
	}
	l.expires = l.readExpires(l.root.get("expires"))
	lists := l.root.get("lists")
	l.reads.lists = l.readLists(lists)
	l.reads.unread = l.misspelt("lists") || lists.exists() && !lists.isObject()
	if l.layer != overlayLayer { // there sandboxes are refused as a key
		declared := l.root.get("sandboxes")
		l.catalog.profiles = readProfiles(l.reader, l.layer+":"+l.name, declared, l.misspelt("sandboxes"))
	}
}

func (l *loader) readConditions() {
	if requires := l.root.get("requires"); requires.exists() {
		l.readRequires(requires)
	}
	if budgets := l.root.get("budgets"); budgets.exists() {
		l.readBudgets(budgets)
	}
}

func (l *loader) readExpires(p docValue) contracts.Time {
	if !p.exists() {
		return 0
	}
	s, ok := l.text(p)
	if !ok {
		return 0
	}
	m, ok := value.ReadMoment([]byte(s))
	if !ok || m.Sec < 1 {
		what := quote(s) + " is no RFC 3339 time with zone, after 1970"
		l.refuse(p.at, what, `write it like "2027-01-31T18:00:00Z"`)
		return 0
	}
	return contracts.TimeOf(time.Unix(m.Sec, m.Nano)) // a fraction of a millisecond is cut off: it expires the sooner
}

// readTerms reads what a P0 or P2 document says of every tool.
func (l *loader) readTerms() *program.Terms {
	x := &program.Terms{
		Expiry: program.Expiry{At: l.expires, Rule: l.prefix + "expires"},
		Reason: contracts.ReasonPolicyViolation, Ceilings: l.prefix + "ceilings", Only: l.prefix + "only",
	}
	if l.layer == floorLayer {
		x.Reason = contracts.ReasonCeilingViolation
	}
	p := l.root.get("for")
	if l.layer != overlayLayer || !p.exists() || !l.object(p, grammar.For) {
		return x
	}
	if p.v.Len() == 0 {
		l.refuse(p.at, "for nobody", "write one of session, caller, tenant; or remove it, for every call")
	}
	isID := func(s string) bool { return contracts.IsWords(s, contracts.MaxCallerID) }
	const form = "1 to 256 bytes without control characters"
	x.Session = l.wordIf(p.get("session"), contracts.IsSession, "a name of a session")
	x.Caller = l.wordIf(p.get("caller"), isID, form)
	x.Tenant = l.wordIf(p.get("tenant"), isID, form)
	return x
}
