package contracts

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/helmkernel/helm/crypto"
)

// Inputs is all that a verdict was made from, except the policy and the trust state. Its canonical
// form is a blob, which the decision names by InputsHash. docs/FORMATS.md section 3.
type Inputs struct {
	Args        crypto.Value // after defaults; Missing if ArgsForm is "raw"
	ArgsForm    string
	ArgsHash    Digest
	Caller      Caller
	Drivers     uint64 // number of drivers bound: 0, 1 or 2
	Envelopes   Envelopes
	Idempotency string
	Sandbox     *SandboxInfo // as the driver declares it
	Session     string       // as requested
	State       SessionState
	Time        Time // time of the entry
	Tool        string
}

// Envelopes are the envelopes of a call as the caller presented them. Delegation is a chain of
// grants, the leaf first, each followed by its parent.
type Envelopes struct{ Approvals, Attestations, Delegation []Envelope }

// None reports whether nothing was presented.
func (e *Envelopes) None() bool { return len(e.Approvals)+len(e.Attestations)+len(e.Delegation) == 0 }

// SessionState is the part of the session's history that the policy read, and the digest of the
// trust state.
type SessionState struct {
	Budgets  []Balance
	Calls    []CallCount
	From     []Source
	Labels   *[]string // nil: not read
	Receipts []PriorReceipt
	Tainted  *bool // nil: not read
	Trust    Digest
	Used     *[]Digest // nil: not read
}

// Balance is the amount spent of a budget.
type Balance struct {
	Budget string
	Of     string
	Spent  uint64
	Window string
}

// CallCount is the number of ALLOWs in the session: of one tool, or of all if Of is "".
type CallCount struct {
	Count uint64
	Of    string
}

// Source is a source of provenance that a judgement asked, and what was found there.
type Source struct {
	Count  uint64   // of messages, or of facts documents
	Found  []Digest // of canonical values that were asked for and are there; sorted
	Source string   // user or tool#fact
	State  Digest   // folds the hashes of all that Count counts
}

// PriorReceipt is the latest EXECUTED receipt that the policy asked for. Entry is nil if there is
// none.
type PriorReceipt struct {
	Entry *Digest
	Facts crypto.Value
	Same  crypto.Value
	Time  Time
	Tool  string
}

func (b *Balance) visit(f *form) {
	f.text("budget", required, &b.Budget, ruleName)
	f.text("of", optional, &b.Of, words128)
	f.count("spent", &b.Spent)
	f.text("window", required, &b.Window, windowWord)
}

func (c *CallCount) visit(f *form) {
	f.count("count", &c.Count)
	f.text("of", optional, &c.Of, toolName)
}

func (p *PriorReceipt) visit(f *form) {
	f.maybe("entry", &p.Entry)
	f.value("facts", optional, &p.Facts, crypto.Object)
	if f.reading && p.Facts.Kind() == crypto.Object {
		if what := checkRead(p.Facts); what != "" {
			f.fail("facts", what)
		}
	}
	f.value("same", optional, &p.Same, crypto.Object)
	if p.Entry != nil {
		f.time("time", required, &p.Time)
	}
	f.text("tool", required, &p.Tool, toolName)
}

func (s *SessionState) visit(f *form) {
	list(f, "budgets", optional, 1, 1<<20, &s.Budgets, (*Balance).visit)
	list(f, "calls", optional, 1, 1<<20, &s.Calls, (*CallCount).visit)
	list(f, "from", optional, 1, 1<<20, &s.From, func(x *Source, f *form) {
		f.count("count", &x.Count)
		f.digests("found", required, 0, 1<<20, &x.Found)
		f.text("source", required, &x.Source, sourceName)
		f.digest("state", &x.State)
	})
	if f.has("labels", s.Labels != nil) {
		if f.reading {
			s.Labels = new([]string)
		}
		f.labels(s.Labels)
	}
	list(f, "receipts", optional, 1, 1<<20, &s.Receipts, (*PriorReceipt).visit)
	if f.has("tainted", s.Tainted != nil) {
		if f.reading {
			s.Tainted = new(bool)
		}
		f.flag("tainted", s.Tainted)
	}
	f.digest("trust", &s.Trust)
	if f.has("used", s.Used != nil) {
		if f.reading {
			s.Used = new([]Digest)
		}
		f.digests("used", required, 0, 1<<20, s.Used)
	}
}

// labels are sorted by canonical form, as is every list without an order of its own. A quote is
// written with a backslash there, so it sorts later than by bytes.
func (f *form) labels(list *[]string) {
	if !f.reading {
		f.texts("labels", required, 0, 1<<20, list, words128)
		return
	}
	var last []byte
	f.elements("labels", required, 0, 1<<20, func(i int, v crypto.Value) {
		var s string
		f.textOf("", v, &s, words128)
		if i > 0 && bytes.Compare(last, v.Raw()) >= 0 {
			f.fail("", "not sorted by canonical form and unique")
		}
		last = v.Raw()
		*list = append(*list, s)
	})
}

