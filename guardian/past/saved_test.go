package past

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// again saves a fold and reads it into another.
func again[T json.Marshaler](t *testing.T, from T, into interface {
	json.Marshaler
	json.Unmarshaler
}) string {
	t.Helper()
	b, err := from.MarshalJSON()
	require.NoError(t, err)
	require.NoError(t, into.UnmarshalJSON(b))
	same, err := into.MarshalJSON()
	require.NoError(t, err)
	require.Equal(t, string(b), string(same))
	return string(b)
}

// Whatever was charged and given back, a ledger that was saved has the balances, and the ledger of
// the same charges without those that were given back is saved as the same bytes.
func TestLedgerSaved(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 4))
		var all, kept, loaded Ledger
		var charges []contracts.Charge
		for range r.IntN(200) {
			c := contracts.Charge{Amount: 1 + r.Uint64N(9), Budget: fmt.Sprint("b", r.IntN(3)), Limit: crypto.MaxInt,
				Of:     []string{"*", `{"id":"ann","tenant":"acme"}`, fmt.Sprintf(`{"id":"%040d"}`, r.IntN(3))}[r.IntN(3)],
				Window: fmt.Sprint("w", r.IntN(4))}
			c.Before = all.Spent(c)
			require.NoError(t, all.Charge([]contracts.Charge{c}))
			if charges = append(charges, c); r.IntN(2) == 0 {
				back := []contracts.Settlement{{Budget: c.Budget, Of: c.Of}}
				require.NoError(t, all.Settle([]contracts.Charge{c}, back, contracts.ReasonToolError))
				continue
			}
			c.Before = kept.Spent(c)
			require.NoError(t, kept.Charge([]contracts.Charge{c}))
		}
		saved := again(t, &all, &loaded)
		assert.Equal(t, saved, again(t, &kept, new(Ledger)))
		for _, c := range charges {
			assert.Equal(t, all.Spent(c), loaded.Spent(c))
			assert.True(t, loaded.Reserve([]contracts.Charge{c}, nil))
			assert.Equal(t, all.Spent(c)+c.Amount, loaded.Spent(c))
			require.True(t, all.Reserve([]contracts.Charge{c}, nil))
		}
	}
	assert.Error(t, new(Ledger).UnmarshalJSON([]byte(`[{"budget":"b","funds":[{"of":"AA==","spent":1}],"window":"w"}]`)))
}

// A session that was saved, and to which the approvals are added, answers as the one that folded
// the entries.
func TestSessionSaved(t *testing.T) {
	t.Parallel()
	blobs := map[contracts.Digest][]byte{}
	read := func(d contracts.Digest) ([]byte, error) { return blobs[d], nil }
	keep := func(b string) contracts.Digest {
		blobs[crypto.Sum([]byte(b))] = []byte(b)
		return crypto.Sum([]byte(b))
	}
	digest := func(i int) contracts.Digest { return crypto.Sum([]byte(fmt.Sprint(i))) }
	args := func(r Run) (crypto.Value, error) {
		var tree crypto.Tree
		err := tree.Parse(fmt.Appendf(nil, `{"n":%d}`, r.Decision%3), crypto.Limits{Bytes: 99, Depth: 9})
		return tree.Root(), err
	}
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 5))
		var s, loaded Session
		var consumed []func(*Session)
		for i := range r.IntN(60) {
			tool := fmt.Sprint("t", r.IntN(3))
			switch r.IntN(4) {
			case 0:
				text := fmt.Sprint("please pay ", i)
				s.Message(keep(text), text)
			case 1:
				d := &contracts.DecisionRecord{Tool: tool, Approvals: []contracts.Digest{digest(i)}, ArgsHash: digest(i % 2)}
				nonces := [][]string{nil, {fmt.Sprint("nonce-", i)}}[r.IntN(2)]
				s.Allow(d, contracts.Time(i), nonces)
				consumed = append(consumed, func(s *Session) { s.Consume(d, contracts.Time(i), nonces) })
			case 2:
				s.Allow(&contracts.DecisionRecord{Tool: tool}, contracts.Time(i), nil)
			default:
				var facts Facts
				if document := fmt.Sprintf(`{"/to":["p%d"]}`, i); r.IntN(2) == 0 {
					d := keep(document)
					facts = Facts{&d, []byte(document)}
				}
				s.Execute(Run{tool, uint64(i), uint64(i + 1), digest(i), contracts.Time(i)}, crypto.Value{}, facts)
			}
		}
		saved := again(t, &s, &loaded)
		for _, consume := range consumed {
			consume(&loaded)
		}
		assert.NotContains(t, saved, "please")
		assert.NotContains(t, saved, "/to")
		declared := NewDeclaration([]Fact{{Key: "/to", Vouches: true}})
		for i := range 60 {
			q := &contracts.ApprovalRequest{Nonce: fmt.Sprint("nonce-", i), Tool: fmt.Sprint("t", i%3),
				ArgsHash: digest(i % 2), NotBefore: contracts.Time(i)}
			require.Equal(t, s.Used(q), loaded.Used(q))
		}
		for i := range 3 {
			tool := fmt.Sprint("t", i)
			require.Equal(t, s.Calls(tool), loaded.Calls(tool))
			for n := range 3 {
				same, err := args(Run{Decision: uint64(n)})
				require.NoError(t, err)
				var tree crypto.Tree
				require.NoError(t, tree.Parse(fmt.Appendf(nil, `{"/n":%s}`, same.Get("n").Append(nil)),
					crypto.Limits{Bytes: 99, Depth: 9}))
				for _, same := range []crypto.Value{{}, tree.Root()} {
					want, err := s.Receipt(tool, same, args)
					require.NoError(t, err)
					got, err := loaded.Receipt(tool, same, args)
					require.NoError(t, err)
					require.Equal(t, want.Entry, got.Entry)
					if want.Entry == nil {
						continue
					}
					facts, err := s.Facts(&want, read)
					require.NoError(t, err)
					others, err := loaded.Facts(&got, read)
					require.NoError(t, err)
					require.Equal(t, string(facts.Append(nil)), string(others.Append(nil)))
				}
			}
			for _, q := range []Source{{}, {Tool: tool, Fact: "/to", Declared: declared}} {
				want, err := s.Source(q, read)
				require.NoError(t, err)
				got, err := loaded.Source(q, read)
				require.NoError(t, err)
				require.Equal(t, want.Count, got.Count)
				require.Equal(t, want.State, got.State)
				require.Equal(t, want.Bytes, got.Bytes)
			}
		}
		require.Equal(t, s.Calls(""), loaded.Calls(""))
		require.Equal(t, saved, again(t, &loaded, new(Session)), "asked meanwhile")
	}
}
