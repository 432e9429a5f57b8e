// Package priormarks finds the taint and the labels of all entries of a log that a kernel
// continues.
//
// What a run brings to its session is in the documents of the policy that permitted it, which are
// blobs. A store may not be ready for reading blobs while its entries are read. So [Fold.Add] notes
// a few bytes of each entry, and [Fold.Restore] folds the marks when all entries were read.
package priormarks

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/guardian/past"
)

// A Fold is what the entries of a log so far bring to their sessions. It is not safe for concurrent
// use.
type Fold struct {
	base     uint64              // index of the first step
	steps    []step              // by index, less base
	parents  map[uint64][]uint64 // by index
	sessions map[string]uint32   // numbers, from 0
	closed   map[string]bool
	stacks   map[contracts.Digest]uint32 // bases by PolicyHash
	byName   map[string]uint32           // bases by the digests of their documents
	bases    []base
	numbers  map[released]uint32 // from 1
	runs     []released
	changes  Changes
}

// A step is an entry: its session, or none, and the run that it is the receipt of, or 0.
type step struct{ session, run uint32 }

const none = ^uint32(0)

// A released is what brings marks: a tool, under a stack, and the signals in its output.
type released struct {
	base          uint32
	tool, signals string
}

// A base is the part of a stack that declares marks. Overlays declare none, so stacks that differ
// in these alone have the same base.
type base struct {
	documents []contracts.Digest
	declared  *guardian.DeclaredMarks // nil until it is read
}

// New returns the fold of no entries.
func New() *Fold {
	return &Fold{
		parents:  map[uint64][]uint64{},
		sessions: map[string]uint32{},
		closed:   map[string]bool{},
		stacks:   map[contracts.Digest]uint32{},
		byName:   map[string]uint32{},
		numbers:  map[released]uint32{},
		changes:  Changes{},
	}
}

// Marked reports whether the entries of a session have marks. Those of the kernel's own do not.
func Marked(session string) bool {
	return session != contracts.SessionKernel && session != contracts.SessionRefused
}

// A Run is a call of which something was released, as its receipt and its decision tell.
type Run struct {
	Policy  contracts.Digest // PolicyHash of the decision
	Tool    string
	Signals []string
}

// RunOf returns the run that a receipt is of, or nil if nothing of it was released.
func RunOf(r *contracts.Receipt, tool string, policy contracts.Digest) *Run {
	if r.Outcome == contracts.Withheld {
		return nil
	}
	return &Run{policy, tool, r.Signals}
}

// Add folds the next entry. parents are the indexes of its parents, of which the decision of a
// receipt may be left out, since it is of the same session. r is the run of a receipt; it is nil
// for other entries.
func (f *Fold) Add(session string, parents []uint64, r *Run) error {
	x := step{session: none}
	if Marked(session) {
		n, ok := f.sessions[session]
		if !ok {
			n = uint32(len(f.sessions))
			f.sessions[session] = n
		}
		x.session = n
	}
	var err error
	if x.run, err = f.number(r); err != nil {
		return err
	}
	if len(parents) > 0 {
		f.parents[f.base+uint64(len(f.steps))] = slices.Clone(parents)
	}
	f.steps = append(f.steps, x)
	return nil
}

// Close notes that the entry added last closed its session.
func (f *Fold) Close(session string) { f.closed[session] = true }

// Policy notes the policy of a policy entry.
func (f *Fold) Policy(r *contracts.PolicyRecord) {
	var b base
	var name []byte
	for _, d := range r.Documents {
		if d.Layer != "P2" {
			b.documents = append(b.documents, d.Digest)
			name = append(name, d.Digest[:]...)
		}
	}
	n, ok := f.byName[string(name)]
	if !ok {
		n = uint32(len(f.bases))
		f.byName[string(name)] = n
		f.bases = append(f.bases, b)
	}
	f.stacks[r.Policy] = n
}

// number returns the number of a run, or 0 of none.
func (f *Fold) number(r *Run) (uint32, error) {
	if r == nil {
		return 0, nil
	}
	b, ok := f.stacks[r.Policy]
	if !ok {
		return 0, errors.New("of a policy that the log has no entry of")
	}
	x := released{b, r.Tool, strings.Join(r.Signals, " ")}
	n := f.numbers[x]
	if n == 0 {
		f.runs = append(f.runs, x)
		n = uint32(len(f.runs))
		f.numbers[x] = n
	}
	return n, nil
}

// A Reader returns the blob with that digest, unchecked.
type Reader func(contracts.Digest) ([]byte, error)

// Brings returns what the receipt of a run brings to its session.
func (f *Fold) Brings(r *Run, read Reader) (taints bool, labels []string, err error) {
	n, err := f.number(r)
	if err != nil {
		return false, nil, err
	}
	return f.brings(n, read)
}

func (f *Fold) brings(n uint32, read Reader) (taints bool, labels []string, err error) {
	if n == 0 {
		return false, nil, nil
	}
	x := f.runs[n-1]
	declared, err := f.bases[x.base].read(read)
	if err != nil {
		return false, nil, err
	}
	var signals []string
	if x.signals != "" {
		signals = strings.Split(x.signals, " ")
	}
	taints, labels = declared.Marks(x.tool, signals)
	return taints, labels, nil
}

// read returns what the documents of a base declare.
func (b *base) read(read Reader) (*guardian.DeclaredMarks, error) {
	if b.declared != nil {
		return b.declared, nil
	}
	var documents [][]byte
	for _, d := range b.documents {
		text, err := read(d)
		if err == nil && crypto.Sum(text) != d {
			err = errors.New("the store has other bytes")
		}
		if err != nil {
			return nil, fmt.Errorf("the document %s of an earlier policy: %w", d, err)
		}
		documents = append(documents, text)
	}
	declared, err := guardian.ReadMarks(documents...)
	if err != nil {
		return nil, fmt.Errorf("taint and labels of an earlier policy: %w", err)
	}
	b.declared = declared
	return declared, nil
}

// Restore folds the marks of all entries that were added into m. open returns the state of a
// session that is not closed. sessionOf returns the session of an entry before them, which one of
// them has as a parent.
func (f *Fold) Restore(
	m *past.Marks, open func(session string) *past.Session, sessionOf func(uint64) string, read Reader,
) error {
	names := make([]string, len(f.sessions))
	sessions := make([]*past.Session, len(f.sessions))
	for name, n := range f.sessions {
		names[n] = name
		if f.closed[name] {
			sessions[n] = new(past.Session) // it ends with this
		} else {
			sessions[n] = open(name)
		}
		if !sessions[n].Resume(m, f.changes.At(name, f.base)) {
			return errMark
		}
	}
	for i, x := range f.steps {
		if x.session == none {
			continue
		}
		index := f.base + uint64(i)
		parents := f.parents[index]
		for _, p := range parents {
			if p >= f.base {
				continue
			}
			if !m.Put(p, f.changes.At(sessionOf(p), p)) {
				return errMark
			}
		}
		taints, labels, err := f.brings(x.run, read)
		if err != nil {
			return err
		}
		s := sessions[x.session]
		before := s.Marks(m, nil)
		s.Mark(m, index, parents, taints, labels)
		if now := s.Marks(m, nil); now != before {
			f.changes[names[x.session]] = append(f.changes[names[x.session]], change{index, now})
		}
	}
	return nil
}
