package compile

import (
	"errors"
	"slices"
	"time"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/program"
	"github.com/helmkernel/helm/guardian/internal/value"
	"github.com/helmkernel/helm/internal/grammar"
	"github.com/helmkernel/helm/internal/jsonschema"
)

// Limits of a tool that names none, and those that none can exceed. A person may stand between the
// permission and the outcome of a call that runs elsewhere, so that one may take a day.
var (
	usualLimits    = program.Limits{Args: program.MaxArgs, Output: 1 << 20, Timeout: 30 * time.Second}
	mostLimits     = program.Limits{Args: program.MaxArgs, Output: 16 << 20, Timeout: 10 * time.Minute}
	reportedLimits = program.Limits{Args: program.MaxArgs, Output: 16 << 20, Timeout: 24 * time.Hour}
)

// readTool returns a tool even if it is wrong: without input then.
func (l *loader) readTool(name string, p docValue) *program.Tool {
	t := &program.Tool{
		Name: name, Surface: program.Surface{Connector: l.name}, Limits: usualLimits,
		Digest: crypto.Sum(p.v.Append(nil)), Shape: &program.Shape{},
	}
	if !contracts.IsTool(name) {
		l.refuse(p.at, quote(name)+" is no name of a tool", "use 1 to 128 of A-Z a-z 0-9 . _ : @ / -")
	}
	if !l.object(p, grammar.Tool) {
		return t
	}
	if effect, ok := l.need(p, "effect"); ok {
		word, _ := l.oneOf(effect, effects...)
		t.Effect = contracts.EffectType(word)
	}
	t.Risk = contracts.High // nothing irreversible is taken lightly by omission
	switch t.Effect {
	case contracts.Read:
		t.Risk = contracts.Low
	case contracts.Write:
		t.Risk = contracts.Medium
	}
	if risk := p.get("risk"); risk.exists() {
		word, _ := l.oneOf(risk, risks...)
		t.Risk = contracts.Risk(word)
	}
	l.readSurface(p, t)
	if limits := p.get("limits"); limits.exists() && l.object(limits, grammar.Limits) {
		l.readLimits(limits, t)
	}
	if output := p.get("output"); output.exists() {
		t.Output.Schema = l.schema(output, false, nil)
	}
	if facts := p.get("facts"); facts.exists() {
		factReader{l.reader, t, p.has("output")}.read(facts)
	}
	l.readShape(p, t)
	if threat := p.get("threat"); threat.exists() {
		gateReader{l.catalog, "", []*program.Tool{t}}.read(threat)
	}
	return t
}

// readLimits reads the limits of a tool. One that is higher than any may be is refused: a lower one
// in its place would be none that the author wrote.
func (l *loader) readLimits(p docValue, t *program.Tool) {
	timeout, output, args := p.get("timeout"), p.get("output"), p.get("args")
	x, most, longest := &t.Limits, mostLimits, "10m"
	if d := t.Driver.Demands; len(d) > 0 && d[0].Name == contracts.ProfileReported {
		most, longest = reportedLimits, "24h"
	}
	l.duration(timeout, &x.Timeout)
	l.size(output, &x.Output)
	l.size(args, &x.Args)
	for _, x := range []struct {
		higher bool
		at     docValue
		most   string
	}{
		{x.Timeout > most.Timeout, timeout, longest}, {x.Output > most.Output, output, "16MiB"},
		{x.Args > most.Args, args, "1MiB"},
	} {
		if x.higher {
			l.refuse(x.at.at, "higher than "+x.most+", the most that any call may have", "write at most "+x.most)
		}
	}
}

