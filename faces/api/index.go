package api

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/faces/auth"
	"github.com/helmkernel/helm/internal/entry"
	"github.com/helmkernel/helm/proofgraph"
)

// An index knows of each entry which session it is of, whose it is and what it is. It holds 8 bytes
// an entry, and some 140 a session. It is read from the store, as far as that goes, at each
// request.
type index struct {
	store proofgraph.Store
	turn  chan struct{} // has a place for the one that catches up

	mu  sync.RWMutex
	now view

	// Of the one that catches up.
	reader   contracts.Reader
	sessions map[string]uint32
	parties  []uint32 // by session: the owner of an entry that no caller is named in
	slots    map[slot]uint32
	owners   map[owner]uint32
	open     map[contracts.Digest]uint32 // ALLOWs without a receipt: the owner
}

func newIndex(s proofgraph.Store) *index {
	x := &index{store: s, turn: make(chan struct{}, 1), sessions: map[string]uint32{}, slots: map[slot]uint32{},
		owners: map[owner]uint32{}, open: map[contracts.Digest]uint32{}}
	x.ownerOf(&x.now, owner{kind: nobody})
	x.ownerOf(&x.now, owner{kind: byName})
	return x
}

// A view is a log as it was at some time. It does not change.
type view struct {
	entries  []mark
	slots    []slot
	sessions []string
	owners   []owner
}

// A slot is what many entries have in common.
type slot struct{ session, owner uint32 }

// An owner is whose an entry is.
type owner struct {
	kind       ownerKind
	id, tenant string
}

type ownerKind uint8

const (
	nobody ownerKind = iota // the kernel's own, or of callers of several tenants
	byName                  // of a session without a call so far: its name begins with its caller's own prefix
	oneCaller
	oneTenant // of several callers of it
)

// A mark is what the index knows of an entry: its slot, what it is, and the first bits of its hash.
type mark uint64

type what uint8

const (
	other what = iota
	allow
	denied  // a receipt that is a denial
	receipt // of a call that was allowed
	closing
)

const (
	hashBits = 28
	hashMask = 1<<hashBits - 1
)

func newMark(slot uint32, w what, hash contracts.Digest) mark {
	return mark(slot)<<32 | mark(w)<<hashBits | mark(bitsOf(hash))
}

func bitsOf(hash contracts.Digest) uint32 { return binary.BigEndian.Uint32(hash[:]) & hashMask }

func (m mark) slot() uint32 { return uint32(m >> 32) }
func (m mark) what() what   { return what(m>>hashBits) & 15 }
func (m mark) bits() uint32 { return uint32(m) & hashMask }
func (m mark) ended() bool  { return m.what() == receipt || m.what() == denied }

// catchUp returns the log as it is now.
func (x *index) catchUp(ctx context.Context) (view, error) {
	size, err := x.store.Size(ctx)
	if err != nil {
		return view{}, err
	}
	if v := x.view(); uint64(len(v.entries)) >= size {
		return v, nil
	}
	select {
	case x.turn <- struct{}{}:
	case <-ctx.Done():
		return view{}, ctx.Err()
	}
	defer func() { <-x.turn }()
	v := x.view()
	i := uint64(len(v.entries))
	if i >= size {
		return v, nil
	}
	defer func() { // also what was read before a reader left
		x.mu.Lock()
		x.now = v
		x.mu.Unlock()
	}()
	for e, err := range x.store.Entries(ctx, i, size) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return view{}, err
		}
		if err := x.add(&v, e); err != nil {
			return view{}, err
		}
	}
	if uint64(len(v.entries)) < size {
		return view{}, errors.New("api: the store has fewer entries than it says")
	}
	return v, nil
}

func (x *index) view() view {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.now
}

// add adds the next entry. An entry that cannot be read changes nothing.
func (x *index) add(v *view, e contracts.Entry) error {
	l, err := entry.Read(&x.reader, e)
	if err != nil {
		return err
	}
	in, _, _ := l.Place()
	session, known := x.sessions[in]
	if !known {
		session = uint32(len(v.sessions))
		name := strings.Clone(in)
		x.sessions[name] = session
		v.sessions = append(v.sessions, name)
		party := uint32(byName)
		if name == "" {
			party = uint32(nobody)
		}
		x.parties = append(x.parties, party)
	}
	read := x.said
	if l.Stub != nil {
		read = x.left
	}
	whose, w := read(v, session, l)
	v.entries = append(v.entries, newMark(x.slotOf(v, slot{session, whose}), w, l.Hash))
	return nil
}

