package guardian

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/race"
)

// A second reading of what docs/POLICY.md says of requirements, of approvals and attestations
// alone, in other words and without speed.

type modelNeed struct {
	seen   bool // an attestation; else an approval
	there  bool // of an attestation
	roles  []string
	quorum int
	ttl    contracts.Time
}

type modelRequirement struct {
	any   bool
	needs []modelNeed
}

type modelAnswer struct {
	request     contracts.ApprovalRequest
	digest      contracts.Digest
	holder      string // "": a key that is not known
	roles       []string
	fits        bool // the call
	no          bool
	worth, late bool
	refusal     bool
}

func (n modelNeed) by(a modelAnswer) bool {
	return !n.seen && slices.ContainsFunc(n.roles, func(x string) bool { return slices.Contains(a.roles, x) })
}

func (n modelNeed) takes(a modelAnswer) bool {
	return n.by(a) && a.worth && !a.late && a.request.Expires-a.request.NotBefore <= n.ttl
}

// weigh tells of each answer whether it is worth anything here.
func weigh(all []modelAnswer, needs []modelNeed, used map[string]bool) {
	some := func(is func(n modelNeed) bool) bool { return slices.ContainsFunc(needs, is) }
	refused := map[string]bool{}
	for i := range all {
		a := &all[i]
		a.late = noon < a.request.NotBefore || noon >= a.request.Expires
		a.worth = a.fits && a.holder != "" && some(func(n modelNeed) bool { return n.by(*a) }) &&
			some(func(n modelNeed) bool {
				return !n.seen && n.quorum == int(a.request.Quorum) && slices.Equal(n.roles, a.request.Roles)
			})
		if a.worth && a.no {
			a.refusal, refused[a.request.Nonce] = true, true
		}
	}
	for i := range all {
		a := &all[i]
		a.worth = a.worth && !refused[a.request.Nonce] && !used[a.request.Nonce] &&
			some(func(n modelNeed) bool { return n.by(*a) && a.request.Expires-a.request.NotBefore <= n.ttl })
	}
}

// modelled judges, and returns the approvals that count and what is asked.
func modelled(requires []modelRequirement, all []modelAnswer,
	used map[string]bool) (w want, listed []contracts.Digest, pending *modelNeed) {
	var asking []int
	var needs []modelNeed
	for i, x := range requires {
		held, lacks, people := false, false, false
		for _, n := range x.needs {
			held, lacks, people = held || n.seen && n.there, lacks || n.seen && !n.there, people || !n.seen
		}
		if x.any && !held && !people || !x.any && lacks {
			return missing4(fmt.Sprint("P1:bank:r", i)), nil, nil
		}
		if people && !(x.any && held) {
			asking = append(asking, i)
		}
		needs = append(needs, x.needs...)
	}
	weigh(all, needs, used)
	w = allowed
	for _, i := range asking {
		var first *modelNeed
		met := 0
		for k, n := range requires[i].needs {
			people := map[string]bool{}
			for _, a := range all {
				if n.takes(a) {
					people[a.holder], listed = true, insert(listed, a.digest)
				}
			}
			if !n.seen && len(people) >= n.quorum {
				met++
			} else if !n.seen && first == nil {
				first = &requires[i].needs[k]
			}
		}
		if first == nil || requires[i].any && met > 0 || w != allowed {
			continue
		}
		w, pending = want{contracts.ReasonApprovalRequired, 4, fmt.Sprint("P1:bank:r", i)}, first
		if slices.ContainsFunc(all, func(a modelAnswer) bool { return a.worth && a.late }) {
			w.reason = contracts.ReasonApprovalExpired
		}
		if slices.ContainsFunc(all, func(a modelAnswer) bool { return !a.worth }) {
			w.reason = contracts.ReasonApprovalInvalid
		}
		if slices.ContainsFunc(all, func(a modelAnswer) bool { return a.refusal }) {
			w.reason = contracts.ReasonApprovalRefused
		}
	}
	return w, listed, pending
}

// required is a random requirement, and its text.
func (g generator) required(seen bool) (x modelRequirement, text string) {
	var needs []string
	for range 1 + g.r.IntN(3) {
		n := modelNeed{seen: g.r.IntN(4) == 0}
		if n.seen {
			kind := pick(g, "seen", "other")
			n.there = seen && kind == "seen"
			needs = append(needs, `{"attestation":{"type":"`+kind+`","max_age":"1m"}}`)
		} else {
			minutes := pick(g, 5, 10)
			n.roles, n.quorum, n.ttl = pick(g, []string{"owner"}, []string{"cfo"}, []string{"cfo", "owner"},
				[]string{"clerk"}), 1+g.r.IntN(2), contracts.Time(minutes*60_000)
			needs = append(needs, fmt.Sprintf(`{"approval":{"roles":["%s"],"quorum":%d,"ttl":"%dm"}}`,
				strings.Join(n.roles, `","`), n.quorum, minutes))
		}
		x.needs = append(x.needs, n)
	}
	if x.any = g.r.IntN(2) == 0; x.any {
		return x, `"any":[` + strings.Join(needs, ",") + `]`
	}
	return x, `"all":[` + strings.Join(needs, ",") + `]`
}

