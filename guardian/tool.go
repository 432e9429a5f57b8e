package guardian

import (
	"errors"
	"time"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/value"
	"github.com/helmkernel/helm/internal/jsonschema"
)

// Keys of a tool. The later ones are refused by name.
var (
	toolKeys  = []string{"effect", "risk", "connector", "egress", "trusted", "labels", "input", "output", "scope", "limits", "sandbox", "definition"}
	toolLater = []string{"facts", "threat"}
)

// A tool is what one bundle declares of it, and what each document of the stack says of it.
type tool struct {
	name      string
	effect    contracts.EffectType
	risk      contracts.Risk
	connector string
	egress    bool
	limits    Limits // the lower of its own and the ceilings'
	depth     int    // of the arguments; 0: as deep as any may be
	*shape
	output *jsonschema.Schema // nil: any
	digest contracts.Digest   // of what the bundle declares of it, as it stands there

	barred    contracts.ReasonCode // why no call of it is permitted; "": a profile bars none
	barrier   string               // what bars it
	sandboxes []string             // profiles that the driver must declare; two can never be met
	pinned    contracts.Digest     // the definition that the driver must declare; zero: none is pinned

	scopeRule string
	expires   contracts.Time // 0: never
	expired   string         // the rule that an expired bundle denies with
	rules     []rule         // of the bundle
	overlays  []clause       // of P2, in stack order
	floors    []clause       // of P0, in stack order
	requires  []*requirement // of all layers, in stack order
	budgets   []budget       // likewise
	compared  [][]string     // pointers to what later calls, of whatever tool, are compared with this one's by
}

// settle ends loading: what was needed for it alone is dropped, and what judging can go without.
func (t *tool) settle(share sharing) {
	t.slots = nil
	if t.depth > 0 && t.input.Depth() <= t.depth {
		t.depth = 0 // whatever is nested deeper is not of the schema
	}
	inStackOrder(t.requires, func(x *requirement) string { return x.name })
	inStackOrder(t.budgets, func(x budget) string { return x.name })
	t.overlays, t.floors = share.clauses(t.shape, t.overlays), share.clauses(t.shape, t.floors)
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

// readTool gives a tool even if it is wrong, without input then.
func (l *loader) readTool(name string, p part, labels vocabulary) *tool {
	t := &tool{name: name, connector: l.name, limits: usualLimits, digest: crypto.Sum(p.v.Append(nil)), shape: newShape()}
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
	l.readSurface(p, t, labels)
	if limits := p.get("limits"); limits.there() {
		l.readLimits(limits, t)
	}
	if output := p.get("output"); output.there() {
		t.output = l.schema(output, false)
	}
	l.readShape(p, t)
	return t
}

// readSurface reads what other documents may go by: where the tool belongs, and whether data leave by it.
func (l *loader) readSurface(p part, t *tool, labels vocabulary) {
	if x := p.get("connector"); x.there() {
		t.connector, _ = l.word(x, contracts.IsID, "1 to 64 of A-Z a-z 0-9 . _ -")
	}
	t.egress = t.effect != contracts.Read
	if x := p.get("egress"); x.there() {
		t.egress, _ = l.boolean(x)
	}
	if x := p.get("trusted"); x.there() {
		l.boolean(x)
	}
	if x := p.get("labels"); x.there() {
		for _, e := range l.distinct(x, 0) {
			if name := e.v.Text(); !labels[name] {
				l.refuse(e.at, "no document of the stack declares the label "+quote(name), labels.remedy(name))
			}
		}
	}
	if x := p.get("sandbox"); x.there() {
		if profile, ok := l.word(x, isProfile, "1 to 128 bytes without control characters"); ok {
			t.sandboxes = []string{profile}
		}
	}
	if x := p.get("definition"); x.there() {
		l.readDefinition(x, t)
	}
}

// readDefinition reads the digest that a driver must declare. Zeros are that of nothing: a driver that knows no definition must not have it.
func (l *loader) readDefinition(p part, t *tool) {
	s, isText := l.text(p)
	if !isText {
		return
	}
	digest, err := crypto.ParseDigest(s)
	if err != nil || digest == (contracts.Digest{}) {
		l.refuse(p.at, quote(s)+" is no digest of a definition", "write the SHA-256 of its canonical JSON, 64 lower-case hex digits")
		return
	}
	t.pinned = digest
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
	x := usualLimits
	l.duration(p.get("timeout"), &x.Timeout)
	l.size(p.get("output"), &x.Output)
	l.size(p.get("args"), &x.Args)
	t.limits = x.lower(mostLimits)
}

// lower is the lower of both, limit by limit.
func (x Limits) lower(y Limits) Limits {
	return Limits{min(x.Args, y.Args), min(x.Output, y.Output), min(x.Timeout, y.Timeout)}
}

// duration reads one that may be left out.
func (l *loader) duration(p part, d *time.Duration) (ok bool) {
	if !p.there() {
		return true
	}
	if *d, ok = value.ReadDuration(p.v.Text()); !ok {
		l.refuse(p.at, said(p)+" is no duration", "write it like 5s, 10m, 24h or 7d")
	}
	return ok
}

// size reads one that may be left out.
func (l *loader) size(p part, n *int) {
	if !p.there() {
		return
	}
	var ok bool
	if *n, ok = value.ReadSize(p.v.Text()); !ok {
		l.refuse(p.at, said(p)+" is no size", "write it like 64KiB or 1MiB")
	}
}

// said is the text of a value or, where it is none, what it is: 15 must not be put into quotes, but given a unit.
func said(p part) string {
	if p.v.Kind() == crypto.String {
		return quote(p.v.Text())
	}
	return article(p.v.Kind())
}
