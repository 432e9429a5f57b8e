package guardian

import (
	"slices"
	"strings"
	"time"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/value"
)

// Layers. A stack is P0 and P1 and each P2; no layer can widen another, since only P1 can allow.
const (
	floorLayer   = "P0"
	bundleLayer  = "P1"
	overlayLayer = "P2"
)

// Keys of a document of each layer. The later ones are refused by name: a requirement that is ignored protects nothing.
var layers = []struct {
	name        string
	keys, later []string
}{
	{floorLayer, []string{"helm", "layer", "name", "version", "expires", "labels", "lists", "profile", "ceilings", "rules", "requires", "budgets", "only"}, []string{"threat"}},
	{bundleLayer, []string{"helm", "layer", "bundle", "expires", "labels", "lists", "tools", "rules", "requires", "budgets"}, nil},
	{overlayLayer, []string{"helm", "layer", "name", "version", "expires", "for", "lists", "rules", "requires", "budgets", "only"}, nil},
}

const maxListed = 10_000 // members of a list, and of an operand

// A list is named scalars of one type.
type list struct {
	kind    crypto.Kind
	members []string // canonical text
	plain   *value.Set
	folded  *value.Set // made when a predicate folds
}

// load reads what a document is. What it says is read when those that it speaks of are known.
func load(doc contracts.Document) *loader {
	l := &loader{doc: doc, lists: map[string]*list{}, tools: map[string]*tool{}, shapes: map[string]*shape{}, read: map[string]constant{}, ids: map[string]bool{}}
	if root, ok := l.parse(); ok && l.head(root) {
		l.root, l.whole = root, true
	}
	return l
}

// head reads what says whether and how to read the rest.
func (l *loader) head(root part) bool {
	format, ok := l.need(root, "helm")
	if ok {
		_, ok = l.oneOf(format, "policy/v1")
	}
	layer, there := l.need(root, "layer")
	if !ok || !there {
		return false
	}
	if l.layer, ok = l.oneOf(layer, floorLayer, bundleLayer, overlayLayer); !ok {
		l.layer = ""
		return false
	}
	named := root
	if l.layer == bundleLayer {
		if named, ok = l.need(root, "bundle"); !ok || !l.object(named, []string{"name", "version"}, nil) {
			return false
		}
	}
	name, ok := l.need(named, "name")
	if ok {
		l.name, _ = l.word(name, contracts.IsID, "1 to 64 of A-Z a-z 0-9 . _ -")
	}
	l.prefix = l.layer + ":" + l.name + ":"
	l.record = contracts.PolicyDocument{Digest: crypto.Sum(l.doc.Canonical), Layer: l.layer, Name: l.name, Version: 1}
	if l.layer == overlayLayer && !named.has("version") {
		return true
	}
	if version, ok := l.need(named, "version"); ok {
		if l.record.Version, ok = version.v.Uint(); !ok || l.record.Version == 0 {
			l.refuse(version.at, "not a version", "write an integer from 1 on")
		}
	}
	return true
}

// keys refuses those that the document's layer does not have.
func (l *loader) keys() {
	for _, x := range layers {
		if x.name == l.layer {
			l.only(l.root, x.keys, x.later, func(key string) string { return l.elsewhere(key, x.keys, x.later) })
		}
	}
}

// elsewhere says in which layers an unknown key is one, if in any.
func (l *loader) elsewhere(key string, keys, later []string) string {
	var in []string
	for _, x := range layers {
		if slices.Contains(x.keys, key) || slices.Contains(x.later, key) {
			in = append(in, x.name)
		}
	}
	if in == nil {
		return instead(key, keys, later)
	}
	return "remove it: " + key + " is a key of " + strings.Join(in, " and ")
}

