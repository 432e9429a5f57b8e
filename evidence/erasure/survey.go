package erasure

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/entry"
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
	callers  map[callerName]bool
	read     uint64                    // entries that excludeNamed has read
	calls    map[contracts.Digest]bool // selected, by the hash of the entry that has the decision; and messages
	wanted   map[contracts.Digest]bool // blobs that these name; false: another entry names it too
	half     halves
}

// A callerName is a caller as entries record it, without roles.
type callerName struct{ id, tenant string }

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
	r := &eraser{
		store:    s,
		which:    which,
		receipts: map[contracts.Digest]bool{},
		entries:  map[uint64]bool{},
		sessions: map[string]bool{},
		callers:  map[callerName]bool{},
		calls:    map[contracts.Digest]bool{},
		wanted:   map[contracts.Digest]bool{},
	}
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
		r.callers[callerName{recorded(c.ID, isCallerWord(c.ID)), recorded(c.Tenant, isCallerWord(c.Tenant))}] = true
	}
	return r, nil
}

// survey reads the log three times: which calls are selected, as a receipt may be the first to
// show; which blobs they name; which of these other entries name too.
func (r *eraser) survey(ctx context.Context) error {
	var err error
	r.Size, err = r.store.Size(ctx)
	if err != nil {
		return err
	}
	if err := r.each(ctx, 0, r.Size, func(index uint64, x line) error {
		return r.selectCall(ctx, index, x)
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
	if err := r.each(ctx, 0, r.Size, func(index uint64, x line) error {
		call, ok := x.decision()
		if !ok || !r.calls[call] {
			return nil
		}
		if x.Decides() {
			r.Calls = append(r.Calls, Call{index, x.Name()})
		}
		x.blobs(func(d contracts.Digest, as entry.Role) {
			if as != entry.Module { // code, which the caller did not bring
				r.wanted[d] = true
			}
		})
		return nil
	}); err != nil {
		return err
	}
	return r.excludeNamed(ctx, r.Size)
}

// selectCall adds the call of an entry to calls if the selection names it.
func (r *eraser) selectCall(ctx context.Context, index uint64, x line) error {
	_, byHash := r.receipts[x.Hash]
	_, byIndex := r.entries[index]
	call, ok := x.decision()
	if (byHash || byIndex) && !ok {
		if x.Stub == nil {
			return fmt.Errorf("entry %d is a %s: select a receipt, its decision or a message", index, x.Entry.Kind())
		}
		var err error
		call, err = r.hashOf(ctx, x.Stub.Receipt.Decision)
		if err != nil {
			return fmt.Errorf("entry %d: %w", x.Stub.Receipt.Decision, err)
		}
		ok = true
	}
	if byHash {
		r.receipts[x.Hash] = true
	}
	if byIndex {
		r.entries[index] = true
	}
	if ok && !r.calls[call] {
		byName, err := r.selects(ctx, x)
		if err != nil {
			return fmt.Errorf("entry %d: %w", index, err)
		}
		if byHash || byIndex || byName {
			r.calls[call] = true
		}
	}
	return r.knowsCaller(index, x)
}

// catchUp looks at the entries that the log gained, and returns its size.
func (r *eraser) catchUp(ctx context.Context) (size uint64, err error) {
	size, err = r.store.Size(ctx)
	if err == nil {
		err = r.excludeNamed(ctx, size)
	}
	return size, err
}

// excludeNamed reads the entries that it has not read yet, up to size. Blobs that an entry of no
// selected call names are no longer wanted.
func (r *eraser) excludeNamed(ctx context.Context, size uint64) error {
	err := r.each(ctx, r.read, size, func(_ uint64, x line) error {
		if call, ok := x.decision(); ok && r.calls[call] {
			return nil
		}
		x.blobs(func(d contracts.Digest, _ entry.Role) {
			if r.wanted[d] {
				r.wanted[d] = false
			}
		})
		return nil
	})
	r.read = size
	return err
}

// selects reports whether the selection names the session or the caller of a judgement, or the
// session of a message. If the call was refused and recorded in @refused, its inputs have the
// session that it asked for. If these are gone, nothing is left to erase. A stub has no caller.
func (r *eraser) selects(ctx context.Context, x line) (bool, error) {
	if x.Stub != nil {
		return r.sessions[x.Stub.Session], nil
	}
	st := x.Entry
	d := st.Judgement()
	if st.Message != nil || d == nil {
		return st.Message != nil && r.sessions[st.Session], nil
	}
	if r.callers[callerName{d.Caller.ID, d.Caller.Tenant}] || r.sessions[st.Session] {
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

// recorded returns the name as a kernel records it: by its digest if it is outside the limits, and
// only then. Otherwise a caller whose name is the digest of another caller's name would be erased
// with them.
func recorded(name string, legal bool) string {
	if legal {
		return name
	}
	return contracts.Hashed(name)
}

func isCallerWord(s string) bool { return s == "" || contracts.IsWords(s, contracts.MaxCallerID) }

// each calls f for the entries from ≤ index < to. It verifies no signatures: that is for those who
// receive packs.
func (r *eraser) each(ctx context.Context, from, to uint64, f func(index uint64, x line) error) error {
	var reader contracts.Reader
	index := from
	for e, err := range r.store.Entries(ctx, from, to) {
		if err != nil {
			return fmt.Errorf("entry %d: %w", index, err)
		}
		x, err := entry.Read(&reader, e)
		if err != nil {
			return fmt.Errorf("entry %d: %v", index, err)
		}
		if err := f(index, line{x}); err != nil {
			return err
		}
		index++
	}
	if index != to {
		return fmt.Errorf("the store gave %d entries of %d", index, to)
	}
	return nil
}
