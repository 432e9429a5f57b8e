package registry

import (
	"crypto/ed25519"
	"encoding/json"
	"slices"
	"testing"

	"github.com/gowebpki/jcs"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// A twin is a second, simple implementation of a trust state: maps and package json, written from
// the text of the format alone. It must accept the same events as State and reach the same states.
type twin struct {
	Frozen    bool
	Keys      map[contracts.Digest]*twinKey
	Revoked   map[contracts.Digest]bool
	Threshold int
	Version   uint64
}

type twinKey struct {
	ID      string   `json:"id"`
	Name    string   `json:"name"`
	Public  []byte   `json:"public"`
	Revoked *uint64  `json:"revoked,omitempty"`
	Role    string   `json:"role"`
	Roles   []string `json:"roles,omitempty"`
	Since   uint64   `json:"since"`
}

func twinOf(t testing.TB, s *State) *twin {
	t.Helper()
	var doc struct {
		Frozen    bool
		Keys      []*twinKey
		Revoked   []contracts.Digest
		Threshold int
		Version   uint64
	}
	require.NoError(t, json.Unmarshal(s.Canonical(), &doc))
	w := &twin{doc.Frozen, map[contracts.Digest]*twinKey{}, map[contracts.Digest]bool{}, doc.Threshold, doc.Version}
	for _, k := range doc.Keys {
		w.Keys[crypto.Sum(k.Public)] = k
	}
	for _, d := range doc.Revoked {
		w.Revoked[d] = true
	}
	return w
}

func (w *twin) digest(t testing.TB) contracts.Digest {
	t.Helper()
	keys, revoked := []*twinKey{}, []string{}
	for _, k := range w.Keys {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b *twinKey) int { return map[bool]int{true: -1, false: 1}[a.ID < b.ID] })
	for d := range w.Revoked {
		revoked = append(revoked, d.String())
	}
	slices.Sort(revoked)
	b, err := json.Marshal(map[string]any{"frozen": w.Frozen, "keys": keys, "revoked": revoked,
		"threshold": w.Threshold, "version": w.Version})
	require.NoError(t, err)
	b, err = jcs.Transform(b)
	require.NoError(t, err)
	return crypto.Sum(b)
}

func (k *twinKey) may(role string, index uint64) bool {
	return k != nil && k.Role == role && (k.Since == 0 || k.Since < index) && (k.Revoked == nil || index <= *k.Revoked)
}

// take applies the event and reports whether it is allowed.
func (w *twin) take(t testing.TB, r *contracts.TrustRecord, log string, index uint64) bool {
	t.Helper()
	e := &r.Event
	before := w.digest(t)
	old := *w
	old.Keys = map[contracts.Digest]*twinKey{}
	for id, k := range w.Keys {
		copied := *k
		old.Keys[id] = &copied
	}
	old.Revoked = map[contracts.Digest]bool{}
	for d := range w.Revoked {
		old.Revoked[d] = true
	}
	ok := e.Origin == log && e.Version == old.Version+1 && old.Threshold > 0 && w.become(e, index)
	kernels, logs := 0, 0
	for _, k := range w.Keys {
		if k.Revoked == nil && k.Role == "kernel" {
			kernels++
		}
		if k.Revoked == nil && k.Role == "log" {
			logs++
		}
	}
	changed := w.digest(t) != before
	if ok = ok && changed && kernels > 0 && logs > 0 && old.allowed(r, index); !ok {
		*w = old
		return false
	}
	w.Version++
	return true
}

func (w *twin) become(e *contracts.TrustEvent, index uint64) bool {
	add := func(id contracts.Digest, name, role string, roles []string, public, proof []byte) bool {
		if crypto.CheckPublicKey(public) != nil || crypto.Sum(public) != id ||
			!ed25519.Verify(public, e.ProofMessage(), proof) {
			return false
		}
		w.Keys[id] = &twinKey{id.String(), name, public, nil, role, roles, index}
		return true
	}
	switch e.Type {
	case "key":
		return w.Keys[*e.ID] == nil && slices.Contains([]string{"kernel", "log", "publisher", "approver", "delegator",
			"attestor", "freezer", "witness"}, e.Role) &&
			(len(e.Roles) == 0 || e.Role == "approver" || e.Role == "delegator") && add(*e.ID, e.Name, e.Role, e.Roles,
			e.Public, e.Proof)
	case "revoke":
		k := w.Keys[*e.ID]
		if k == nil || k.Role == "root" || k.Revoked != nil {
			return false
		}
		k.Revoked = &index
		return true
	case "root":
		if e.Threshold < 1 || e.Threshold > uint64(len(e.Keys)) {
			return false
		}
		listed := map[contracts.Digest]bool{}
		for i, x := range e.Keys {
			if i > 0 && e.Keys[i-1].ID.String() >= x.ID.String() {
				return false
			}
			listed[x.ID] = true
			k := w.Keys[x.ID]
			switch {
			case k == nil:
				if !add(x.ID, x.Name, "root", nil, x.Public, x.Proof) {
					return false
				}
			case k.Role != "root" || k.Revoked != nil || !ed25519.Verify(x.Public, e.ProofMessage(), x.Proof) ||
				crypto.Sum(x.Public) != x.ID:
				return false
			}
		}
		for id, k := range w.Keys {
			if k.Role == "root" && k.Revoked == nil && !listed[id] {
				k.Revoked = &index
			}
		}
		w.Threshold = int(e.Threshold)
		return true
	case "undelegate":
		if w.Revoked[*e.Delegation] {
			return false
		}
		w.Revoked[*e.Delegation] = true
		return true
	case "freeze", "unfreeze":
		w.Frozen = e.Type == "freeze"
		return true
	}
	return false
}

// allowed is asked of the state before the event.
func (w *twin) allowed(r *contracts.TrustRecord, index uint64) bool {
	e := &r.Event
	roots, fresh, alone := 0, 0, 0
	for i, s := range r.Signatures {
		if i > 0 && r.Signatures[i-1].KeyID.String() >= s.KeyID.String() {
			return false
		}
		k := w.Keys[s.KeyID]
		var public []byte
		if k.may("root", index) {
			public = k.Public
			roots++
		}
		if e.Type == "freeze" && (k.may("freezer", index) || k.may("root", index)) ||
			e.Type == "undelegate" && k.may("delegator", index) && k.Name == e.Delegator {
			public = k.Public
			alone++
		}
		for _, x := range e.Keys {
			if x.ID == s.KeyID {
				public = x.Public
				fresh++
			}
		}
		if public == nil || !ed25519.Verify(public, e.Message(), s.Sig) {
			return false
		}
	}
	switch e.Type {
	case "freeze":
		return alone > 0
	case "undelegate":
		return alone > 0 || roots >= w.Threshold
	case "root":
		return roots >= w.Threshold && fresh >= int(e.Threshold)
	}
	return roots >= w.Threshold
}