// readBundle reads a P1 document.
func (l *loader) readBundle(labels vocabulary) {
	l.keys()
	l.expires = l.readExpires(l.root)
	l.readLists()
	if tools, ok := l.need(l.root, "tools"); ok {
		l.members(tools, func(name string, p part) {
			t := l.readTool(name, p, labels)
			t.expires, t.expired, t.scopeRule = l.expires, l.prefix+"expires", l.prefix+"scope"
			l.tools[name] = t
			l.names = append(l.names, name)
		})
	}
	if rules, ok := l.need(l.root, "rules"); ok {
		l.readRules(rules)
	}
	if requires := l.root.get("requires"); requires.there() {
		l.readRequires(requires)
	}
	if budgets := l.root.get("budgets"); budgets.there() {
		l.readBudgets(budgets)
	}
}

// readLayer reads a P0 or P2 document, which speaks of the tools of all bundles.
func (l *loader) readLayer(tools map[string]*tool, names []string) {
	l.tools, l.names = tools, names
	l.keys()
	l.expires = l.readExpires(l.root)
	l.readLists()
	l.terms = l.readTerms()
	if profile := l.root.get("profile"); profile.there() {
		l.readProfile(profile)
	}
	if ceilings := l.root.get("ceilings"); ceilings.there() {
		l.readCeilings(ceilings)
	}
	if rules := l.root.get("rules"); rules.there() {
		l.readRules(rules)
	}
	if requires := l.root.get("requires"); requires.there() {
		l.readRequires(requires)
	}
	if budgets := l.root.get("budgets"); budgets.there() {
		l.readBudgets(budgets)
	}
	if only := l.root.get("only"); only.there() {
		l.readOnly(only)
	}
	if l.expires > 0 {
		for _, name := range names {
			l.clause(tools[name])
		}
	}
}

func (l *loader) readLists() {
	if lists := l.root.get("lists"); lists.there() {
		l.members(lists, l.readList)
	}
}

func (l *loader) readExpires(root part) contracts.Time {
	p := root.get("expires")
	if !p.there() {
		return 0
	}
	s, ok := l.text(p)
	if !ok {
		return 0
	}
	m, ok := value.ReadMoment([]byte(s))
	if !ok || m.Sec < 1 {
		l.refuse(p.at, quote(s)+" is no RFC 3339 time with zone, after 1970", `write it like "2027-01-31T18:00:00Z"`)
		return 0
	}
	return contracts.TimeOf(time.Unix(m.Sec, m.Nano)) // a fraction of a millisecond is cut off: expired the sooner
}

// members gives each member of an object.
func (l *loader) members(p part, each func(name string, p part)) {
	if p.v.Kind() != crypto.Object {
		l.refuse(p.at, "is "+article(p.v.Kind())+", not an object", "write names with what they stand for")
		return
	}
	for it := p.v.Iter(); it.Next(); {
		name := string(it.Key())
		each(name, part{it.Value(), p.at + "/" + value.EscapeSegment(name)})
	}
}

func (l *loader) readList(name string, p part) {
	x := &list{}
	l.lists[name] = x // also when it is wrong: whoever names it is not to blame
	if !contracts.IsID(name) {
		l.refuse(p.at, quote(name)+" is no name of a list", "use 1 to 64 of A-Z a-z 0-9 . _ -")
	}
	elements, ok := l.list(p, 1, maxListed)
	if !ok {
		return
	}
	if kind, members, ok := l.scalars(elements); ok {
		x.kind, x.members, x.plain = kind, members, value.NewSet(members, false)
	}
}

// scalars gives the canonical text of strings, or of numbers.
func (l *loader) scalars(elements []part) (kind crypto.Kind, members []string, ok bool) {
	for i, e := range elements {
		k := e.v.Kind()
		if k != crypto.String && k != crypto.Number || i > 0 && k != kind {
			l.refuse(e.at, "is "+article(k), "write strings only, or numbers only")
			return 0, nil, false
		}
		kind, members = k, append(members, string(e.v.Raw()))
	}
	return kind, members, len(members) > 0
}

func (x *list) set(fold bool) *value.Set {
	if !fold {
		return x.plain
	}
	if x.folded == nil {
		x.folded = value.NewSet(x.members, true)
	}
	return x.folded
}
