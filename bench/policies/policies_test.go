package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// Every row of every table, for a millisecond each: each engine returned all verdicts, before it
// was timed and while. No time is asserted.
func TestTables(t *testing.T) {
	var out bytes.Buffer
	sizes := []int{1, 3}
	require.NoError(t, run(&out, plan{each: time.Millisecond, slice: 100 * time.Microsecond}, sizes...))
	tables := strings.Split(out.String(), "\n### ")[1:]
	require.Len(t, tables, 2+len(sizes)*len(forms), "%d tables", len(tables))
	for i, table := range tables {
		var want []string
		width := 9
		for _, r := range rows {
			want = append(want, r.name)
		}
		switch i {
		case 0:
			want, width = nil, 1+len(probes)
			for _, p := range probers {
				want = append(want, p.name)
			}
		case len(tables) - 1:
			width = 1 + 2*len(sizes)*len(forms)
		}
		for _, name := range want {
			_, line, ok := strings.Cut(table, "\n| "+name+" | ")
			line, _, _ = strings.Cut(line, "\n")
			cells := strings.Split(strings.TrimSuffix(line, " |"), " | ")
			if !ok || len(cells) != width-1 {
				t.Errorf("table %d: no whole row %s: %q", i, name, line)
			}
			for _, cell := range cells {
				if cell == "" || strings.Contains(cell, "NaN") || strings.Contains(cell, "Inf") {
					t.Errorf("table %d: %s: a cell is %q", i, name, cell)
				}
			}
		}
	}
}

// The requests are many and different, reach every rule, and are allowed and denied, of each tool.
func TestRequests(t *testing.T) {
	loaded, err := helmOf(1)()
	require.NoError(t, err)
	h := loaded.(*helm)
	calls, different := generate(1, 20), map[string]bool{}
	deciding, verdicts := map[string]bool{}, map[string]int{}
	for i := range calls {
		in, _, err := inputs(new(crypto.Tree), nil, &calls[i])
		require.NoError(t, err)
		d, why := h.policy.Judge(in, nil)
		if _, err := verdict(&d); err != nil {
			t.Errorf("%v: %v, %v", calls[i], err, why)
		}
		different[calls[i].String()] = true
		deciding[d.Rule] = true
		verdicts[calls[i].tool+" "+d.Verdict.String()]++
		verdicts[d.Verdict.String()]++
	}
	if len(different) < 200 || verdicts["ALLOW"] < len(calls)/3 || verdicts["DENY"] < len(calls)/3 {
		t.Errorf("%d different requests; %d are allowed, %d denied", len(different), verdicts["ALLOW"],
			verdicts["DENY"])
	}
	for _, tool := range tools {
		if verdicts[tool.name+" ALLOW"] == 0 || verdicts[tool.name+" DENY"] == 0 {
			t.Errorf("%s: %d allowed, %d denied", tool.name, verdicts[tool.name+" ALLOW"], verdicts[tool.name+" DENY"])
		}
	}
	rules := 0
	for line := range strings.Lines(helmText) {
		line, rule := strings.CutPrefix(strings.Replace(line, "- {id: ", "- id: ", 1), "  - id: ")
		if id, _, _ := strings.Cut(strings.TrimSpace(line), ","); rule {
			if rules++; !deciding["P1:office:"+id] {
				t.Errorf("no request is decided by rule %s", id)
			}
		}
	}
	assert.Equal(t, 32, rules, "%d rules were found", rules)
}

// A liar is the policy written by hand for some answers, and changes those after them.
type liar struct {
	handwritten
	after int
	allow func(right bool) (bool, error)
}

func (l *liar) ready(c *call) (decide, error) {
	right, err := l.handwritten.ready(c)
	return func() (bool, error) {
		allow, err := right()
		if l.after--; l.after < 0 {
			return l.allow(allow)
		}
		return allow, err
	}, err
}

