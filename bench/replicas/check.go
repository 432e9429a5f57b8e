//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/helmkernel/helm/bench/internal/calls"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/integrations/postgres"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore"
)

// check looks whether each log is what the calls were.
func (b *bench) check() error {
	for _, l := range b.logs {
		if err := b.checkLog(l); err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
	}
	return nil
}

func (b *bench) checkLog(l *log) (err error) {
	if !l.shared {
		s, err := filestore.OpenReadOnly(l.dir)
		if err != nil {
			return err
		}
		defer s.Close()
		return l.isWhole(s)
	}
	ctx := context.Background()
	s, err := postgres.Open(ctx, b.server.URL(b.database), postgres.Options{Schema: l.schema})
	if err != nil {
		return err
	}
	defer s.Close()
	if err := errors.Join(l.isWhole(s), s.Check(ctx)); err != nil {
		return err
	}
	if !l.budget {
		return nil
	}
	return b.verify(ctx, l, s)
}

// isWhole reports by its error whether the log has a decision and a receipt of every call, and of
// no other.
func (l *log) isWhole(s proofgraph.Store) error {
	ctx := context.Background()
	size, err := s.Size(ctx)
	if err != nil {
		return err
	}
	var reader contracts.Reader
	decisions, executed := 0, 0
	for e, err := range s.Entries(ctx, 0, size) {
		if err != nil {
			return err
		}
		sealed, err := reader.Open(e)
		if err != nil {
			return err
		}
		st, err := sealed.Statement()
		if err != nil {
			return err
		}
		if st.Decision != nil {
			decisions++
		}
		if st.Receipt != nil && st.Receipt.Outcome == contracts.Executed {
			executed++
		}
	}
	if decisions != l.calls || executed != l.calls {
		return fmt.Errorf("%d calls have %d decisions, and %d receipts of a run", l.calls, decisions, executed)
	}
	return nil
}

// verify makes a pack of a log, and verifies it.
func (b *bench) verify(ctx context.Context, l *log, s *postgres.Store) (err error) {
	key, err := crypto.NewKeyFromSeed(b.seed[:])
	if err != nil {
		return err
	}
	h, err := calls.New(key, 0, l.budget)
	if err != nil {
		return err
	}
	k, err := h.Kernel(s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	if _, err := k.Checkpoint(ctx); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(b.dir, "log.pack"))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := evidence.Write(ctx, f, s, key); err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	r, err := evidence.Verify(ctx, f, info.Size(), evidence.Options{Trust: k.Trust()})
	if err != nil {
		return err
	}
	if !r.Success(evidence.Logged) || r.Replay.Differing != 0 || int(r.Replay.Replayed) != l.calls {
		return fmt.Errorf("the pack does not prove its %d calls: %v", l.calls, r)
	}
	return nil
}
