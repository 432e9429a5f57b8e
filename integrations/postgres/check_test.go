//go:build unix

package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

const bank = `
helm: policy/v1
layer: P1
bundle: {name: bank, version: 1}
tools:
  pay: {effect: write, risk: high, input: {type: object, required: [amount], properties: {amount: {type: integer}}}}
rules:
  - {id: pay, allow: pay}
requires:
  - {id: large, tools: [pay], when: {arg: /amount, gt: 9}, all: [{approval: {roles: [owner], ttl: 15m}}]}
budgets:
  - {id: calls, tools: [pay], limit: 100, per: caller, window: day, cost: 1, refund: error}
`

// bankLog calls use with a log in which everything is that is derived from one: two sessions and
// that of the kernel, charges of which one was given back, an approval, a decision without a
// receipt, and a session that was closed.
func bankLog(t *testing.T, use func(*proofgraph.Memory)) {
	t.Helper()
	doc, err := policy.Parse("bank.yaml", []byte(bank))
	require.NoError(t, err)
	pol, err := guardian.Compile(doc)
	require.NoError(t, err)
	key, err := crypto.GenerateKey()
	require.NoError(t, err)
	ann, err := crypto.GenerateKey()
	require.NoError(t, err)
	public, err := crypto.PublicOf(ann)
	require.NoError(t, err)
	trust, err := registry.New(0, registry.Key{Name: "ann", Public: public, Role: registry.Approver,
		Roles: []string{"owner"}})
	require.NoError(t, err)
	store := proofgraph.NewMemory()
	k, err := helm.New(helm.Options{Policy: pol, Key: key, Store: store, Trust: trust, Origin: origin})
	require.NoError(t, err)
	defer k.Close()
	type args struct {
		N int `json:"amount"`
	}
	pay := helm.Wrap(k, "pay", func(_ context.Context, a args) (string, error) {
		switch a.N {
		case 5:
			return "", errors.New("no")
		case 7:
			use(store)
		}
		return "paid", nil
	})
	in := func(session string, yes ...contracts.Envelope) context.Context {
		return helm.With(t.Context(), helm.Intent{Tool: "pay", Caller: helm.Caller{ID: "bob"}, Session: session,
			Approvals: yes})
	}
	for _, session := range []string{"a", "b", "a"} {
		_, err = pay(in(session), args{1})
		require.NoError(t, err)
	}
	_, err = pay(in("b"), args{5})
	require.Error(t, err)
	_, err = pay(in("b"), args{10})
	var e *helm.Error
	require.ErrorAs(t, err, &e)
	asked, err := json.Marshal(e.Pending)
	require.NoError(t, err)
	var request contracts.ApprovalRequest
	require.NoError(t, json.Unmarshal(asked, &request))
	yes, err := request.Approve(ann)
	require.NoError(t, err)
	_, err = pay(in("b", yes), args{10})
	require.NoError(t, err)
	require.NoError(t, k.CloseSession(t.Context(), "a"))
	_, err = k.Checkpoint(t.Context())
	require.NoError(t, err)
	_, err = pay(in("b"), args{7})
	require.NoError(t, err)
}

