package erasure_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/evidence/erasure"
	"github.com/helmkernel/helm/evidence/internal/forge"
	"github.com/helmkernel/helm/proofgraph"
)

// TestEraseMessages: texts of the user are erased with their session, or one by one, and with no
// caller; facts with their call. What another entry names too is kept.
func TestEraseMessages(t *testing.T) {
	t.Parallel()
	const facts, output = `{"/class":["bob"],"count:/bags":[0]}`, `{"bags":[],"class":"bob"}`
	made := func(t *testing.T) (m *forge.Maker, said []contracts.Digest) {
		m = forge.NewMaker(t)
		m.Use(forge.KnowsFloor, forge.KnowsBundle)
		said = append(said, m.Say("s", "of s"), m.Say("t", "of t"))
		m.Allowed(forge.Ask{Session: "t", Tool: "order", Args: `{"id":"7"}`, Who: forge.Reader}).Ran(output)
		said = append(said, m.Say("t", "of both"), m.Say("s", "of both"))
		m.Checkpoint()
		return m, said
	}
	const genesisAndPolicy = 2
	all := []string{"of s", "of t", "of both", facts, output}
	for _, x := range []struct {
		name  string
		which func(said []contracts.Digest) erasure.Selection
		want  []string // what is gone
		calls int
		kept  int
	}{
		{"a session", func([]contracts.Digest) erasure.Selection { return erasure.Selection{Sessions: []string{"s"}} },
			[]string{"of s"}, 0, 1},
		{"a session with a call", func([]contracts.Digest) erasure.Selection {
			return erasure.Selection{Sessions: []string{"t"}}
		}, []string{"of t", facts, output}, 1, 1},
		{"both", func([]contracts.Digest) erasure.Selection { return erasure.Selection{Sessions: []string{"t", "s"}} },
			all, 1, 0},
		{"one message", func(said []contracts.Digest) erasure.Selection {
			return erasure.Selection{Receipts: said[:1]}
		}, []string{"of s"}, 0, 0},
		{"one by index", func([]contracts.Digest) erasure.Selection {
			return erasure.Selection{Entries: []uint64{genesisAndPolicy + 1}}
		}, []string{"of t"}, 0, 0},
		{"all that say the same", func(said []contracts.Digest) erasure.Selection {
			return erasure.Selection{Receipts: said[2:]}
		}, []string{"of both"}, 0, 0},
		{"a caller", func([]contracts.Digest) erasure.Selection {
			return erasure.Selection{Callers: []contracts.Caller{{ID: forge.Reader.ID}}}
		}, []string{facts, output}, 1, 0},
		{"nobody", func([]contracts.Digest) erasure.Selection {
			return erasure.Selection{Callers: []contracts.Caller{{}}}
		}, nil, 0, 0},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			m, said := made(t)
			e, err := erasure.Erase(t.Context(), m.Store, x.which(said))
			require.NoError(t, err)
			assert.Len(t, e.Calls, x.calls)
			assert.Len(t, e.Kept, x.kept)
			assert.Len(t, e.Erased, len(x.want)+x.calls) // and the inputs of the call
			for _, blob := range all {
				_, err := m.Store.Blob(t.Context(), crypto.Sum([]byte(blob)))
				assert.Equal(t, slices.Contains(x.want, blob), errors.Is(err, proofgraph.ErrNoBlob), "%s: %v", blob, err)
			}
			if x.calls == 0 {
				return
			}
			var b bytes.Buffer
			require.NoError(t, evidence.Write(t.Context(), &b, m.Store, forge.Key(t, forge.SeedK1)))
			r, err := verifyBytes(t, b.Bytes(), evidence.Options{Trust: m.Trust, Origin: forge.Origin})
			assert.True(t, err == nil && r.Success(0) && slices.Equal(r.Erased, e.Erased), "%+v, %v", r, err)
		})
	}
}
