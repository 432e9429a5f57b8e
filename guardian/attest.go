package guardian

import (
	"bytes"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian/internal/value"
	"github.com/helmkernel/helm/trust/registry"
)

// A word is an attestation that was presented and opened.
type word struct {
	contracts.Attestation
	digest contracts.Digest
}

// attested tells whether an attestation is there, and lists all that count for it. Those that do not open are no attestations.
func (j *judging) attested(s *scratch, a *attestation, in *contracts.Inputs) (found bool) {
	if s.words == nil {
		s.words = make([]word, 0, len(in.Envelopes.Attestations))
		for _, e := range in.Envelopes.Attestations {
			if x, _, err := registry.OpenAttestation(j.trust, e); err == nil {
				s.words = append(s.words, word{x, e.Digest()})
			}
		}
	}
	for i := range s.words {
		if w := &s.words[i]; a.counts(w, in) {
			j.record.Attestations = insert(j.record.Attestations, w.digest)
			found = true
		}
	}
	return found
}

// counts tells whether a word is the one that is asked for. It holds as documents do: until it expires, and then no more.
func (a *attestation) counts(w *word, in *contracts.Inputs) bool {
	switch {
	case w.Type != a.kind,
		w.Args != nil && *w.Args != in.ArgsHash,
		w.Session != "" && w.Session != in.Session,
		w.Expires != 0 && in.Time >= w.Expires,
		!value.MomentOf(w.Time).Within(a.age, in.Time):
		return false
	}
	for _, b := range a.bind {
		if v := value.Follow(in.Args, b.here); !v.Exists() || !v.Equal(w.Claims.Get(b.claim)) {
			return false
		}
	}
	return true
}

// insert keeps a list of digests sorted, each once.
func insert(list []contracts.Digest, d contracts.Digest) []contracts.Digest {
	at, ok := slices.BinarySearchFunc(list, d, func(a, b contracts.Digest) int { return bytes.Compare(a[:], b[:]) })
	if ok {
		return list
	}
	return slices.Insert(list, at, d)
}