// said returns whose an entry is, and what it is. The session is of its caller too then.
func (x *index) said(v *view, session uint32, l *entry.Line) (whose uint32, w what) {
	whose, w = x.parties[session], other
	r, d := l.Entry.Receipt, l.Entry.Judgement()
	switch {
	case d != nil:
		whose = x.ownerOf(v, owner{oneCaller, d.Caller.ID, d.Caller.Tenant})
		x.parties[session] = x.ownerOf(v, joined(v.owners[x.parties[session]], v.owners[whose]))
		if w = allow; r != nil {
			w = denied
		} else {
			x.open[l.Hash] = whose
		}
	case r != nil:
		w, whose = receipt, uint32(nobody)
		if of, ok := x.open[r.DecisionHash]; ok {
			whose = of
			delete(x.open, r.DecisionHash)
		}
	case l.Entry.Close != nil:
		w = closing
	}
	return whose, w
}

// left is said for a stub. It does not tell who called, so neither the call nor what else is in the
// session is anybody's.
func (x *index) left(v *view, session uint32, l *entry.Line) (whose uint32, w what) {
	whose = uint32(nobody)
	if r := l.Stub.Receipt; r != nil {
		if of := r.Decision; of < uint64(len(v.entries)) && v.entries[of].what() == allow {
			whose = v.slots[v.entries[of].slot()].owner
		}
		return whose, receipt
	}
	x.parties[session] = whose
	return whose, allow // not open: a receipt that is whole is then nobody's too
}

// joined returns whose a session is in which two have called.
func joined(a, b owner) owner {
	switch {
	case a.kind == byName || a == b:
		return b
	case a.tenant != "" && a.tenant == b.tenant:
		return owner{kind: oneTenant, tenant: a.tenant}
	}
	return owner{kind: nobody}
}

func (x *index) ownerOf(v *view, o owner) uint32 {
	n, ok := x.owners[o]
	if !ok {
		n = uint32(len(v.owners))
		o.id, o.tenant = strings.Clone(o.id), strings.Clone(o.tenant)
		x.owners[o] = n
		v.owners = append(v.owners, o)
	}
	return n
}

func (x *index) slotOf(v *view, s slot) uint32 {
	n, ok := x.slots[s]
	if !ok {
		n = uint32(len(v.slots))
		x.slots[s] = n
		v.slots = append(v.slots, s)
	}
	return n
}

// A sight is what an asker may read of a view.
type sight struct {
	view
	all   bool
	slots []bool // that may be read; nil if all
}

// sees returns what an asker may read.
func (v view) sees(who auth.Identity) sight {
	if who.May(auth.ReadAll) {
		return sight{v, true, nil}
	}
	c := who.Caller
	prefix := strings.TrimSuffix(auth.SessionName(c, "x"), "x")
	mine := make([]bool, len(v.owners))
	for i, o := range v.owners {
		switch o.kind {
		case oneCaller:
			mine[i] = c.Tenant != "" && o.tenant == c.Tenant || o.tenant == "" && c.Tenant == "" && o.id == c.ID
		case oneTenant:
			mine[i] = c.Tenant != "" && o.tenant == c.Tenant
		}
	}
	s := sight{v, false, make([]bool, len(v.slots))}
	for i, of := range v.slots {
		s.slots[i] = mine[of.owner] || of.owner == uint32(byName) && who.May(auth.Read) &&
			strings.HasPrefix(v.sessions[of.session], prefix)
	}
	return s
}

// may reports whether there is an entry with that index, for the asker.
func (s *sight) may(i uint64) bool {
	return i < uint64(len(s.entries)) && (s.all || s.slots[s.entries[i].slot()])
}

// sessionOf returns the number of the session of an entry.
func (s *sight) sessionOf(i uint64) uint32 { return s.view.slots[s.entries[i].slot()].session }

// count returns how many entries that may be read are in a list.
func (s *sight) count(in func(i uint64) bool) (n uint64) {
	for i := range uint64(len(s.entries)) {
		if s.may(i) && in(i) {
			n++
		}
	}
	return n
}

// session returns the number of a session of which the asker may read something.
func (s *sight) session(name string) (uint32, bool) {
	for i := range uint64(len(s.entries)) {
		if s.may(i) && s.sessions[s.sessionOf(i)] == name {
			return s.sessionOf(i), true
		}
	}
	return 0, false
}

