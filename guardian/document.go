package guardian

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/jsonschema"
)

// Keys of the format. The later ones are refused by name: a floor or a budget that is ignored protects nothing.
var (
	documentKeys  = []string{"helm", "layer", "bundle", "expires", "tools", "rules", "lists"}
	documentLater = []string{"for", "only", "profile", "ceilings", "threat", "requires", "budgets", "labels"}
	toolKeys      = []string{"effect", "risk", "input", "output", "scope", "limits"}
	toolLater     = []string{"connector", "egress", "trusted", "labels", "facts", "sandbox", "definition", "threat", "requires", "budgets"}
	ruleLater     = []string{"requires", "budgets"}
)

const maxListed = 10_000 // members of a list, and of an operand

// A tool is what one bundle declares of it, and the rules that name it.
type tool struct {
	name   string
	effect contracts.EffectType
	risk   contracts.Risk
	limits Limits
	input  *jsonschema.Schema
	output *jsonschema.Schema // nil: any

	scope     []node
	scopeRule string
	expires   contracts.Time // 0: never
	expired   string         // the rule that an expired bundle denies with
	rules     []rule
	subjects  []subject

	slots    map[subjectKey]int32 // while loading: where each subject is
	declared [][]string           // while loading: pointers that scope declares as a path, URL, host or address
}

// Limits are what one run of a tool may take.
type Limits struct {
	Args    int // bytes of the canonical arguments
	Output  int // bytes of the output
	Timeout time.Duration
}

// Limits of a tool that names none, and those that none can exceed.
var (
	usualLimits = Limits{Args: 1 << 20, Output: 1 << 20, Timeout: 30 * time.Second}
	mostLimits  = Limits{Args: 1 << 20, Output: 16 << 20, Timeout: 10 * time.Minute}
)

// A list is named scalars of one type.
type list struct {
	kind    crypto.Kind
	members []string // canonical text
	plain   *set
	folded  *set // made when a predicate folds
}

