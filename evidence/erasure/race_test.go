package erasure_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/evidence/erasure"
	"github.com/helmkernel/helm/evidence/internal/forge"
	"github.com/helmkernel/helm/proofgraph"
)

// A late store does something when it is to erase a blob, just before it does; and then others are
// faster, once.
type late struct {
	*proofgraph.Memory
	do     map[contracts.Digest]func()
	faster bool
}

func (s *late) EraseBlob(ctx context.Context, d contracts.Digest) error {
	if f := s.do[d]; f != nil {
		delete(s.do, d)
		f()
		s.faster = true
	}
	return s.Memory.EraseBlob(context.Background(), d)
}

func (s *late) Append(ctx context.Context, b proofgraph.Batch) error {
	if s.faster {
		s.faster = false
		return proofgraph.ErrConflict
	}
	return s.Memory.Append(ctx, b)
}

// TestEraseAtTheLastMoment: the output of a tool has the bytes of a policy document, and the policy
// is put into force at the moment at which the output is erased. The log keeps the document, also
// if the context of Erase ends just then.
func TestEraseAtTheLastMoment(t *testing.T) {
	t.Parallel()
	for _, ends := range []bool{false, true} {
		m := forge.NewMaker(t)
		m.Use(forge.FilesPolicy(1))
		next := string(forge.CanonicalText(t, forge.FilesPolicy(2)))
		document := crypto.Sum([]byte(next))
		m.Allowed(forge.Ask{Session: "main", Tool: "fs.list", Args: `{}`, Who: forge.Reader}).Ran(next)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s := &late{Memory: m.Store, do: map[contracts.Digest]func(){document: func() {
			m.Use(next)
			if ends {
				cancel()
			}
		}}}
		e, err := erasure.Erase(ctx, s, erasure.Selection{Sessions: []string{"main"}})
		switch {
		case len(s.do) > 0 || s.faster:
			t.Error("nothing happened at the last moment")
		case ends && err != nil && !errors.Is(err, context.Canceled):
			t.Error(err)
		case !ends && (err != nil || len(e.Erased) != 1 || len(e.Kept) != 1 || e.Kept[0] != document):
			t.Errorf("%+v, %v", e, err)
		}
		m.Checkpoint()
		r, err := verifyBytes(t, m.Pack(evidence.Write), evidence.Options{Trust: m.Trust})
		assert.True(t, err == nil && r.Success(evidence.Logged) && len(r.Erased) <= 1, "ends %v: %s, %v", ends, r.Level,
			err)
	}
}