// answered is a random answer to something like a request of these needs.
func (g generator) answered(t testing.TB, p *Policy, in *contracts.Inputs,
	needs []modelNeed) (a modelAnswer, e contracts.Envelope) {
	roles := map[string][]string{"olga": {"owner"}, "olga 2": {"owner"}, "otto": {"owner"}, "pat": {"owner", "cfo"},
		"carl": {"clerk"}, "cleo": {"cfo"}}
	n, signer, ttl := pick(g, needs...), pick(g, "olga", "olga 2", "otto", "pat", "carl", "cleo", "stranger"),
		pick(g, 60_000, 300_000, 300_000, 600_000)
	a.roles = roles[signer]
	if a.holder = strings.TrimSuffix(signer, " 2"); a.roles == nil {
		a.holder = ""
	}
	a.fits, a.no = g.r.IntN(12) > 0, g.r.IntN(9) == 0
	from := noon - contracts.Time(pick(g, 0, 0, 0, 0, -1, 59_999, ttl))
	a.request = contracts.ApprovalRequest{ArgsHash: in.ArgsHash, Caller: in.Caller, Expires: from + contracts.Time(ttl),
		Nonce: strings.Repeat(pick(g, "a", "b", "c"), 32), NotBefore: from,
		PolicyHash: p.Hash(), Quorum: uint64(pick(g, n.quorum, n.quorum, n.quorum, n.quorum, 3)), Roles: n.roles,
		SchemaHash: p.stack.Tools["pay"].Digest, Session: "chat", Tool: "pay"}
	if !a.fits {
		a.request.Session = "another"
	}
	if e = approvedBy(t, a.request, signer); a.no {
		e = refusedBy(t, a.request, signer)
	}
	a.digest = e.Digest()
	return a, e
}

// Random requirements, under random answers, come out as by the second reading: reason, rule, what
// counts and what is asked.
func TestApprovalModel(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	g, trust := generator{rand.New(rand.NewPCG(91, 92))}, people(t)
	seen := map[contracts.ReasonCode]int{}
	for range rounds(700) {
		in, past, used := inChat(t, "pay", toBob), newTold(), map[string]bool{}
		if g.r.IntN(2) == 0 {
			in.Envelopes.Attestations = []contracts.Envelope{attested(t, "notary",
				contracts.Attestation{Time: noon, Type: "seen"})}
		}
		if g.r.IntN(3) == 0 {
			used[strings.Repeat("c", 32)] = true
			past.Allow(&contracts.DecisionRecord{Tool: "pay", Approvals: []contracts.Digest{{1}}}, noon,
				[]string{strings.Repeat("c", 32)})
		}
		var requires []modelRequirement
		var texts []string
		var people []modelNeed
		for i := range 1 + g.r.IntN(2) {
			x, text := g.required(in.Envelopes.Attestations != nil)
			requires, texts = append(requires, x), append(texts,
				fmt.Sprintf(`{"id":"r%d","tools":["pay"],%s}`, i, text))
			people = append(people, slices.DeleteFunc(slices.Clone(x.needs),
				func(n modelNeed) bool { return n.seen })...)
		}
		p := mustCompile(t, bankText(strings.Join(texts, ","), ``))
		var all []modelAnswer
		for n := g.r.IntN(6); n > 0 && people != nil; n-- {
			a, e := g.answered(t, p, &in, people)
			if !slices.ContainsFunc(all, func(x modelAnswer) bool { return x.digest == a.digest }) {
				all, in.Envelopes.Approvals = append(all, a), append(in.Envelopes.Approvals, e)
			}
		}
		end, listed, pending := modelled(requires, all, used)
		r, why := settled(t, p, &in, trust, past)
		seen[r.Reason]++
		if got := (want{r.Reason, r.Condition, r.Rule}); got != end || !slices.Equal(r.Approvals, listed) {
			t.Fatalf("%v (%s) lists %v, want %v and %v\n%s\n%+v", got, why, r.Approvals, end, listed,
				strings.Join(texts, "\n"), all)
		}
		if q := why.Pending; q != nil && (!slices.Equal(q.Roles, pending.roles) || int(q.Quorum) != pending.quorum ||
			q.NotBefore != noon || q.Expires != noon+pending.ttl) {
			t.Fatalf("asks %+v, want %+v\n%s", q, pending, strings.Join(texts, "\n"))
		}
	}
	atLeast(t, seen, rounds(20), []contracts.ReasonCode{contracts.ReasonAllow, contracts.ReasonApprovalExpired,
		contracts.ReasonApprovalInvalid, contracts.ReasonApprovalRefused, contracts.ReasonApprovalRequired,
		contracts.ReasonMissingRequirement})
}