// readSurface reads what other documents and the driver may go by: where the tool belongs, whether
// data leave by it, and what its driver must declare.
func (l *loader) readSurface(p docValue, t *program.Tool) {
	if x := p.get("connector"); x.exists() {
		t.Surface.Connector, _ = l.word(x, contracts.IsID, formID)
	}
	t.Surface.Egress = t.Effect != contracts.Read
	if x := p.get("egress"); x.exists() {
		t.Surface.Egress, _ = l.boolean(x)
	}
	if x := p.get("trusted"); x.exists() {
		t.Output.Trusted, _ = l.boolean(x)
	}
	if x := p.get("labels"); x.exists() {
		for _, e := range l.distinct(x, 0) {
			if l.catalog.declared(e) {
				t.Output.Labels = append(t.Output.Labels, e.v.Text())
			}
		}
		slices.Sort(t.Output.Labels)
	}
	if x := p.get("sandbox"); x.exists() {
		if d := l.catalog.profiles.demanded(x); d != nil {
			t.Driver.Demands = program.Demands{d}
		}
	}
	if x := p.get("definition"); x.exists() {
		s, isText := l.text(x)
		if !isText {
			return
		}
		digest, err := crypto.ParseDigest(s)
		if err != nil || digest == (contracts.Digest{}) { // a driver that knows no definition must not have it
			remedy := "write the SHA-256 of its canonical JSON, 64 lower-case hex digits"
			l.refuse(x.at, quote(s)+" is no digest of a definition", remedy)
			return
		}
		t.Driver.Definition = digest
	}
}

func (l *loader) schema(p docValue, closed bool, open [][]string) *jsonschema.Schema {
	s, err := jsonschema.Compile(p.v, closed, open...)
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

// readShape reads the input and scope of a tool. A shape that is wrong is not shared: each tool
// with it is refused by itself.
func (l *loader) readShape(p docValue, t *program.Tool) {
	input, ok := l.need(p, "input")
	if !ok {
		return
	}
	scope, open := p.get("scope"), p.get("open")
	text := string(scope.v.Append(append(open.v.Append(append(input.v.Append(nil), ' ')), ' ')))
	if x := l.shapes[text]; x != nil {
		t.Shape = x
		return
	}
	errs := l.refused
	t.Input, t.Open = l.input(input, open)
	if t.Input == nil {
		return
	}
	if scope.exists() {
		if entries, ok := l.list(scope, 1, maxKids); ok {
			c := l.compiler(t)
			for _, e := range entries {
				if n, ok := c.scope(e); ok {
					t.Scope = append(t.Scope, n)
				}
			}
			l.idle.tools = 1
			l.idle.report(l.catalog)
		}
	}
	if l.refused == errs {
		l.shapes[text] = t.Shape
	}
}

// maxOpen is how many pointers open lists: each schema is compared with them.
const maxOpen = 256

// input compiles the input of a tool, and returns the pointers that open lists.
func (l *loader) input(input, open docValue) (*jsonschema.Schema, []string) {
	var list []docValue
	var texts []string
	var pointers [][]string
	if open.exists() {
		if _, ok := l.list(open, 1, maxOpen); !ok {
			return nil, nil
		}
		list = l.distinct(open, 1)
	}
	for _, e := range list {
		segments, ok := value.SplitPointer(e.v.Text())
		if !ok {
			l.refuse(e.at, quoted(e)+" is no JSON Pointer", `write it like /a/*/b, or "" for all of the input`)
			return nil, nil
		}
		texts, pointers = append(texts, e.v.Text()), append(pointers, segments)
	}
	s := l.schema(input, true, pointers)
	if s == nil {
		return nil, nil
	}
	for i, segments := range pointers {
		place, ok := s.Lookup(segments)
		switch {
		case !ok && place.Open:
			l.refuse(list[i].at, quoted(list[i])+" is below what is open already", "remove it")
		case !ok || !place.Open:
			l.refuse(list[i].at, "no "+quoted(list[i])+" in the input that could be open",
				"name what the schema declares, with * for the elements of an array or the members of a map")
		case place.Types&(jsonschema.TypeArray|jsonschema.TypeObject) == 0:
			l.refuse(list[i].at, quoted(list[i])+" is "+place.Types.String()+": there is nothing to open", "remove it")
		}
	}
	return s, texts
}
