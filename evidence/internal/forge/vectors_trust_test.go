package forge

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/vectorfile"
)

const eventType = "application/vnd.helm.trust-event+json"

// A ruling is a list of trust events on the state of State, written by their JSON.
type ruling struct {
	testing.TB
	version int
	index   int
	lines   []byte
}

// event returns an event of a type, the next of the state.
func (r *ruling) event(typ string, fields Object) Object {
	e := Object{"origin": Origin, "type": typ, "version": r.version + 1}
	for k, v := range fields {
		e[k] = v
	}
	return e
}

// newKey returns the fields of a key, which the event proves later.
func newKey(t testing.TB, seed byte, name string) Object {
	return Object{"id": keyHex(t, seed), "name": name, "public": string(crypto.AppendBase64(nil, Public(t, seed)))}
}

// keyEvent adds a key.
func (r *ruling) keyEvent(seed byte, name, role string, roles ...any) Object {
	e := r.event("key", newKey(r, seed, name))
	e["role"] = role
	if len(roles) > 0 {
		e["roles"] = roles
	}
	e["proof"] = r.sign(seed, e)
	return e
}

// rootEvent replaces the root keys.
func (r *ruling) rootEvent(threshold int, seeds ...byte) Object {
	keys := []any{}
	for _, s := range seeds {
		keys = append(keys, newKey(r, s, fmt.Sprint("root ", s)))
	}
	slices.SortFunc(keys, func(a, b any) int {
		return strings.Compare(a.(Object)["id"].(string), b.(Object)["id"].(string))
	})
	e := r.event("root", Object{"keys": keys, "threshold": threshold})
	proofs := map[string]string{}
	for _, s := range seeds {
		proofs[keyHex(r, s)] = r.sign(s, e)
	}
	for _, k := range keys {
		k.(Object)["proof"] = proofs[k.(Object)["id"].(string)]
	}
	return e
}

// sign returns a signature over an event.
func (r *ruling) sign(seed byte, e Object) string {
	return string(crypto.AppendBase64(nil, signWith(r, seed, crypto.AppendPAE(nil, eventType, canonical(e)))))
}

// signed returns the signatures of an event, in order.
func (r *ruling) signed(e Object, seeds ...byte) []any {
	list := []any{}
	for _, s := range seeds {
		list = append(list, Object{"keyid": keyHex(r, s), "sig": r.sign(s, e)})
	}
	slices.SortFunc(list, func(a, b any) int {
		return strings.Compare(a.(Object)["keyid"].(string), b.(Object)["keyid"].(string))
	})
	return list
}

// put adds an event with signatures.
func (r *ruling) put(e Object, signatures []any) {
	envelope := Object{"payload": string(crypto.AppendBase64(nil, canonical(e))), "payloadType": eventType,
		"signatures": signatures}
	r.index += 3
	r.version++
	r.lines = append(append(r.lines, canonical(Object{"envelope": envelope, "index": r.index})...), '\n')
}

// by adds an event that these sign.
func (r *ruling) by(e Object, seeds ...byte) { r.put(e, r.signed(e, seeds...)) }