// find returns the entry with a name, which is an index, a hash, or session/seq. A name that is
// none is malformed.
func (x *index) find(ctx context.Context, s *sight, name string) (i uint64, found, malformed bool, err error) {
	if hash, err := crypto.ParseDigest(name); err == nil {
		i, found, err := x.byHash(ctx, s, hash, uint64(len(s.entries)))
		return i, found, false, err
	}
	slash := strings.LastIndexByte(name, '/')
	n, bad := strconv.ParseUint(name[slash+1:], 10, 64)
	if bad != nil || strconv.FormatUint(n, 10) != name[slash+1:] {
		return 0, false, true, nil
	}
	if slash < 0 {
		return n, s.may(n), false, nil
	}
	session, ok := s.session(name[:slash])
	if !ok {
		return 0, false, false, nil
	}
	for i := range uint64(len(s.entries)) {
		if s.sessionOf(i) != session {
			continue
		}
		if n == 0 {
			return i, s.may(i), false, nil
		}
		n--
	}
	return 0, false, false, nil
}

// byHash returns the last entry before an index that has a hash, if it may be read.
func (x *index) byHash(ctx context.Context, s *sight, hash contracts.Digest, before uint64) (uint64, bool, error) {
	for i := before; i > 0; {
		if i--; s.entries[i].bits() != bitsOf(hash) || !s.may(i) {
			continue
		}
		e, err := x.entry(ctx, i)
		if err != nil {
			return 0, false, err
		}
		leaf, err := new(contracts.Reader).Leaf(e)
		if err != nil {
			return 0, false, err
		}
		if leaf == hash {
			return i, true, nil
		}
	}
	return 0, false, nil
}

// entry reads one entry.
func (x *index) entry(ctx context.Context, i uint64) (contracts.Entry, error) {
	for e, err := range x.store.Entries(ctx, i, i+1) {
		return e, err
	}
	return nil, errors.New("api: the store lacks an entry that it had")
}

// near is the largest gap that is read rather than skipped.
const near = 16

// upwards returns a list in log order, in which it is read best.
func upwards(list []uint64) []uint64 { return slices.Sorted(slices.Values(list)) }

// mostBytes is about how many bytes of entries are in an answer.
const mostBytes = 4 << 20

// first is each for the first entries of a list, in log order or against it: for as many as an
// answer may have, about. It calls f for some of them in log order, then for the next, and returns
// how many it has read.
func (x *index) first(
	ctx context.Context, list []uint64, f func(i uint64, e contracts.Entry, l *entry.Line) error,
) (n int, err error) {
	for bytes := 0; n < len(list) && bytes < mostBytes; {
		part := list[n:min(n+64, len(list))]
		err := x.each(ctx, upwards(part), func(i uint64, e contracts.Entry, l *entry.Line) error {
			bytes += len(e)
			return f(i, e, l)
		})
		if err != nil {
			return n, err
		}
		n += len(part)
	}
	return n, nil
}

// inOrder returns what was read of a list, in the order of the list.
func inOrder[T any](found []T, list []uint64, index func(T) uint64) []T {
	slices.SortFunc(found, func(a, b T) int {
		if len(list) > 1 && list[0] > list[1] {
			a, b = b, a
		}
		return cmp.Compare(index(a), index(b))
	})
	return found
}

// each reads entries, and calls f with what they say, one for one.
func (x *index) each(
	ctx context.Context, list []uint64, f func(i uint64, e contracts.Entry, l *entry.Line) error,
) error {
	for len(list) > 0 {
		n := 1
		for n < len(list) && list[n] > list[n-1] && list[n]-list[n-1] <= near {
			n++
		}
		var r contracts.Reader
		i, want := list[0], list[:n]
		for e, err := range x.store.Entries(ctx, list[0], list[n-1]+1) {
			if err != nil {
				return err
			}
			if i == want[0] {
				l, err := entry.Read(&r, e)
				if err != nil {
					return err
				}
				if err := f(i, e, l); err != nil {
					return err
				}
				want = want[1:]
			}
			if i++; len(want) == 0 {
				break
			}
		}
		if len(want) > 0 {
			return errors.New("api: the store lacks entries that it had")
		}
		list = list[n:]
	}
	return nil
}
