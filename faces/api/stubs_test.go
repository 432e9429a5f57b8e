package api

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph"
)

// letGo puts stubs in the place of every other half of the calls that ran in sessions that are
// closed, and forgets their blobs. It returns the indexes.
func (c *crowd) letGo() (gone []uint64) {
	c.T.Helper()
	statements := map[uint64]*contracts.Statement{}
	closed, at := map[string]bool{}, map[contracts.Digest]uint64{}
	policies := map[contracts.Digest]uint64{}
	for i, st := range c.Statements() {
		statements[i], at[c.Entry(i).Hash()] = st, i
		closed[st.Session] = closed[st.Session] || st.Close != nil
		if st.Policy != nil {
			policies[st.Policy.Policy] = i
		}
	}
	stubs := map[uint64][]byte{}
	var blobs []contracts.Digest
	for i := range uint64(len(statements)) {
		st := statements[i]
		if !closed[st.Session] {
			continue
		}
		switch r := st.Receipt; {
		case st.Decision != nil && i%3 > 0:
			stubs[i] = contracts.NewStub(st, c.Entry(i).Hash(), policies[st.Decision.PolicyHash]).Append(nil)
			blobs = append(blobs, st.Decision.InputsHash)
		case r != nil && r.Decision == nil && r.Outcome == contracts.Executed && i%4 > 0:
			stubs[i] = contracts.NewStub(st, c.Entry(i).Hash(), at[r.DecisionHash]).Append(nil)
		default:
			continue
		}
		gone = append(gone, i)
	}
	require.NoError(c.T, c.Store.Store.(proofgraph.Condenser).Condense(c.T.Context(), func(yield func(uint64, []byte) bool) {
		for _, i := range gone {
			if !yield(i, stubs[i]) {
				return
			}
		}
	}, slices.Values(blobs)))
	return gone
}

// shown is what a reader gets of the whole log.
type shown struct {
	nodes    []node[string]
	items    []item
	sessions []session
	graph    string
}

func (c *crowd) shown(secret string) (s shown) {
	c.T.Helper()
	s.nodes, _ = pages[node[string]](c.face, secret, "/api/v1/proofgraph", 50, false)
	s.items, _ = pages[item](c.face, secret, "/helm/receipts", 50, true)
	s.sessions, _ = pages[session](c.face, secret, "/api/v1/proofgraph/sessions", 50, false)
	if len(s.nodes) > 0 {
		last := s.nodes[len(s.nodes)-1].Index
		s.graph = c.get(secret, fmt.Sprintf("/api/v1/proofgraph?of=%d&along=links", last)).body
	}
	return s
}

// TestStubs: entries that the log let go of are told as stubs. A process that read them before
// still knows whose they were; one that did not tells of them only those who may read everything,
// and nobody more than before.
func TestStubs(t *testing.T) {
	race.Alone(t)
	t.Parallel()
	c := newCrowd(t)
	before := map[string]shown{}
	for name, secret := range c.secrets {
		before[name] = c.shown(secret)
	}
	hashes := map[uint64]contracts.Digest{}
	for i := range c.Statements() {
		hashes[i] = c.Entry(i).Hash()
	}
	gone := c.letGo()
	require.Greater(t, len(gone), 20)
	isGone := func(i uint64) bool { return slices.Contains(gone, i) }
	for _, again := range []bool{false, true} {
		if again {
			c.over(c.Store)
		}
		for name, secret := range c.secrets {
			was, now := before[name], c.shown(secret)
			if again && name != "all" && name != "inputs" {
				var seen []uint64
				for _, x := range was.nodes {
					seen = append(seen, x.Index)
				}
				for _, x := range now.nodes {
					assert.False(t, x.Stub && x.Kind == "decision" || !slices.Contains(seen, x.Index), "%s sees entry %d now",
						name, x.Index)
				}
				for _, x := range now.items {
					assert.False(t, isGone(x.Decision.Index), "%s sees receipt %d now", name, x.Index)
				}
				continue
			}
			assert.Equal(t, was.sessions, now.sessions, name)
			require.Equal(t, len(was.nodes), len(now.nodes), name)
			for i, x := range now.nodes {
				w := was.nodes[i]
				assert.Equal(t, isGone(x.Index), x.Stub, "entry %d", x.Index)
				if x.Stub {
					w.Reason, w.Risk, w.Stub = "", "", true
					if w.Kind == "receipt" {
						w.Tool = ""
					}
				}
				assert.Equal(t, w, x)
			}
			require.Equal(t, len(was.items), len(now.items), name)
			for i, x := range now.items {
				w := was.items[i]
				assert.Equal(t, isGone(x.Index), x.Stub, "receipt %d", x.Index)
				if w.Decision != nil && isGone(w.Decision.Index) {
					w.Caller, w.Rule, w.Risk = nil, "", ""
				}
				if x.Stub {
					w.Stub, w.Reason, w.Effect = true, "", x.Effect
				}
				assert.Equal(t, w, x)
			}
			assert.Equal(t, strings.Contains(now.graph, `"stub":true`), slices.ContainsFunc(now.nodes,
				func(x node[string]) bool { return x.Stub }), name)
		}
	}
	secret := c.secrets["inputs"]
	for _, i := range gone {
		for _, of := range []string{fmt.Sprint(i), hashes[i].String()} {
			var x struct {
				Index             uint64
				Stub              bool
				Entry             string
				Statement, Output *json.RawMessage
			}
			require.NoError(t, json.Unmarshal([]byte(c.get(secret, "/api/v1/entry?name="+of).body), &x))
			line, err := base64.StdEncoding.DecodeString(x.Entry)
			require.NoError(t, err)
			assert.True(t, x.Index == i && x.Stub && contracts.IsStub(line) && x.Statement == nil && x.Output == nil,
				"entry %d: %+v", i, x)
		}
	}
	for query, stubs := range map[string]bool{"": true, "?outcome=EXECUTED": true, "?verdict=ALLOW": true,
		"?verdict=DENY": false, "?tool=echo": false, "?reason=ALLOW": false, "?outcome=FAILED": false} {
		list, _ := pages[item](c.face, secret, "/helm/receipts"+query, 50, false)
		assert.Equal(t, stubs, slices.ContainsFunc(list, func(x item) bool { return x.Stub }), query)
	}
}