// trustVectors are lists of events: all of the first are legal, and of each other one the last is
// not, or it is at the edge.
func trustVectors(t *testing.T) (cases []vectorfile.Case) {
	state := State(t)
	add := func(about string, story func(r *ruling)) {
		r := &ruling{TB: t, version: int(state.Version())}
		story(r)
		cases = append(cases, vectorfile.Case{About: about, Files: map[string][]byte{
			"state.json": state.Canonical(), "log.json": append(canonical(Object{"origin": Origin}), '\n'),
			"events.jsonl": r.lines,
		}})
	}
	why := Object{"why": "an incident"}
	revoke := func(r *ruling, seed byte) Object {
		return r.event("revoke", Object{"id": keyHex(t, seed), "why": "rotation"})
	}
	add("no event", func(*ruling) {})
	add("every type of event", func(r *ruling) {
		r.by(r.keyEvent(seedK2, "kernel 2", "kernel"), seedR1, seedR2)
		r.by(revoke(r, SeedK1), seedR1, seedR3)
		r.by(r.keyEvent(seedA2, "zoe", "approver", "lead", "owner"), seedR2, seedR3)
		r.by(r.event("freeze", why), seedF)
		r.by(r.event("unfreeze", why), seedR1, seedR2, seedR3)
		r.by(r.event("undelegate", Object{"delegation": ones64, "delegator": "ada"}), SeedD)
		r.by(r.event("undelegate", Object{"delegation": zeros64, "delegator": "ada"}), seedR1, seedR2)
		r.by(r.rootEvent(2, seedR1, seedR2, seedR4), seedR1, seedR2, seedR4)
		r.by(r.rootEvent(1, seedR4), seedR1, seedR4)
		r.by(r.event("freeze", why), seedR4)
	})
	good := func(r *ruling) Object { return r.keyEvent(seedK2, "kernel 2", "kernel") }
	add("a log key that takes over", func(r *ruling) {
		r.by(r.keyEvent(seedL2, "log 2", "log"), seedR1, seedR2)
		r.by(revoke(r, SeedL), seedR1, seedR2)
	})
	add("one root of two", func(r *ruling) { r.by(good(r), seedR1) })
	add("a root and a stranger", func(r *ruling) { r.by(good(r), seedR1, SeedX) })
	add("enough roots and a stranger", func(r *ruling) { r.by(good(r), seedR1, seedR2, SeedX) })
	add("a root and a freezer", func(r *ruling) { r.by(good(r), seedR1, seedF) })
	add("a root twice", func(r *ruling) { e := good(r); s := r.signed(e, seedR1, seedR1); r.put(e, s) })
	add("signatures out of order", func(r *ruling) {
		e := good(r)
		s := r.signed(e, seedR1, seedR2)
		slices.Reverse(s)
		r.put(e, s)
	})
	add("signatures over another event", func(r *ruling) {
		e := good(r)
		s := r.signed(e, seedR1, seedR2)
		e["name"] = "kernel 3"
		r.put(e, s)
	})
	add("no proof by the new key", func(r *ruling) {
		e := good(r)
		delete(e, "proof")
		e["proof"] = r.sign(SeedX, e)
		r.by(e, seedR1, seedR2)
	})
	add("a proof of another event", func(r *ruling) {
		e := good(r)
		e["name"] = "kernel 3"
		r.by(e, seedR1, seedR2)
	})
	add("an id of another key", func(r *ruling) {
		e := r.event("key", newKey(t, seedK2, "kernel 2"))
		e["role"], e["id"] = "kernel", ones64
		e["proof"] = r.sign(seedK2, e)
		r.by(e, seedR1, seedR2)
	})
	add("a key of small order", func(r *ruling) {
		point := make([]byte, 32)
		e := r.event("key", Object{"id": crypto.Sum(point).String(), "name": "x", "role": "kernel",
			"public": string(crypto.AppendBase64(nil, point)), "proof": string(crypto.AppendBase64(nil, make([]byte, 64)))})
		r.by(e, seedR1, seedR2)
	})
	add("a key that is known", func(r *ruling) { r.by(r.keyEvent(SeedA, "eve", "attestor"), seedR1, seedR2) })
	add("a revoked key comes back", func(r *ruling) {
		r.by(revoke(r, SeedB), seedR1, seedR2)
		r.by(r.keyEvent(SeedB, "scanner", "attestor"), seedR1, seedR2)
	})
	add("a root key by an event of type key", func(r *ruling) {
		r.by(r.keyEvent(seedR4, "root 4", "root"), seedR1, seedR2)
	})
	add("an unknown role", func(r *ruling) { r.by(r.keyEvent(seedK2, "x", "janitor"), seedR1, seedR2) })
	add("roles of a kernel key", func(r *ruling) { r.by(r.keyEvent(seedK2, "x", "kernel", "lead"), seedR1, seedR2) })
	add("another log's event", func(r *ruling) {
		e := r.event("freeze", why)
		e["origin"] = "example.test/other"
		r.by(e, seedF)
	})
	add("a version passed over", func(r *ruling) {
		r.version++
		r.by(r.event("freeze", why), seedF)
	})
	add("an event again", func(r *ruling) {
		r.by(good(r), seedR1, seedR2)
		r.version--
		r.by(good(r), seedR1, seedR2)
	})
	add("the last kernel key", func(r *ruling) { r.by(revoke(r, SeedK1), seedR1, seedR2) })
	add("the last log key", func(r *ruling) { r.by(revoke(r, SeedL), seedR1, seedR2) })
	add("a root key revoked", func(r *ruling) { r.by(revoke(r, seedR3), seedR1, seedR2) })
	add("a key that nobody knows revoked", func(r *ruling) { r.by(revoke(r, SeedX), seedR1, seedR2) })
	add("a key revoked twice", func(r *ruling) {
		r.by(revoke(r, SeedB), seedR1, seedR2)
		r.by(revoke(r, SeedB), seedR1, seedR2)
	})
	add("frozen by an approver", func(r *ruling) { r.by(r.event("freeze", why), SeedA) })
	add("frozen twice", func(r *ruling) {
		r.by(r.event("freeze", why), seedF)
		r.by(r.event("freeze", why), seedF)
	})
	add("unfrozen by the freezer", func(r *ruling) {
		r.by(r.event("freeze", why), seedF)
		r.by(r.event("unfreeze", why), seedF)
	})
	add("unfrozen and not frozen", func(r *ruling) { r.by(r.event("unfreeze", why), seedR1, seedR2) })
	add("a freezer that was revoked", func(r *ruling) {
		r.by(revoke(r, seedF), seedR1, seedR2)
		r.by(r.event("freeze", why), seedF)
	})
	add("another's delegation", func(r *ruling) {
		r.by(r.event("undelegate", Object{"delegation": ones64, "delegator": "bob"}), SeedD)
	})
	add("a delegation ended twice", func(r *ruling) {
		r.by(r.event("undelegate", Object{"delegation": ones64, "delegator": "ada"}), SeedD)
		r.by(r.event("undelegate", Object{"delegation": ones64, "delegator": "ada"}), SeedD)
	})
	add("roots that the old ones did not sign", func(r *ruling) { r.by(r.rootEvent(1, seedR4), seedR1, seedR4) })
	add("roots that the new ones did not sign", func(r *ruling) {
		r.by(r.rootEvent(2, seedR1, seedR4), seedR1, seedR2)
	})
	add("a threshold above the number of roots", func(r *ruling) {
		r.by(r.rootEvent(3, seedR1, seedR2), seedR1, seedR2)
	})
	add("roots by those that were left out", func(r *ruling) {
		r.by(r.rootEvent(1, seedR4), seedR1, seedR2, seedR4)
		r.by(good(r), seedR1, seedR2)
	})
	add("a root that was left out comes back", func(r *ruling) {
		r.by(r.rootEvent(1, seedR4), seedR1, seedR2, seedR4)
		r.by(r.rootEvent(1, seedR1, seedR4), seedR1, seedR4)
	})
	add("a field too many", func(r *ruling) {
		e := r.event("freeze", why)
		e["note"] = "x"
		r.by(e, seedF)
	})
	add("no reason why", func(r *ruling) { r.by(r.event("freeze", nil), seedF) })
	add("a reason of no letters", func(r *ruling) { r.by(r.event("freeze", Object{"why": ""}), seedF) })
	add("a name with a control character", func(r *ruling) {
		r.by(r.keyEvent(seedK2, "a\u0001", "kernel"), seedR1, seedR2)
	})
	add("a version of no integer", func(r *ruling) {
		e := r.event("freeze", why)
		e["version"] = json.Number("2.5")
		r.by(e, seedF)
	})
	add("roles twice", func(r *ruling) { r.by(r.keyEvent(seedA2, "zoe", "approver", "lead", "lead"), seedR1, seedR2) })
	return cases
}
