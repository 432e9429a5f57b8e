package policy

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/table"
)

// A smell is an id with the shortest policy that has it, and the nearest that has not. A policy is
// a bundle, and a floor if there is one. Lines of the bundle are below its head.
type smell struct {
	ID, Pointer             string
	Bundle, Floor           string
	OtherBundle, OtherFloor string
}

const (
	bundleHead = "helm: policy/v1\nlayer: P1\nbundle: {name: b, version: 1}\n"
	floorHead  = "helm: policy/v1\nlayer: P0\nname: f\nversion: 1\n"
)

func compiled(t *testing.T, bundle, floor string) *guardian.Policy {
	t.Helper()
	var docs []contracts.Document
	for name, text := range map[string]string{"b.yaml": bundleHead + bundle, "f.yaml": floorHead + floor} {
		if name == "f.yaml" && floor == "" {
			continue
		}
		doc, err := Parse(name, []byte(text))
		require.NoError(t, err, text)
		docs = append(docs, doc)
	}
	p, err := guardian.Compile(docs...)
	require.NoError(t, err, bundle+floor)
	return p
}

// of returns the findings of an id.
func of(list []Finding, id string) (some []Finding) {
	for _, f := range list {
		if f.ID == id {
			some = append(some, f)
		}
	}
	return some
}

// TestLint: each id is found once in the shortest policy that has it, at its place, and not in the
// nearest that has not.
func TestLint(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, s := range table.Read[smell](t, "lint", 37) {
		seen[s.ID] = true
		p := compiled(t, s.Bundle, s.Floor)
		found := of(Lint(p), s.ID)
		if assert.Len(t, found, 1, "%s: %s", s.ID, s.Bundle) {
			f := found[0]
			assert.Equal(t, s.Pointer, f.Pointer, "%s: %s", s.ID, f)
			assert.Equal(t, severities[s.ID], f.Severity)
			assert.Positive(t, f.Line, f)
			assert.True(t, f.What != "" && f.Remedy != "", f)
			assert.True(t, strings.HasPrefix(f.String(), f.Document+":"+strconv.Itoa(f.Line)+": "+f.Pointer+": "+f.ID+": "), f)
		}
		if s.OtherBundle == "" {
			s.OtherBundle = s.Bundle
		}
		q := compiled(t, s.OtherBundle, s.OtherFloor)
		assert.Empty(t, of(Lint(q), s.ID), "%s: %s", s.ID, s.OtherBundle)
		if clerk := (contracts.Caller{ID: "ann", Roles: []string{"r"}}); s.ID == "sandbox-clash" {
			assert.Empty(t, p.Callable(clerk), "%s%s", s.Bundle, s.Floor)
			assert.Len(t, q.Callable(clerk), 1, "%s%s", s.OtherBundle, s.OtherFloor)
		}
	}
	assert.ElementsMatch(t, slices.Collect(maps.Keys(severities)), slices.Collect(maps.Keys(seen)))
	assert.Empty(t, Lint(nil))
	assert.Empty(t, Lint(new(guardian.Policy)))
}

// TestLintDocument: docs/TESTING.md lists the ids with their severities, and no others.
func TestLintDocument(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/TESTING.md")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(page), "### What may not be meant")
	rest, _, _ = strings.Cut(rest, "\n### ")
	listed := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| (warning|note) \\|").FindAllStringSubmatch(rest, -1) {
		listed[m[1]] = m[2]
	}
	assert.Equal(t, severities, listed)
}

// A reason says why a finding in a policy of this repository is meant.
type reason struct{ ID, File, Pointer, Why string }

// TestLintRepository: the policies of this repository have no findings but those that a reason is
// given for, and each reason is of a finding.
func TestLintRepository(t *testing.T) {
	t.Parallel()
	reasons := table.Read[reason](t, "lint_reasons", 7)
	used := make([]bool, len(reasons))
	stacks := [][]string{
		{"quickstart/policy.yaml"}, {"middleware/policy.yaml"}, {"approvals/policy.yaml"}, {"audit/policy.yaml"},
		{"audit/candidate.yaml"}, {"layers/bundle.yaml", "layers/floor.yaml", "layers/task.yaml"},
		{"injection/floor.yaml", "injection/with.yaml"}, {"../bench/policies/helm.yaml"},
		{"../bench/provenance/testdata/policies/bank.yaml"}, {"../policy/testdata/bank.yaml", "../policy/testdata/floor.yaml"},
	}
	for _, files := range stacks {
		for i := range files {
			files[i] = filepath.Join("../examples", files[i])
		}
		p, err := Load(files...)
		require.NoError(t, err)
		for _, f := range Lint(p) {
			i := slices.IndexFunc(reasons, func(r reason) bool {
				return r.ID == f.ID && (r.File == "*" || "../"+r.File == f.Document) &&
					(r.Pointer == "*" || r.Pointer == f.Pointer)
			})
			if assert.GreaterOrEqual(t, i, 0, "no reason is given for %s", f) {
				used[i] = true
			}
		}
	}
	for i, r := range reasons {
		assert.True(t, used[i], "nothing is found any more: %v", r)
	}
}

// TestLintCallable: what is never callable by its profile, only or rules is in no caller's list.
func TestLintCallable(t *testing.T) {
	t.Parallel()
	stacks, err := repository()
	require.NoError(t, err)
	found, callable := 0, 0
	for _, docs := range stacks {
		p, err := guardian.Compile(docs...)
		require.NoError(t, err)
		never := map[string]bool{}
		for _, f := range of(Lint(p), "never-callable") {
			if tool, ok := strings.CutPrefix(f.Pointer, "/tools/"); ok {
				never[unescapeSegment.Replace(tool)] = true
			}
		}
		found += len(never)
		for _, c := range []contracts.Caller{{}, {ID: "ann"}, {ID: "ann", Tenant: "acme", Roles: []string{"clerk", "owner"}}} {
			for _, tool := range p.Callable(c) {
				callable++
				assert.False(t, never[tool.Name], "%s: %s", docs[0].Name, tool.Name)
			}
		}
	}
	assert.True(t, found > 5 && callable > 50, "%d and %d: too little was compared", found, callable)
}

// large returns the text of a bundle of many tools and rules.
func large(tools, rules int) string {
	var b strings.Builder
	b.WriteString("tools:\n")
	for i := range tools {
		b.WriteString("  t" + strconv.Itoa(i) + ": {effect: write, input: {type: object, required: [p, q], properties: {p: " +
			"{type: string, pattern: \"^a\"}, q: {type: number}}}}\n")
	}
	b.WriteString("rules:\n")
	for i := range rules {
		b.WriteString("  - {id: r" + strconv.Itoa(i) + ", allow: t" + strconv.Itoa(i%tools) + ", when: {all: [{arg: /p, eq: \"" +
			strconv.Itoa(i) + "\"}, {arg: /q, lt: " + strconv.Itoa(i) + "}]}}\n")
	}
	return b.String()
}

func BenchmarkLint(b *testing.B) {
	doc, err := Parse("b.yaml", []byte(bundleHead+large(100, 1000)))
	require.NoError(b, err)
	p, err := guardian.Compile(doc)
	require.NoError(b, err)
	for b.Loop() {
		Lint(p)
	}
}