// load writes a log to a database, an entry at a time.
func load(t *testing.T, w proofgraph.Writer, from *proofgraph.Memory) {
	t.Helper()
	ctx := t.Context()
	blob := func(d contracts.Digest) ([]byte, error) { return from.Blob(ctx, d) }
	f := newFold(blob)
	note, err := from.Checkpoint(ctx)
	require.NoError(t, err)
	size, err := from.Size(ctx)
	require.NoError(t, err)
	for e, err := range from.Entries(ctx, 0, size) {
		require.NoError(t, err)
		ends, spent, nonces, at := maps.Clone(f.ends), maps.Clone(f.spent), maps.Clone(f.nonces), f.size
		settled := slices.Clone(f.settled)
		h, err := f.add(e)
		require.NoError(t, err)
		guess := proofgraph.State{Kernel: ends[""].Next,
			Sessions: map[string]proofgraph.End{h.Session: ends[h.Session]}}
		c := proofgraph.Change{Of: []string{h.Session},
			Sessions: map[string]proofgraph.End{h.Session: f.ends[h.Session]}}
		c.Entries, c.Checkpoint = []contracts.Entry{e}, note
		sealed, err := new(contracts.Reader).Open(e)
		require.NoError(t, err)
		st, err := sealed.Statement()
		require.NoError(t, err)
		if d := st.Judgement(); d != nil {
			b, err := from.Blob(ctx, d.InputsHash)
			require.NoError(t, err)
			c.Blobs = [][]byte{b}
		}
		for b, n := range f.spent {
			if spent[b] != n {
				was, is := b, b
				was.Spent, is.Spent = spent[b], n
				guess.Spent, c.Spent = append(guess.Spent, was), append(c.Spent, is)
			}
		}
		for n := range f.nonces {
			if !nonces[n] {
				c.Used = append(c.Used, n)
			}
		}
		for i := range f.settled {
			if i == len(settled) {
				c.Opened = []int{0}
			} else if settled[i] != f.settled[i] {
				c.Settled = append(c.Settled, f.decided[i])
			}
		}
		place, err := w.Put(ctx, guess, c)
		require.NoError(t, err)
		require.Equal(t, at, place)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	b := newBase(t, server(t))
	s := b.store()
	require.NoError(t, s.Check(t.Context()), "there is no log")
	w := b.join(s)
	require.NoError(t, s.Check(t.Context()), "there is no entry")
	bankLog(t, func(from *proofgraph.Memory) { load(t, w, from) })
	require.NoError(t, s.Check(t.Context()))
	n := size(t, s)
	assert.Greater(t, n, uint64(10))

	for _, c := range []struct{ change, want string }{
		{"UPDATE log SET size = size - 1", "log: size is "},
		{"UPDATE session SET next = next + 1 WHERE name = 'b'",
			`session "b": next is `},
		{"UPDATE session SET last = decode(repeat('00', 32), 'hex') WHERE name = 'a'", `session "a": last is 0000`},
		{"UPDATE session SET lamport = lamport + 1 WHERE name = 'b'", `session "b": lamport is `},
		{"UPDATE session SET time = time + 1 WHERE name = 'b'", `session "b": time is `},
		{"UPDATE session SET open = 0 WHERE name = 'b'", `session "b": open is 0, and the entries say 1`},
		{"UPDATE session SET closed = false WHERE name = 'a'", `session "a": closed is false, and the entries say true`},
		{"DELETE FROM session WHERE name = ''", `session "": next is 0, and the entries say 2`},
		{"INSERT INTO session SELECT next, lamport, time, log, open, closed, 'c', last FROM session WHERE name = 'b'",
			`session "c": next is `},
		{"UPDATE balance SET spent = spent - 1", `": spent is 4, and the entries say 5`},
		{"DELETE FROM balance", `": spent is 0, and the entries say 5`},
		{`UPDATE balance SET "window" = 'total'`, `in "total": spent is 5, and the entries say 0`},
		{"DELETE FROM nonce", `: nonce is missing, and the entries say used`},
		{"INSERT INTO nonce SELECT log, 'more' FROM nonce", `nonce "more": nonce is there, and the entries say not used`},
		{"UPDATE open SET settler = 1", `: settler is a writer, and the entries say null`},
		{"UPDATE open SET settler = NULL", `: settler is null, and the entries say a writer`},
		{"DELETE FROM open WHERE settler IS NULL", `: index is missing, and the entries say a decision`},
		{"INSERT INTO open SELECT * FROM open WHERE settler IS NOT NULL LIMIT 1",
			`: index is there twice, and the entries say one decision`},
		{"INSERT INTO open VALUES (0, 1, 1, 1)", `open 0: index is there, and the entries say no decision`},
		{"UPDATE entry SET session = 'c', seq = 7 WHERE index = 5", `entry 5: session is "c", and the entries say "`},
		{"UPDATE entry SET seq = 77 WHERE index = 5", `entry 5: seq is 77, and the entries say `},
		{"UPDATE entry SET body = 'x' WHERE index = 5", `entry 5: body: `},
		{"DELETE FROM entry WHERE index = 5", `entry 5: index is missing, and the entries say there`},
	} {
		keep, restore := "", "UPDATE log l SET size = k.size FROM kept_log k WHERE k.id = l.id;"
		for _, table := range []string{"session", "balance", "nonce", "open", "entry", "log"} {
			keep += "CREATE TABLE kept_" + table + " AS TABLE " + table + ";"
			if table != "log" {
				restore += "DELETE FROM " + table + "; INSERT INTO " + table + " SELECT * FROM kept_" + table + ";"
			}
			restore += "DROP TABLE kept_" + table + ";"
		}
		b.exec(keep + c.change)
		err := s.Check(t.Context())
		if assert.Error(t, err, c.change) {
			assert.Contains(t, err.Error(), c.want, c.change)
		}
		b.exec(restore)
		require.NoError(t, s.Check(t.Context()), c.change)
	}

	b.exec("DELETE FROM blob")
	require.NoError(t, s.Check(t.Context()), "inputs need not be kept")
	b.exec("INSERT INTO nonce SELECT log, 'more' FROM nonce")
	err := s.Check(t.Context())
	require.Error(t, err, "there are more nonces than approvals")
}
