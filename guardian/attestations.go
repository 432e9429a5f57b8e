package guardian

import (
	"bytes"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian/internal/program"
	"github.com/helmkernel/helm/guardian/internal/value"
	"github.com/helmkernel/helm/trust/registry"
)

// A word is an attestation that was presented, and opens.
type word struct {
	contracts.Attestation
	digest contracts.Digest
}

// attested reports whether an attestation is there, and lists in the record all that count for it.
// Envelopes that do not open are no attestations.
func (j *judging) attested(a *program.Attestation) (found bool) {
	if j.s.words == nil {
		j.s.words = make([]word, 0, len(j.in.Envelopes.Attestations))
		for _, e := range j.in.Envelopes.Attestations {
			if x, _, err := registry.OpenAttestation(j.trust, e); err == nil {
				j.s.words = append(j.s.words, word{x, e.Digest()})
			}
		}
	}
	for i := range j.s.words {
		if w := &j.s.words[i]; w.counts(a, j.in) {
			j.record.Attestations = insert(j.record.Attestations, w.digest)
			found = true
		}
	}
	return found
}

// counts reports whether the attestation is the one that is asked for. Like a document, it no
// longer holds at its expires.
func (w *word) counts(a *program.Attestation, in *contracts.Inputs) bool {
	switch {
	case w.Type != a.Type,
		w.Args != nil && *w.Args != in.ArgsHash,
		w.Session != "" && w.Session != in.Session,
		w.Expires != 0 && in.Time >= w.Expires,
		!value.MomentOf(w.Time).Within(a.Age, in.Time):
		return false
	}
	for _, b := range a.Bind {
		if v := value.Follow(in.Args, b.Here); !v.Exists() || !v.Equal(w.Claims.Get(b.Claim)) {
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
