package conformance

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/proofgraph"
)

// A forger has the kernel's key and the log's: what they write is signed as it should be, and is
// refused for what it says.
type forger struct {
	*world
	list  []*contracts.Statement
	was   []contracts.Digest // hashes of the entries that the statements were read from
	lies  map[int]func(st *contracts.Statement)
	blobs map[contracts.Digest][]byte
	size  int // of the checkpoint; 0: that of the log
}

// forging reads a log.
func forging(w *world) *forger {
	f := &forger{world: w, lies: map[int]func(*contracts.Statement){}, blobs: map[contracts.Digest][]byte{}}
	for _, e := range w.entries() {
		var reader contracts.Reader
		sealed, err := reader.Open(e)
		w.must(err, "an entry of the log")
		st, err := sealed.Statement()
		w.must(err, "an entry of the log")
		f.list, f.was = append(f.list, st), append(f.was, e.Hash())
	}
	return f
}

// lie changes a statement just before it is signed. A negative index counts from the end.
func (f *forger) lie(at int, change func(st *contracts.Statement)) {
	if at < 0 {
		at += len(f.list)
	}
	f.lies[at] = change
}

// remove takes an entry out.
func (f *forger) remove(at int) {
	f.list, f.was = slices.Delete(f.list, at, at+1), slices.Delete(f.was, at, at+1)
}

// store signs all statements, with the links that follow from the new bytes, and a checkpoint.
func (f *forger) store() *forgedStore {
	s := &forgedStore{Store: f.world.store.Store, blobs: f.blobs}
	now := map[contracts.Digest]contracts.Digest{}
	link := func(d *contracts.Digest) {
		if to, ok := now[*d]; ok {
			*d = to
		}
	}
	for i, st := range f.list {
		link(&st.Prev)
		for j := range st.Parents {
			link(&st.Parents[j])
		}
		slices.SortFunc(st.Parents, func(a, b contracts.Digest) int { return bytes.Compare(a[:], b[:]) })
		if st.Receipt != nil {
			link(&st.Receipt.DecisionHash)
		}
		if st.Close != nil {
			link(&st.Close.Last)
		}
		if lie := f.lies[i]; lie != nil {
			lie(st)
		}
		e := f.sign(st, "kernel")
		now[f.was[i]] = e.Hash()
		s.entries = append(s.entries, e)
	}
	size := f.size
	if size == 0 {
		size = len(s.entries)
	}
	s.note = f.checkpoint(s.entries[:size])
	return s
}

// sign is the entry of a statement.
func (f *forger) sign(st *contracts.Statement, by string) contracts.Entry {
	payload := st.Append(nil)
	sig, err := crypto.Sign(keyOf(by), crypto.AppendPAE(nil, contracts.PayloadType, payload))
	f.must(err, "signing an entry")
	return crypto.AppendEnvelope(nil, contracts.PayloadType, payload, st.Key, sig)
}

// checkpoint is the signed note of a log of these entries.
func (f *forger) checkpoint(entries []contracts.Entry) []byte {
	leaves := make([]contracts.Digest, len(entries))
	for i, e := range entries {
		leaves[i] = e.Hash()
	}
	root := rootOf(leaves)
	text := fmt.Sprintf("%s\n%d\n%s\n", origin, len(entries), base64.StdEncoding.EncodeToString(root[:]))
	sig, err := crypto.Sign(keyOf("log"), []byte(text))
	f.must(err, "signing a checkpoint")
	parts := strings.Split(strings.TrimPrefix(proofgraph.VerifierKey(origin, publicOf("log")), origin), "+")
	id, err := hex.DecodeString(parts[1])
	f.must(err, "the hash of the log's key")
	return []byte(text + "\n— " + origin + " " + base64.StdEncoding.EncodeToString(append(id, sig...)) + "\n")
}

// rootOf is the definition of RFC 6962, section 2.1, over leaf hashes.
func rootOf(leaves []contracts.Digest) contracts.Digest {
	switch len(leaves) {
	case 0:
		return crypto.Sum(nil)
	case 1:
		return leaves[0]
	}
	k := 1
	for 2*k < len(leaves) {
		k *= 2
	}
	return crypto.NodeHash(rootOf(leaves[:k]), rootOf(leaves[k:]))
}

// A forgedStore is a log that no kernel wrote.
type forgedStore struct {
	proofgraph.Store // for the blobs that were not forged
	entries          []contracts.Entry
	blobs            map[contracts.Digest][]byte
	note             []byte
}

// Append implements [proofgraph.Store].
func (*forgedStore) Append(context.Context, proofgraph.Batch) error { return errors.New("read only") }

// Size implements [proofgraph.Store].
func (s *forgedStore) Size(context.Context) (uint64, error) { return uint64(len(s.entries)), nil }

// Entries implements [proofgraph.Store].
func (s *forgedStore) Entries(_ context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
	return func(yield func(contracts.Entry, error) bool) {
		for _, e := range s.entries[from:to] {
			if !yield(bytes.Clone(e), nil) {
				return
			}
		}
	}
}

// Blob implements [proofgraph.Store].
func (s *forgedStore) Blob(ctx context.Context, d contracts.Digest) ([]byte, error) {
	if b, ok := s.blobs[d]; ok {
		return bytes.Clone(b), nil
	}
	return s.Store.Blob(ctx, d)
}

// Checkpoint implements [proofgraph.Store].
func (s *forgedStore) Checkpoint(context.Context) ([]byte, error) { return bytes.Clone(s.note), nil }

// examined has a forged log verified.
func (f *forger) examined(s *forgedStore) (evidence.Report, error) {
	return f.verifyStore(s, evidence.Options{Trust: f.initial(), Origin: origin})
}

// honest holds a forged log without a lie to being good: or else finding a lie would show nothing.
func (f *forger) honest() {
	report, err := f.examined(f.store())
	f.must(err, "a log that was signed again without a change")
	f.check(report.Success(evidence.Logged), "a log that was signed again without a change is %s", report.Level)
}

// found holds the verifier to finding a fault, by one of these checks.
func (f *forger) found(s *forgedStore, checks ...error) {
	report, err := f.examined(s)
	f.check(
		err != nil && report.Level == evidence.Invalid && !report.Success(evidence.Intact),
		"not found: the log is %s",
		report.Level,
	)
	for _, check := range checks {
		if errors.Is(err, check) {
			return
		}
	}
	f.fail("found by another check: %v", err)
}
