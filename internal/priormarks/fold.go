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
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/guardian/past"
)

// A Fold is what the entries of a log so far bring to their sessions. It is not safe for concurrent
// use.
type Fold struct {
	steps    []step                        // by index
	parents  map[uint64][]contracts.Digest // by index
	sessions map[string]uint32             // numbers, from 0
	closed   map[string]bool
	stacks   map[contracts.Digest]uint32 // bases by PolicyHash
	byName   map[string]uint32           // bases by the digests of their documents
	bases    []base
	numbers  map[run]uint32 // from 1
	runs     []run
}

// A step is an entry: its session, or none, and the run that it is the receipt of, or 0.
type step struct{ session, run uint32 }

const none = ^uint32(0)

// A run is what brings marks: a tool, under a stack, and the signals in its output.
type run struct {
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
		parents:  map[uint64][]contracts.Digest{},
		sessions: map[string]uint32{},
		closed:   map[string]bool{},
		stacks:   map[contracts.Digest]uint32{},
		byName:   map[string]uint32{},
		numbers:  map[run]uint32{},
	}
}

// Marked reports whether the entries of a session have marks. Those of the kernel's own do not.
func Marked(session string) bool {
	return session != contracts.SessionKernel && session != contracts.SessionRefused
}

// Add folds the next entry. If it is the receipt of a run, d is its decision; otherwise d is nil.
func (f *Fold) Add(st *contracts.Statement, d *contracts.DecisionRecord) error {
	x := step{session: none}
	if Marked(st.Session) {
		n, ok := f.sessions[st.Session]
		if !ok {
			n = uint32(len(f.sessions))
			f.sessions[st.Session] = n
		}
		x.session = n
	}
	switch {
	case st.Policy != nil:
		f.addPolicy(st.Policy)
	case st.Close != nil:
		f.closed[st.Session] = true
	case d != nil:
		var err error
		if x.run, err = f.runOf(d, st.Receipt); err != nil {
			return err
		}
	}
	decisionAlone := d != nil && len(st.Parents) == 1 && st.Parents[0] == st.Receipt.DecisionHash
	if len(st.Parents) > 0 && !decisionAlone { // which is of the same session
		f.parents[uint64(len(f.steps))] = st.Parents
	}
	f.steps = append(f.steps, x)
	return nil
}

func (f *Fold) addPolicy(r *contracts.PolicyRecord) {
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

// runOf returns the number of the run that a receipt is of, or 0 if nothing of it was released.
func (f *Fold) runOf(d *contracts.DecisionRecord, r *contracts.Receipt) (uint32, error) {
	if r.Outcome == contracts.Withheld {
		return 0, nil
	}
	b, ok := f.stacks[d.PolicyHash]
	if !ok {
		return 0, errors.New("of a policy that the log has no entry of")
	}
	x := run{b, d.Tool, strings.Join(r.Signals, " ")}
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

// Brings returns what a receipt of a run brings to its session.
func (f *Fold) Brings(
	d *contracts.DecisionRecord, r *contracts.Receipt, read Reader,
) (taints bool, labels []string, err error) {
	n, err := f.runOf(d, r)
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

// Restore folds the marks of all entries into m. lookup returns the index of an entry, and open the
// state of a session that is not closed.
func (f *Fold) Restore(
	m *past.Marks, lookup func(contracts.Digest) (uint64, bool), open func(session string) *past.Session, read Reader,
) error {
	sessions := make([]*past.Session, len(f.sessions))
	for name, n := range f.sessions {
		if f.closed[name] {
			sessions[n] = new(past.Session) // it ends with this
		} else {
			sessions[n] = open(name)
		}
	}
	var parents []uint64
	for i, x := range f.steps {
		index := uint64(i)
		if x.session == none {
			continue
		}
		taints, labels, err := f.brings(x.run, read)
		if err != nil {
			return err
		}
		parents = parents[:0]
		for _, hash := range f.parents[index] {
			if p, ok := lookup(hash); ok {
				parents = append(parents, p)
			}
		}
		sessions[x.session].Mark(m, index, parents, taints, labels)
	}
	return nil
}
