package graph

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/proofgraph"
)

// secret is in arguments, outputs and callers, and in nothing that is written.
const secret = "sesame"

// A world is a kernel that is called at random, always in the same way for one seed but for its
// keys: many sessions, calls inside calls, calls after others, denials, failures, sessions that are
// closed.
type world struct {
	testing.TB
	rand  *rand.Rand
	key   crypto.Signer
	k     *helm.Kernel
	store *proofgraph.Memory
	refs  []contracts.Ref
}

func newWorld(t testing.TB, seed uint64) *world {
	t.Helper()
	input := `"input":{"properties":{"x":{"type":"string"}},"type":"object"}`
	policy, err := guardian.Compile(contracts.Document{Name: "p", Canonical: []byte(
		`{"bundle":{"name":"p","version":1},"helm":"policy/v1","layer":"P1",` +
			`"rules":[{"allow":["a","b"],"id":"all"}],"tools":{"a":{"effect":"read",` + input +
			`},"b":{"effect":"destructive",` + input + `},` +
			`"c":{"effect":"write","input":{"type":"object"}}}}`)})
	require.NoError(t, err)
	key, err := crypto.GenerateKey()
	require.NoError(t, err)
	w := &world{TB: t, key: key, rand: rand.New(rand.NewPCG(seed, 1)), store: proofgraph.NewMemory()}
	w.k, err = helm.New(helm.Options{Policy: policy, Key: key, Store: w.store})
	require.NoError(t, err)
	return w
}

// call makes a call, and in half of the runs others inside it.
func (w *world) call(ctx context.Context, depth int) {
	session := ""
	if depth == 0 || w.rand.IntN(2) == 0 { // else that of the call around it
		session = fmt.Sprint("s/", w.rand.IntN(5))
	}
	var after []contracts.Ref
	if len(w.refs) > 0 {
		for range w.rand.IntN(4) {
			after = append(after, w.refs[w.rand.IntN(len(w.refs))])
		}
	}
	run := helm.Func(func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
		for depth < 4 && w.rand.IntN(2) == 0 {
			w.call(ctx, depth+1)
		}
		if w.rand.IntN(5) == 0 {
			return nil, fmt.Errorf("no luck")
		}
		return json.RawMessage(`{"y":"` + secret + `"}`), nil
	})
	_, r := w.k.Guard(ctx, helm.Intent{Tool: string("abc"[w.rand.IntN(3)]),
		Args: json.RawMessage(`{"x":"` + secret + `"}`), Session: session,
		Caller: helm.Caller{ID: secret}, After: after, Driver: run})
	require.NotNil(w, r.Entry, "a call was not recorded")
	w.refs = append(w.refs, r.Ref())
}

// calls makes some of them, and closes a session in between.
func (w *world) calls(n int) *world {
	w.Helper()
	for i := range n {
		w.call(w.Context(), 0)
		if i == n/2 {
			require.NoError(w, w.k.CloseSession(w.Context(), "s/4"))
		}
	}
	return w
}

// entries returns the whole log.
func entries(t testing.TB, s Source) (list []contracts.Entry) {
	t.Helper()
	n, err := s.Size(t.Context())
	require.NoError(t, err)
	for e, err := range s.Entries(t.Context(), 0, n) {
		require.NoError(t, err)
		list = append(list, e)
	}
	return list
}

// A naive is what a page of code makes of the same entries: maps, by hash.
type naive struct {
	order  []string
	links  map[string][]string
	causes map[string][]string
	names  map[string]string // session/seq
	said   map[string]statement
}

type statement struct {
	PredicateType string
	Predicate     struct {
		Prev, Session, DecisionHash, Outcome, Time, Tool, Verdict, Reason string
		Parents                                                           []string
		Seq                                                               uint64
		Decision                                                          struct{ Tool, Verdict, Reason, Risk string }
	}
}

func (s *statement) kind() string {
	return s.PredicateType[len("https://github.com/helmkernel/helm/") : len(s.PredicateType)-len("/v1")]
}

func newNaive(t testing.TB, list []contracts.Entry) *naive {
	t.Helper()
	n := &naive{links: map[string][]string{}, causes: map[string][]string{}, names: map[string]string{},
		said: map[string]statement{}}
	for _, e := range list {
		var envelope struct{ Payload string }
		var st statement
		err := json.Unmarshal(e, &envelope)
		require.NoError(t, err)
		payload, err := base64.StdEncoding.DecodeString(envelope.Payload)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(payload, &st))
		h, p := e.Hash().String(), st.Predicate
		n.order, n.said[h], n.names[fmt.Sprint(p.Session, "/", p.Seq)] = append(n.order, h), st, h
		if st.kind() != "genesis" {
			n.links[h] = append(slices.Clone(p.Parents), p.Prev)
		}
		before := n.said[p.Prev]
		n.causes[h] = p.Parents
		switch {
		case p.DecisionHash != "" && slices.Contains(p.Parents, p.DecisionHash):
		case p.DecisionHash != "":
			n.causes[h] = append(slices.Clone(p.Parents), p.DecisionHash)
		case (st.kind() == "decision" || p.Outcome == "DENIED") && len(before.PredicateType) > 0 &&
			before.kind() == "decision":
			n.causes[h] = append(slices.Clone(p.Parents), p.Prev)
		}
	}
	return n
}

func (n *naive) along(e Edges) map[string][]string {
	if e == Links {
		return n.links
	}
	return n.causes
}

// above returns the distance of everything that leads to an entry.
func (n *naive) above(h string, e Edges) map[string]int {
	seen, queue := map[string]int{h: 0}, []string{h}
	for len(queue) > 0 {
		for _, to := range n.along(e)[queue[0]] {
			if _, ok := seen[to]; !ok {
				seen[to] = seen[queue[0]] + 1
				queue = append(queue, to)
			}
		}
		queue = queue[1:]
	}
	return seen
}