// A wrong verdict, or an error together with the right one, ends the comparison: at the first
// question, and within a slice.
func TestLiars(t *testing.T) {
	calls := generate(1, 20)
	for what, lie := range map[string]func(bool) (bool, error){
		"wrong": func(right bool) (bool, error) { return !right, nil },
		"error": func(right bool) (bool, error) { return right, errors.New("could not tell") },
	} {
		for _, after := range []int{0, len(calls) - 1, len(calls) + 1, 2 * len(calls)} {
			l := loaded{row{name: "liar"}, &liar{handRules, after, lie}, 0}
			_, err := measure([]loaded{l}, 1, engine.ready, plan{10 * time.Millisecond, time.Millisecond})
			assert.Error(t, err, "%s after %d answers was not noticed", what, after)
		}
	}
	honest := loaded{row{name: "HELM"}, handRules, 0}
	_, err := measure([]loaded{honest}, 1, engine.ready, plan{10 * time.Millisecond, time.Millisecond})
	assert.NoError(t, err)
}

// HELM never allows a probe, and says why.
func TestProbes(t *testing.T) {
	all, err := probeAll()
	require.NoError(t, err)
	want := map[string]string{
		"missing argument":              "DENY " + string(contracts.ReasonSchemaViolation),
		"missing, optional in a schema": "refused at load", // until absent: says how to read a missing one
		"numeric string":                "DENY " + string(contracts.ReasonSchemaViolation),
		"function that fails":           "DENY " + string(contracts.ReasonFailClosedError),
		"fraction, whole limit":         "DENY " + string(contracts.ReasonPolicyViolation),
		"integer, fractional limit":     "DENY " + string(contracts.ReasonPolicyViolation),
		"unknown operator":              "refused at load",
		"misspelt argument in the rule": "refused at load",
	}
	if len(all) != len(probers) || len(want) != len(probes) {
		t.Fatalf("%d engines of %d, %d probes of %d", len(all), len(probers), len(want), len(probes))
	}
	for _, own := range all { // a policy that never loads would pass every probe
		assert.True(t, slices.ContainsFunc(own, func(f finding) bool { return f.cell != "refused at load" }),
			"%s: %v", own[0].prober, own[0].said)
	}
	for _, f := range all[0] {
		if f.prober != "HELM" || f.cell != want[f.probe] {
			t.Errorf("%s, %s: %s, not %s", f.prober, f.probe, f.cell, want[f.probe])
		}
	}
}

// A probe would show nothing if its rule did not deny the case it is for, or its policy allowed
// nothing.
func TestProbesHaveControls(t *testing.T) {
	for what, always := range map[string]answer{"allows all": {allow: true}, "denies all": {},
		"fails": {err: errors.New("failed")}} {
		p := prober{what, nil,
			func(string, bool) (func([]byte) answer, error) { return func([]byte) answer { return always }, nil }}
		_, err := p.ask(probes[0])
		assert.Error(t, err, "a policy that %s is taken for one", what)
	}
}

// The README has the probes as they come out, and the rows of the figures.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, probeTable(&out))
	table, _, _ := strings.Cut(strings.TrimPrefix(out.String(), "\n### A broad allow with a rule that denies\n\n"),
		"\n\n")
	if strings.Count(table, "\n") != 1+len(probers) || !bytes.Contains(readme, []byte(table)) {
		t.Errorf("README.md does not have these lines:\n%s", table)
	}
	_, figures, _ := strings.Cut(string(readme), "\n| engine | 12 tools, ")
	for _, r := range rows {
		assert.Contains(t, figures, "\n| "+r.name+" | ", "README.md has no figures of %s", r.name)
	}
}

// The versions in the documents are those that are compared.
func TestVersions(t *testing.T) {
	mod, err := os.ReadFile("../go.mod")
	require.NoError(t, err)
	doc, err := os.ReadFile("main.go")
	require.NoError(t, err)
	for _, m := range []string{"cel.dev/cel-go v0.33.2", "github.com/cedar-policy/cedar-go v1.9.0",
		"github.com/casbin/casbin/v3 v3.10.0", "github.com/open-policy-agent/opa v1.22.0"} {
		told := strings.Replace(m, "opa v", "opa/v1 v", 1)
		if !bytes.Contains(mod, fmt.Appendf(nil, "\t%s\n", m)) || !bytes.Contains(doc, []byte(told)) {
			t.Errorf("%s: not in go.mod, or not told", m)
		}
	}
}
