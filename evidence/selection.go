package evidence

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
)

// An eraser is one run of Erase.
type eraser struct {
	Erasure
	store    proofgraph.Store
	which    Selection
	receipts map[contracts.Digest]bool // of the selection; true: found
	entries  map[uint64]bool
	sessions map[string]bool
	callers  map[[2]string]bool
	read     uint64                    // entries that others has looked at
	calls    map[contracts.Digest]bool // selected, by the hash of the entry that has the decision
	wanted   map[contracts.Digest]bool // blobs that these name; false where others do too
}

func newEraser(s proofgraph.Store, which Selection) (*eraser, error) {
	for _, c := range which.Callers {
		if c.Roles != nil {
			return nil, errors.New("a caller is selected by ID and Tenant: leave Roles out")
		}
	}
	if slices.Contains(which.Sessions, "") {
		return nil, errors.New(`no session has an empty name: calls that name none are in "main"`)
	}
	if len(which.Receipts)+len(which.Entries)+len(which.Sessions)+len(which.Callers) == 0 {
		return nil, errors.New("nothing is selected")
	}
	r := &eraser{store: s, which: which, receipts: map[contracts.Digest]bool{}, entries: map[uint64]bool{}, sessions: map[string]bool{}, callers: map[[2]string]bool{},
		calls: map[contracts.Digest]bool{}, wanted: map[contracts.Digest]bool{}}
	for _, hash := range which.Receipts {
		r.receipts[hash] = false
	}
	for _, index := range which.Entries {
		r.entries[index] = false
	}
	for _, name := range which.Sessions {
		r.sessions[recorded(name, contracts.IsSession(name))] = true
	}
	for _, c := range which.Callers {
		r.callers[[2]string{recorded(c.ID, isCallerWord(c.ID)), recorded(c.Tenant, isCallerWord(c.Tenant))}] = true
	}
	return r, nil
}

// survey reads the log three times: which calls are selected, which may only show with their receipts; what they name; who else does.
func (r *eraser) survey(ctx context.Context) error {
	var err error
	if r.Size, err = r.store.Size(ctx); err != nil {
		return err
	}
	if err := r.each(ctx, 0, r.Size, func(index uint64, hash contracts.Digest, st *contracts.Statement) error {
		_, byHash := r.receipts[hash]
		_, byIndex := r.entries[index]
		call, ok := decisionOf(st, hash)
		if (byHash || byIndex) && !ok {
			return fmt.Errorf("entry %d is a %s: select a receipt or its decision", index, st.Kind())
		}
		if byHash {
			r.receipts[hash] = true
		}
		if byIndex {
			r.entries[index] = true
		}
		if ok && !r.calls[call] {
			selects, err := r.selects(ctx, st)
			if err != nil {
				return fmt.Errorf("entry %d: %w", index, err)
			}
			if byHash || byIndex || selects {
				r.calls[call] = true
			}
		}
		return nil
	}); err != nil {
		return err
	}
	for _, hash := range r.which.Receipts {
		if !r.receipts[hash] {
			return fmt.Errorf("receipt %s is not in the log: give the hash of its entry", hash)
		}
	}
	for _, index := range r.which.Entries {
		if !r.entries[index] {
			return fmt.Errorf("entry %d is not in the log, which has %d", index, r.Size)
		}
	}
	if err := r.each(ctx, 0, r.Size, func(index uint64, hash contracts.Digest, st *contracts.Statement) error {
		call, ok := decisionOf(st, hash)
		if !ok || !r.calls[call] {
			return nil
		}
		if d := st.Judgement(); d != nil {
			r.Calls = append(r.Calls, Call{index, d.ID})
		}
		names(st, func(d contracts.Digest, _ role) { r.wanted[d] = true })
		return nil
	}); err != nil {
		return err
	}
	return r.others(ctx, r.Size)
}

// others looks at entries that were not looked at yet, for those that were not selected and name the same.
func (r *eraser) others(ctx context.Context, size uint64) error {
	err := r.each(ctx, r.read, size, func(_ uint64, hash contracts.Digest, st *contracts.Statement) error {
		if call, ok := decisionOf(st, hash); ok && r.calls[call] {
			return nil
		}
		names(st, func(d contracts.Digest, _ role) {
			if r.wanted[d] {
				r.wanted[d] = false
			}
		})
		return nil
	})
	r.read = size
	return err
}

// decisionOf gives the call that an entry is of, by the hash of the entry that has its decision.
func decisionOf(st *contracts.Statement, hash contracts.Digest) (contracts.Digest, bool) {
	switch {
	case st.Judgement() != nil:
		return hash, true
	case st.Receipt != nil:
		return st.Receipt.DecisionHash, true
	}
	return contracts.Digest{}, false
}

// selects tells whether sessions or callers of the selection are those of a judgement. The session that a call in @refused asked for is in
// its inputs; where these are gone there is nothing to erase.
func (r *eraser) selects(ctx context.Context, st *contracts.Statement) (bool, error) {
	d := st.Judgement()
	if d == nil {
		return false, nil
	}
	if r.callers[[2]string{d.Caller.ID, d.Caller.Tenant}] || r.sessions[st.Session] {
		return true, nil
	}
	if st.Session != contracts.SessionRefused || len(r.sessions) == 0 {
		return false, nil
	}
	b, err := r.store.Blob(ctx, d.InputsHash)
	if errors.Is(err, proofgraph.ErrNoBlob) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var reader contracts.Reader
	in, err := reader.Inputs(b)
	if err != nil {
		return false, fmt.Errorf("inputs: %v", err)
	}
	return r.sessions[in.Session], nil
}

// recorded is what a kernel makes of a name: one outside its limits is recorded by its digest, and only such a one, for whoever calls himself
// by the digest of another's name shall not be erased with him.
func recorded(name string, legal bool) string {
	if legal {
		return name
	}
	return contracts.Hashed(name)
}

func isCallerWord(s string) bool { return s == "" || contracts.IsWords(s, contracts.MaxCallerID) }

// each reads entries of the log. It verifies no signatures: that is for those who get packs.
func (r *eraser) each(ctx context.Context, from, to uint64, do func(index uint64, hash contracts.Digest, st *contracts.Statement) error) error {
	var reader contracts.Reader
	index := from
	for e, err := range r.store.Entries(ctx, from, to) {
		if err != nil {
			return fmt.Errorf("entry %d: %w", index, err)
		}
		sealed, err := reader.Open(e)
		if err != nil {
			return fmt.Errorf("entry %d: %v", index, err)
		}
		st, err := sealed.Statement()
		if err != nil {
			return fmt.Errorf("entry %d: %v", index, err)
		}
		if what := later(st); what != "" {
			return fmt.Errorf("entry %d: %s", index, what)
		}
		if err := do(index, e.Hash(), st); err != nil {
			return err
		}
		index++
	}
	if index != to {
		return fmt.Errorf("the store gave %d entries of %d", index, to)
	}
	return nil
}