func load(doc contracts.Document) *loader {
	l := &loader{doc: doc, lists: map[string]*list{}, tools: map[string]*tool{}, read: map[string]constant{}}
	root, ok := l.parse()
	if !ok || !l.head(root) {
		return l
	}
	l.object(root, documentKeys, documentLater)
	l.expires = l.readExpires(root)
	if lists := root.get("lists"); lists.there() {
		l.members(lists, l.readList)
	}
	if tools, ok := l.need(root, "tools"); ok {
		l.members(tools, func(name string, p part) {
			t := l.readTool(name, p)
			t.expires, t.expired, t.scopeRule = l.expires, l.prefix+"expires", l.prefix+"scope"
			l.tools[name] = t
			l.names = append(l.names, name)
		})
	}
	if rules, ok := l.need(root, "rules"); ok {
		l.readRules(rules)
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
	if name, ok := l.text(layer); !ok || name != "P1" {
		if ok {
			l.refuse(layer.at, "layer "+quote(name), "write P1: other layers are not supported by this version of helm")
		}
		return false
	}
	bundle, ok := l.need(root, "bundle")
	if !ok || !l.object(bundle, []string{"name", "version"}, nil) {
		return false
	}
	if name, ok := l.need(bundle, "name"); ok {
		l.bundle, _ = l.word(name, contracts.IsID, "1 to 64 of A-Z a-z 0-9 . _ -")
	}
	l.prefix = "P1:" + l.bundle + ":"
	l.record = contracts.PolicyDocument{Digest: crypto.Sum(l.doc.Canonical), Layer: "P1", Name: l.bundle}
	if version, ok := l.need(bundle, "version"); ok {
		if l.record.Version, ok = version.v.Uint(); !ok || l.record.Version == 0 {
			l.refuse(version.at, "not a version", "write an integer from 1 on")
		}
	}
	return true
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
	m, ok := readMoment([]byte(s))
	if !ok || m.sec < 1 {
		l.refuse(p.at, quote(s)+" is no RFC 3339 time with zone, after 1970", `write it like "2027-01-31T18:00:00Z"`)
		return 0
	}
	return contracts.TimeOf(time.Unix(m.sec, m.nano)) // a fraction of a millisecond is cut off: expired the sooner
}

// members gives each member of an object.
func (l *loader) members(p part, each func(name string, p part)) {
	if p.v.Kind() != crypto.Object {
		l.refuse(p.at, "is "+article(p.v.Kind())+", not an object", "write names with what they stand for")
		return
	}
	for it := p.v.Iter(); it.Next(); {
		name := string(it.Key())
		each(name, part{it.Value(), p.at + "/" + escapeSegment(name)})
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
		x.kind, x.members, x.plain = kind, members, newSet(members, false)
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

func (x *list) set(fold bool) *set {
	if !fold {
		return x.plain
	}
	if x.folded == nil {
		x.folded = newSet(x.members, true)
	}
	return x.folded
}

// readTool gives a tool even if it is wrong, without input then.
func (l *loader) readTool(name string, p part) *tool {
	t := &tool{name: name, limits: usualLimits, slots: map[subjectKey]int32{}}
	if !contracts.IsTool(name) {
		l.refuse(p.at, quote(name)+" is no name of a tool", "use 1 to 128 of A-Z a-z 0-9 . _ : @ / -")
	}
	if !l.object(p, toolKeys, toolLater) {
		return t
	}
	if effect, ok := l.need(p, "effect"); ok {
		word, _ := l.oneOf(effect, "read", "write", "destructive")
		t.effect = contracts.EffectType(word)
	}
	t.risk = usualRisk(t.effect)
	if risk := p.get("risk"); risk.there() {
		word, _ := l.oneOf(risk, "low", "medium", "high")
		t.risk = contracts.Risk(word)
	}
	if limits := p.get("limits"); limits.there() {
		l.readLimits(limits, t)
	}
	if output := p.get("output"); output.there() {
		t.output = l.schema(output, false)
	}
	input, ok := l.need(p, "input")
	if !ok {
		return t
	}
	if t.input = l.schema(input, true); t.input == nil {
		return t
	}
	if scope := p.get("scope"); scope.there() {
		l.readScope(scope, t)
	}
	return t
}

// usualRisk is the risk of a tool that names none: it follows its effect, so that nothing irreversible is taken lightly by omission.
func usualRisk(e contracts.EffectType) contracts.Risk {
	switch e {
	case contracts.Read:
		return contracts.Low
	case contracts.Write:
		return contracts.Medium
	}
	return contracts.High
}

func (l *loader) schema(p part, closed bool) *jsonschema.Schema {
	s, err := jsonschema.Compile(p.v, closed)
	if err == nil {
		return s
	}
	var e *jsonschema.Error
	if errors.As(err, &e) {
		l.refuse(p.at+e.Pointer, e.What, e.Remedy)
	} else {
		l.refuse(p.at, err.Error(), "")
	}
	return nil
}

func (l *loader) readLimits(p part, t *tool) {
	if !l.object(p, []string{"timeout", "output", "args"}, nil) {
		return
	}
	if x := p.get("timeout"); x.there() {
		s, isText := l.text(x)
		var ok bool
		if t.limits.Timeout, ok = readDuration(s); isText && !ok {
			l.refuse(x.at, quote(s)+" is no duration", "write it like 5s, 10m, 24h or 7d")
		}
	}
	size := func(key string, n *int) {
		x := p.get(key)
		if !x.there() {
			return
		}
		s, isText := l.text(x)
		var ok bool
		if *n, ok = readSize(s); isText && !ok {
			l.refuse(x.at, quote(s)+" is no size", "write it like 64KiB or 1MiB")
		}
	}
	size("output", &t.limits.Output)
	size("args", &t.limits.Args)
	t.limits.Timeout = min(t.limits.Timeout, mostLimits.Timeout)
	t.limits.Output = min(t.limits.Output, mostLimits.Output)
	t.limits.Args = min(t.limits.Args, mostLimits.Args)
}

// stackOrder is the order of the documents in a stack. Name and content only make it total, whatever order they came in.
func stackOrder(a, b *loader) int {
	if c := bytes.Compare([]byte(a.bundle), []byte(b.bundle)); c != 0 {
		return c
	}
	if c := bytes.Compare([]byte(a.doc.Name), []byte(b.doc.Name)); c != 0 {
		return c
	}
	return slices.Compare(a.doc.Canonical, b.doc.Canonical)
}
