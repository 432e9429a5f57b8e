package conformance

import (
	"fmt"
	"slices"
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// gateNames are the names of the gates, in order. The first is gate 1.
var gateNames = [...]string{
	"JCS canonicalisation", "PEP boundary", "WASI sandbox", "approval ceremony", "ProofGraph DAG", "trust registry",
	"evidence pack", "offline replay", "output drift", "idempotency", "island mode",
}

// A Result is what a gate came to.
type Result string

// The results of gates.
const (
	Passed Result = "PASSED"  // all its cases ran, and all held
	Failed Result = "FAILED"  // a case did not hold, or there was none
	NotRun Result = "NOT RUN" // Gate.Why says what was missing
)

// A Level is how much of the contract a report shows. The zero Level is none.
type Level string

// The levels. Each needs more gates than the one before.
const (
	Format Level = "FORMAT" // gates 1, 5, 6, 7 and 8
	Kernel Level = "KERNEL" // all but 3 and 11
	Full   Level = "FULL"   // all
)

// levels are the levels from the highest, with the numbers of the gates that need not be passed.
var levels = []struct {
	level  Level
	spared []int
}{{Full, nil}, {Kernel, []int{3, 11}}, {Format, []int{2, 3, 4, 9, 10, 11}}}

// A Failure is a case that did not hold. A report that was opened does not say what went wrong: the
// signed form has the names of the cases only.
type Failure struct {
	Case string
	What string
}

// A Gate is the result of one gate.
type Gate struct {
	Name   string
	Result Result
	Why    string    // of NotRun, and of a gate that failed because it has no case
	Cases  []string  // that ran, in order
	Failed []Failure // those of them that did not hold, in order
}

// newGate returns the result of a gate that ran cases.
func newGate(name string, cases []string, failed []Failure) Gate {
	g := Gate{Name: name, Result: Passed, Cases: cases, Failed: failed}
	switch {
	case len(cases) == 0:
		g.Result, g.Why = Failed, "no case ran"
	case len(failed) > 0:
		g.Result = Failed
	}
	return g
}

// notRun returns a gate that was not run.
func notRun(name, why string) Gate { return Gate{Name: name, Result: NotRun, Why: why} }

// An Implementation is what was examined.
type Implementation struct {
	Name    string
	Version string
	Digest  contracts.Digest // SHA-256 of the program that ran, or of the answers that were graded
}

// A Report is the result of all gates, in order.
type Report struct {
	Gates          []Gate
	Implementation Implementation
	Level          Level
	Time           contracts.Time
	Vectors        contracts.Digest   // SHA-256 of vectors.json; zero if no vectors were answered
	Envelope       contracts.Envelope // the signed form; nil until the report is signed
}

// setLevel sets the level that the gates reach. Without vectors there is none.
func (r *Report) setLevel() {
	r.Level = ""
	if r.Vectors == (contracts.Digest{}) {
		return
	}
	for _, l := range levels {
		reached := true
		for i, g := range r.Gates {
			reached = reached && (g.Result == Passed || slices.Contains(l.spared, i+1))
		}
		if reached && len(r.Gates) == len(gateNames) {
			r.Level = l.level
			return
		}
	}
}

// String returns the report as a table, with the cases that failed after it.
func (r Report) String() string {
	var b, failures strings.Builder
	fmt.Fprintf(&b, "%-26s%-9s%s\n", "gate", "result", "cases")
	for i, g := range r.Gates {
		fmt.Fprintf(&b, "%2d %-23s%-9s%d", i+1, g.Name, g.Result, len(g.Cases))
		if g.Why != "" {
			b.WriteString("  " + g.Why)
		}
		b.WriteByte('\n')
		for _, f := range g.Failed {
			fmt.Fprintf(&failures, "gate %d: %s: %s\n", i+1, f.Case, f.What)
		}
	}
	level := string(r.Level)
	if level == "" {
		level = "none"
	}
	fmt.Fprintf(&b, "level: %s\n", level)
	if i := r.Implementation; i != (Implementation{}) {
		fmt.Fprintf(&b, "of: %s %s, SHA-256 %s\n", i.Name, i.Version, i.Digest)
	}
	return b.String() + failures.String()
}

// check returns an error if no run of the gates has this result.
func (r *Report) check() error {
	if len(r.Gates) != len(gateNames) {
		return fmt.Errorf("gates: %d, want %d", len(r.Gates), len(gateNames))
	}
	for i, g := range r.Gates {
		if err := g.check(gateNames[i]); err != nil {
			return fmt.Errorf("gates.%d: %w", i, err)
		}
	}
	for i, text := range []string{r.Implementation.Name, r.Implementation.Version} {
		if !contracts.IsWords(text, contracts.MaxWords) {
			return fmt.Errorf(
				"implementation.%s: not a text of 1 to %d bytes",
				[]string{"name", "version"}[i],
				contracts.MaxWords,
			)
		}
	}
	stated := *r
	if stated.setLevel(); stated.Level != r.Level {
		return fmt.Errorf("level: %q, and the gates reach %q", r.Level, stated.Level)
	}
	return nil
}

func (g *Gate) check(name string) error {
	if g.Name != name {
		return fmt.Errorf("gate: not %q", name)
	}
	at := 0
	for _, f := range g.Failed { // in the order of the cases, each once
		n := slices.Index(g.Cases[at:], f.Case)
		if n < 0 {
			return fmt.Errorf("failed: a case that did not run, or not in the order of the cases")
		}
		at += n + 1
	}
	ran := newGate(name, g.Cases, g.Failed)
	switch g.Result {
	case NotRun:
		if len(g.Cases) > 0 || !contracts.IsWords(g.Why, contracts.MaxWords) {
			return fmt.Errorf("result: %s with cases, or without a reason", NotRun)
		}
	case Passed, Failed:
		if ran.Result != g.Result || ran.Why != g.Why {
			return fmt.Errorf("result: %s, and the cases say %s", g.Result, ran.Result)
		}
	default:
		return fmt.Errorf("result: none that is known")
	}
	for i, c := range g.Cases {
		if c == "" || slices.Contains(g.Cases[:i], c) {
			return fmt.Errorf("cases: a name is empty, or there twice")
		}
	}
	return nil
}

// Sign returns the report with its Envelope, signed by key. The report of [Run] is signed already
// if [Options] has a key.
func (r Report) Sign(key crypto.Signer) (Report, error) {
	public, err := crypto.PublicOf(key)
	if err != nil {
		return r, fmt.Errorf("conformance: key: %w", err)
	}
	if err = r.check(); err != nil {
		return r, fmt.Errorf("conformance: report: %w", err)
	}
	id := crypto.KeyID(public)
	payload := r.statement(id)
	sig, err := crypto.Sign(key, crypto.AppendPAE(nil, contracts.PayloadType, payload))
	if err != nil {
		return r, fmt.Errorf("conformance: signing: %w", err)
	}
	r.Envelope = crypto.AppendEnvelope(nil, contracts.PayloadType, payload, id, sig)
	if len(r.Envelope) > maxReport {
		return r, fmt.Errorf("conformance: report: %d bytes, of %d at most", len(r.Envelope), maxReport)
	}
	return r, nil
}