func (in *Inputs) visit(f *form) {
	f.value("args", optional, &in.Args, crypto.Object)
	f.text("argsForm", optional, &in.ArgsForm, rawWord)
	f.digest("argsHash", &in.ArgsHash)
	f.object("caller", true, in.Caller.visit)
	f.uint("drivers", required, &in.Drivers, 0, 2)
	if f.has("envelopes", !in.Envelopes.None()) {
		f.object("envelopes", true, func(f *form) {
			presented(f, "approvals", &in.Envelopes.Approvals)
			presented(f, "attestations", &in.Envelopes.Attestations)
			presented(f, "delegation", &in.Envelopes.Delegation)
		})
		if f.reading && in.Envelopes.None() {
			f.fail("envelopes", "empty: left out where nothing was presented")
		}
	}
	f.text("idempotency", optional, &in.Idempotency, words256)
	if f.has("sandbox", in.Sandbox != nil) {
		if f.reading {
			in.Sandbox = new(SandboxInfo)
		}
		f.object("sandbox", true, in.Sandbox.visit)
	}
	f.text("session", required, &in.Session, askedName)
	f.object("state", true, in.State.visit)
	f.time("time", required, &in.Time)
	f.text("tool", required, &in.Tool, toolName)
}

// presented visits a list of envelopes in the order of presentation, without repeats.
func presented(f *form, name string, all *[]Envelope) {
	if !f.reading {
		f.array(name, optional, len(*all), func(i int) { f.b = append(f.b, (*all)[i]...) })
		return
	}
	f.elements(name, optional, 1, MaxListed, func(_ int, v crypto.Value) {
		f.within(v, new(Sealed).envelope)
		if _, err := crypto.DecodeBase64(nil, v.Get("payload").Bytes()); err != nil {
			f.fail("payload", "not base64")
		}
		e := Envelope(v.Append(nil))
		if slices.ContainsFunc(*all, func(x Envelope) bool { return bytes.Equal(x, e) }) {
			f.fail("", "twice")
		}
		*all = append(*all, e)
	})
}

// Append appends the canonical form.
func (in *Inputs) Append(dst []byte) []byte { return write(dst, in.visit) }

// ParseInputs reads an inputs document. It refuses one that is not canonical, or breaks the form,
// order or limits of FORMATS section 3. The Values in it refer to b, which must not change.
func ParseInputs(b []byte) (*Inputs, error) { return new(Reader).Inputs(b) }

// Inputs is like [ParseInputs] but uses the memory of the Reader: the result is valid until the
// Reader opens another envelope or document.
func (r *Reader) Inputs(b []byte) (*Inputs, error) {
	if err := r.statement.Parse(b, crypto.Limits{Bytes: MaxInputs, Depth: MaxInputsDepth, Object: true}); err != nil {
		return nil, &FormatError{Record, "inputs", err.Error()}
	}
	if !r.statement.Canonical() {
		return nil, &FormatError{Record, "inputs", "not canonical"}
	}
	in := new(Inputs)
	err := read(r.statement.Root(), Record, "inputs.", func(f *form) {
		in.visit(f)
		in.check(f.fail)
	})
	if err != nil {
		return nil, err
	}
	return in, nil
}

// Sort sorts Calls and Receipts by canonical form.
func (s *SessionState) Sort() {
	slices.SortFunc(s.Calls, func(a, b CallCount) int { return byForm(&a, &b) })
	slices.SortFunc(s.Receipts, func(a, b PriorReceipt) int { return byForm(&a, &b) })
}

// check tests the order of lists that are sorted by canonical form, and the sizes of parts.
func (in *Inputs) check(fail func(field, what string)) {
	s := &in.State
	unordered := ""
	switch {
	case !ascends(s.Budgets, byForm):
		unordered = "budgets"
	case !ascends(s.Calls, byForm):
		unordered = "calls"
	case !ascends(s.From, func(a, b *Source) int { return cmp.Compare(a.Source, b.Source) }):
		unordered = "from"
	case !ascends(s.Receipts, byForm):
		unordered = "receipts"
	}
	if unordered != "" {
		fail("state."+unordered, "not sorted by canonical form and unique")
	}
	facts := 0
	for _, r := range s.Receipts {
		facts += len(r.Facts.Append(nil))
	}
	size := 0
	for _, list := range [...][]Envelope{in.Envelopes.Approvals, in.Envelopes.Attestations, in.Envelopes.Delegation} {
		for _, e := range list {
			size += len(e)
		}
	}
	if facts > MaxPresented || size > MaxPresented {
		fail("", "envelopes or facts over 1 MiB together")
	}
}
