package guardian

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/trust/registry"
)

// forThem rewrites overlays so that what is for one of some people is for everybody, and what is
// for another caller is gone.
func forThem(docs []doc, people []string) (out []doc) {
	for _, d := range docs {
		of, _ := d["for"].(map[string]any)
		if id, there := of["caller"]; there {
			if name, _ := id.(string); !slices.Contains(people, name) {
				continue
			}
			rest, changed := doc{}, doc{}
			for k, v := range of {
				if k != "caller" {
					rest[k] = v
				}
			}
			for k, v := range d {
				if k != "for" {
					changed[k] = v
				}
			}
			if len(rest) > 0 {
				changed["for"] = map[string]any(rest)
			}
			d = changed
		}
		out = append(out, d)
	}
	return out
}

// expected judges a call under grants that hold by judging others, of which none is made under a
// grant: one of the delegator's own, and for each grant one by a bundle that allows just what the
// grant does.
func expected(t testing.TB, docs []doc, in contracts.Inputs, grants []contracts.Delegation,
	delegator contracts.Caller) want {
	t.Helper()
	own := in
	own.Envelopes.Delegation, own.Caller = nil, delegator
	people := []string{in.Caller.ID}
	for _, g := range grants {
		people = append(people, g.Delegator)
	}
	r, _ := wide(t, forThem(docs, people)).Judge(own, nil)
	if r.Verdict == contracts.Deny {
		return want{r.Reason, r.Condition, r.Rule}
	}
	outside := want{contracts.ReasonDelegationScopeViolation, 6, ""}
	for _, g := range grants {
		covered := false
		for _, tool := range g.Only {
			covered = covered || tool == in.Tool
		}
		if !covered {
			return outside
		}
		if !g.When.Exists() {
			continue
		}
		mine := in
		mine.Envelopes.Delegation = nil
		rule := fmt.Sprintf(`{"id":"w","allow":%q,"when":%s}`, in.Tool, g.When.Append(nil))
		switch r, _ := mustCompile(t, bundle("b", toolText(in.Tool, fields, "r", "n", "l", "rows"), rule)).Judge(mine,
			nil); r.Reason {
		case contracts.ReasonAllow:
		case contracts.ReasonNoPolicyDefined:
			return outside
		default:
			return want{r.Reason, 6, ""}
		}
	}
	return want{r.Reason, 8, r.Rule}
}

// The rights of a call under grants are those of the root delegator, less what any grant leaves
// out: in random stacks of bundles and overlays, and under random chains, what is judged is what
// follows from calls that are made under none.
func TestDelegationIntersects(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	g := newWide(t, 111)
	seen, cases := map[want]int{}, 0
	for cases < 1500 {
		var docs []doc
		for _, text := range g.bundles() {
			docs = append(docs, read(t, text))
		}
		for i := range g.r.IntN(3) {
			d := read(t, g.overlay(fmt.Sprint("o", i)))
			if g.r.IntN(3) == 0 {
				d["for"] = map[string]any{"caller": pick(g.generator, "ann", "bob", "agent", "carl")}
			}
			docs = append(docs, d)
		}
		p := wide(t, docs)
		if p == nil {
			continue
		}
		for range 15 {
			in := g.anyCall(t, p)
			in.Envelopes.Delegation = pick(g.generator, g.chains...)
			grants, key, err := registry.OpenDelegation(g.state, in.Envelopes.Delegation)
			require.NoError(t, err)
			in.Caller.ID = grants[0].Delegate
			if len(grants) > 1 && grants[1].Depth == 0 {
				continue // not a chain that holds
			}
			end := expected(t, docs, in, grants, contracts.Caller{ID: key.Name, Roles: key.Roles,
				Tenant: in.Caller.Tenant})
			r, why := p.judged(in, g.state)
			if got := (want{r.Reason, r.Condition, r.Rule}); got != end {
				t.Fatalf("%v (%s), want %v\n%s of %s by %+v under %+v\n%v", got, why, end, in.Args.Append(nil), in.Tool,
					in.Caller, grants, docs)
			}
			cases++
			seen[want{reason: r.Reason, condition: r.Condition}]++
		}
	}
	t.Logf("%d cases: %v", cases, seen)
	atLeast(t, seen, 10, []want{{contracts.ReasonAllow, 8, ""}, {contracts.ReasonDelegationScopeViolation, 6, ""},
		{contracts.ReasonFailClosedError, 6, ""}, {contracts.ReasonPolicyViolation, 5, ""},
		{contracts.ReasonNoPolicyDefined, 5, ""}, {contracts.ReasonFailClosedError, 5, ""}})
}
