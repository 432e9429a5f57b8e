package registry

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

func value(t testing.TB, text string) crypto.Value {
	t.Helper()
	var tree crypto.Tree
	require.NoError(t, tree.Parse([]byte(text), crypto.Limits{Bytes: len(text), Depth: crypto.MaxDepth}))
	return tree.Root()
}

func request() contracts.ApprovalRequest {
	return contracts.ApprovalRequest{ArgsHash: crypto.Sum([]byte("args")), Caller: contracts.Caller{ID: "alice"},
		Expires: 1767225900000, Nonce: strings.Repeat("0f", 16),
		NotBefore: 1767225600000, PolicyHash: crypto.Sum([]byte("policy")), Quorum: 1, Roles: []string{"owner"},
		SchemaHash: crypto.Sum([]byte("schema")), Session: "chat-1", Tool: "send_money"}
}

func must[T any](t testing.TB) func(x T, err error) T {
	return func(x T, err error) T {
		t.Helper()
		require.NoError(t, err)
		return x
	}
}

// forge signs a changed payload with the key of one name under the id of another.
func forge(t testing.TB, e contracts.Envelope, by, as string, change func(payload string) string) contracts.Envelope {
	t.Helper()
	sealed, err := new(contracts.Reader).Open(e)
	require.NoError(t, err)
	payload := []byte(change(string(sealed.Payload)))
	sig, err := crypto.Sign(private(t, by), crypto.AppendPAE(nil, contracts.PayloadType, payload))
	require.NoError(t, err)
	return crypto.AppendEnvelope(nil, contracts.PayloadType, payload, id(t, as), sig)
}

func same(payload string) string { return payload }

func replaced(from, to string) func(string) string {
	return func(payload string) string { return strings.Replace(payload, from, to, 1) }
}

// An opener is one kind of presented envelope, with a state that has its signer.
type opener struct {
	kind  string
	role  Role
	by    string // who may sign it
	also  string // of that role too
	sign  func(crypto.Signer) (contracts.Envelope, error)
	open  func(*State, contracts.Envelope) error
	field string // of its predicate, with a value
	other string // another value of it
}

func openers(t testing.TB) []opener {
	doc := bank(t, 12)
	return []opener{
		{"approval", Approver, "ann", "eve", request().Approve,
			func(s *State, e contracts.Envelope) error { _, _, err := OpenApproval(s, e); return err },
			`"verdict":"ALLOW"`, `"verdict":"DENY"`},
		{"attestation", Attestor, "attestor", "attestor 2", contracts.Attestation{Claims: value(t, `{}`),
			Type: "dual-control"}.Sign,
			func(s *State, e contracts.Envelope) error { _, _, err := OpenAttestation(s, e); return err },
			`"type":"dual-control"`, `"type":"another"`},
		{"delegation", Delegator, "bob", "bob 2", contracts.Delegation{Delegate: "carl", Delegator: "bob",
			Nonce: "n"}.Sign, func(s *State, e contracts.Envelope) error {
			_, _, err := OpenDelegation(s, []contracts.Envelope{e})
			return err
		}, `"delegate":"carl"`, `"delegate":"dora"`},
		{"bundle", Publisher, "publisher", "publisher 2", contracts.Bundle{Digest: crypto.Sum(doc.Canonical),
			Name: "bank", Version: 12}.Sign,
			func(s *State, e contracts.Envelope) error { _, err := OpenBundle(s, e, doc); return err }, `"version":12`,
			`"version":11`},
	}
}

func bank(t testing.TB, version int) contracts.Document {
	return contracts.Document{Name: "bank.yaml", Canonical: fmt.Appendf(nil,
		`{"bundle":{"name":"bank","version":%d},"helm":"policy/v1","layer":"P1","rules":[],"tools":{}}`, version),
		Lines: map[string]contracts.Pos{"": {Line: 1, Column: 1}}}
}

// An envelope opens only if its bytes and form are right and its key has the one role that may sign
// it and is not revoked.
func TestOpenersRefuse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(w.key("attestor 2", Attestor), "r1", "r2")
	w.must(w.key("publisher 2", Publisher), "r1", "r2")
	// a second key of the same holder
	e, err := w.event(contracts.TrustEvent{Type: "key", Name: "bob", Role: "delegator"}).Prove(private(t, "bob 2"))
	require.NoError(t, err)
	w.must(e, "r1", "r2")
	now := w.state
	for _, o := range openers(t) {
		good := must[contracts.Envelope](t)(o.sign(private(t, o.by)))
		for _, by := range []string{o.by, o.also} {
			require.NoError(t, o.open(now, must[contracts.Envelope](t)(o.sign(private(t, by)))), "%s by %s", o.kind,
				by) // or the refusals below would prove nothing
		}
		refuse := func(what, says string, s *State, e contracts.Envelope) {
			t.Helper()
			err := o.open(s, e)
			assert.True(t, err != nil && strings.HasPrefix(err.Error(), "registry: "+o.kind) &&
				strings.Contains(err.Error(), says), "%s: %s: %v, want a refusal that says %s", o.kind, what, err, says)
		}
		asked := 0
		for _, k := range append(everyone(t), Key{Name: "a stranger", Public: public(t, "a stranger")}) {
			if k.Role == o.role {
				continue
			}
			asked++
			for _, name := range []string{"r1", "r2", "r3", "kernel", "log", "publisher", "attestor", "freezer",
				"witness", "ann", "bob", "eve", "a stranger"} {
				if bytes.Equal(public(t, name), k.Public) {
					refuse("signed by "+name, "KEY: ", now, must[contracts.Envelope](t)(o.sign(private(t, name))))
				}
			}
		}
		assert.True(t, asked >= 8, "%s: %d signers", o.kind, asked)
		refuse("no state", "KEY: ", nil, good)
		refuse("the zero State", "KEY: ", new(State), good)
		refuse("a state of the kernel alone", "KEY: ", initial(t, nil), good)
		refuse("nothing", "ENCODING", now, nil)
		refuse("half of it", "ENCODING", now, good[:len(good)/2])
		refuse("a space", "ENCODING", now, append([]byte(" "), good...))
		refuse("a trust event", "ENVELOPE", now, mustSign(t, w.freeze(), "r1"))
		refuse("a changed field", "SIGNATURE", now,
			contracts.Envelope(strings.Replace(string(good), string(crypto.AppendBase64(nil, payloadOf(t, good))),
				string(crypto.AppendBase64(nil,
					[]byte(strings.Replace(string(payloadOf(t, good)), o.field, o.other, 1)))), 1)))
		refuse("signed by another of the role", "SIGNATURE", now, forge(t, good, o.also, o.by, same))
		refuse("named for another of the role", "KEY: the envelope and the predicate", now,
			forge(t, good, o.also, o.also, same))
		refuse("without a key", "KEY: the envelope and the predicate", now,
			forge(t, good, o.by, o.by, replaced(`"key":"`+id(t, o.by).String()+`",`, "")))
		refuse("key a number", "KEY: the envelope and the predicate", now,
			forge(t, good, o.by, o.by, replaced(`"key":"`+id(t, o.by).String()+`"`, `"key":1`)))
		refuse("a field without the subject", "RECORD: subject", now,
			forge(t, good, o.by, o.by, replaced(o.field, o.other)))
		refuse("a field more", "RECORD", now, forge(t, good, o.by, o.by,
			replaced(`},"predicateType"`, `,"zz":1},"predicateType"`)))
		refuse("a field less", "RECORD", now, forge(t, good, o.by, o.by, func(payload string) string {
			return strings.Replace(strings.Replace(payload, o.field+",", "", 1), ","+o.field, "", 1)
		}))
		refuse("another kind", "RECORD", now, forge(t, good, o.by, o.by, replaced("/"+o.kind+"/v1", "/session/v1")))
		refuse("version 2 of the kind", "ENVELOPE", now, forge(t, good, o.by, o.by,
			replaced("/"+o.kind+"/v1", "/"+o.kind+"/v2")))
		for i := range 64 { // of the signature; S not reduced is among them
			bad := bytes.Clone(good)
			if at := len(bad) - len(`"}]}`) - 3 - i; bad[at] == 'A' {
				bad[at] = 'B'
			} else {
				bad[at] = 'A'
			}
			refuse("a changed signature", "", now, bad)
		}
		for _, p := range openers(t) {
			if p.kind != o.kind {
				refuse("a "+p.kind, "KEY", now, must[contracts.Envelope](t)(p.sign(private(t, p.by))))
				if e, err := p.sign(private(t, o.by)); err == nil { // by a key that may sign, but something else
					refuse("a "+p.kind+" of its signer", "RECORD", now, e)
				}
			}
		}
		// A revoked key signs nothing more, and its earlier signatures do not count either, since
		// the envelope is presented now.
		gone := &world{t, now, now, 40, nil}
		gone.must(gone.revoke(o.by), "r1", "r2")
		refuse("after its revocation", "KEY: ", gone.state, good)
		assert.NoError(t, o.open(gone.state, must[contracts.Envelope](t)(o.sign(private(t, o.also)))),
			"%s: another key", o.kind)
		assert.NoError(t, o.open(now, good), "%s: in the state before", o.kind)
	}
}

func payloadOf(t testing.TB, e contracts.Envelope) []byte {
	t.Helper()
	sealed, err := new(contracts.Reader).Open(e)
	require.NoError(t, err)
	return bytes.Clone(sealed.Payload)
}

// With an approval comes the holder of the key and the roles that they can answer for.
func TestOpenApproval(t *testing.T) {
	t.Parallel()
	s, r := full(t), request()
	for name, sign := range map[contracts.Verdict]func(crypto.Signer) (contracts.Envelope, error){contracts.Allow: r.Approve, contracts.Deny: r.Refuse} {
		a, k, err := OpenApproval(s, must[contracts.Envelope](t)(sign(private(t, "ann"))))
		assert.True(t, err == nil && a.Verdict == name && a.Request.Digest() == r.Digest() && a.Key == id(t, "ann") &&
			a.Time == r.NotBefore, "%+v, %v", a, err)
		assert.True(t, k.Name == "ann" && k.Role == Approver && strings.Join(k.Roles, " ") == "clerk owner" &&
			bytes.Equal(k.Public, public(t, "ann")), "%+v", k)
	}
	a, k, err := OpenApproval(s, must[contracts.Envelope](t)(request().Approve(private(t, "bob"))))
	assert.True(t, err != nil && a.Verdict == contracts.Deny && a.Request.Tool == "" && k.Name == "" && k.Public == nil,
		"with an error comes %+v of %+v", a, k)
	word, k, err := OpenAttestation(s,
		must[contracts.Envelope](t)(contracts.Attestation{Claims: value(t, `{"a":[1]}`),
			Type: "x"}.Sign(private(t, "attestor"))))
	assert.True(t, err == nil && string(word.Claims.Append(nil)) == `{"a":[1]}` && k.Role == Attestor, "%+v of %+v, %v",
		word, k, err)
}

// A chain of grants: link by link, from the leaf to the root delegator.
func TestOpenDelegation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{"carl", "dora"} {
		w.must(w.key(name, Delegator, "clerk", "of "+name), "r1", "r2")
	}
	grant := func(by, to string, parent contracts.Envelope, change ...func(*contracts.Delegation)) contracts.Envelope {
		t.Helper()
		d := contracts.Delegation{Delegate: to, Delegator: by, Depth: 3, Expires: 1767225900000, Nonce: "n",
			Only: []string{"send_money", "list_payments"}, When: value(t, `{"arg":"/amount","le":50}`)}
		if parent != nil {
			d.Parent = digestOf(parent.Digest())
		}
		for _, c := range change {
			c(&d)
		}
		return must[contracts.Envelope](t)(d.Sign(private(t, by)))
	}
	root := grant("bob", "carl", nil)
	middle := grant("carl", "dora", root)
	leaf := grant("dora", "agent", middle)
	for n, chain := range [][]contracts.Envelope{{root}, {middle, root}, {leaf, middle, root}} {
		grants, k, err := OpenDelegation(w.state, chain)
		require.True(t, err == nil && len(grants) == n+1 && k.Name == "bob" && strings.Join(k.Roles, " ") == "clerk" &&
			grants[n].Delegator == "bob" && grants[n].Parent == nil, "%d: %+v of %+v, %v", n, grants, k, err)
		for i, g := range grants {
			assert.True(t, string(g.When.Append(nil)) == `{"arg":"/amount","le":50}` && strings.Join(g.Only,
				" ") == "list_payments send_money", "%d of %d: %+v", i, n, g) // each has its own memory
		}
		assert.Equal(t, []string{"carl", "dora", "agent"}[n], grants[0].Delegate, "the leaf is for")
	}
	refuse := func(what, says string, s *State, chain ...contracts.Envelope) {
		t.Helper()
		grants, k, err := OpenDelegation(s, chain)
		assert.True(t, err != nil && grants == nil && k.Name == "" && strings.HasPrefix(err.Error(),
			"registry: delegation: ") && strings.Contains(err.Error(), says), "%s: %v, want a refusal that says %q",
			what, err, says)
	}
	refuse("none", "0 grants", w.state)
	refuse("17", "17 grants", w.state, make([]contracts.Envelope, 17)...)
	refuse("without its root", "has a parent", w.state, leaf, middle)
	refuse("the leaf alone", "has a parent", w.state, leaf)
	refuse("without the middle", "grant 1: not the parent", w.state, leaf, root)
	refuse("root first", "grant 1: the grant before it has no parent", w.state, root, middle, leaf)
	refuse("one behind the root", "grant 2: the grant before it has no parent", w.state, middle, root, root)
	refuse("one twice", "grant 1: not the parent", w.state, leaf, leaf, middle, root)
	refuse("nothing in between", "grant 1: contracts: ENCODING", w.state, leaf, nil, middle, root)
	refuse("a like parent", "grant 1: not the parent", w.state, leaf,
		grant("carl", "dora", root, func(d *contracts.Delegation) { d.Nonce = "another" }), root)
	// dora was granted nothing by it
	refuse("of another's", "grant 1: not for the delegator", w.state, grant("dora", "agent", root), root)
	refuse("of the delegator himself, as another", "not the delegator who signed", w.state,
		must[contracts.Envelope](t)(contracts.Delegation{Delegate: "agent", Delegator: "bob",
			Nonce: "n"}.Sign(private(t, "carl"))))
	refuse("in capitals", "not the delegator who signed", w.state,
		must[contracts.Envelope](t)(contracts.Delegation{Delegate: "agent", Delegator: "Bob",
			Nonce: "n"}.Sign(private(t, "bob"))))
	refuse("by one who is no delegator", "grant 0: KEY", w.state,
		must[contracts.Envelope](t)(contracts.Delegation{Delegate: "x", Delegator: "agent", Nonce: "n",
			Parent: digestOf(leaf.Digest())}.Sign(private(t, "agent"))), leaf, middle, root)
	for i, gone := range []contracts.Envelope{leaf, middle, root} {
		v := &world{t, w.state, w.state, 50, nil}
		v.must(v.event(contracts.TrustEvent{Type: "undelegate", Delegation: digestOf(gone.Digest()), Delegator: "bob"}),
			"bob")
		refuse("with one revoked", fmt.Sprintf("grant %d: it was revoked", i), v.state, leaf, middle, root)
	}
	for i, name := range []string{"dora", "carl", "bob"} {
		v := &world{t, w.state, w.state, 50, nil}
		v.must(v.revoke(name), "r1", "r2")
		refuse("of a revoked key", fmt.Sprintf("grant %d: KEY", i), v.state, leaf, middle, root)
	}
	long := []contracts.Envelope{root}
	for i := range 15 { // carl and dora grant to each other
		by, to := []string{"carl", "dora"}[i%2], []string{"dora", "carl"}[i%2]
		long = append([]contracts.Envelope{grant(by, to, long[0])}, long...)
	}
	grants, _, err := OpenDelegation(w.state, long)
	assert.True(t, err == nil && len(grants) == 16, "%d links: %v", len(grants),
		err) // how deep it may be is for the guardian
}

// A bundle is the document that was signed, of its layer, under its name and version.
func TestOpenBundle(t *testing.T) {
	t.Parallel()
	s := full(t)
	sign := func(b contracts.Bundle) contracts.Envelope {
		t.Helper()
		return must[contracts.Envelope](t)(b.Sign(private(t, "publisher")))
	}
	doc := bank(t, 12)
	good := sign(contracts.Bundle{Digest: crypto.Sum(doc.Canonical), Name: "bank", Version: 12})
	got, err := OpenBundle(s, good, doc)
	require.True(t, err == nil && got.Name == "bank.yaml" && bytes.Equal(got.Canonical, doc.Canonical) &&
		got.Lines[""] == doc.Lines[""], "%+v, %v", got, err)
	text := string(doc.Canonical)
	doc.Canonical[0], doc.Lines[""] = 'x', contracts.Pos{}
	assert.True(t, string(got.Canonical) == text && got.Lines[""].Line == 1,
		"what was opened changes with what it was opened from")
	refuse := func(what, says string, e contracts.Envelope, doc contracts.Document) {
		t.Helper()
		got, err := OpenBundle(s, e, doc)
		if err == nil || got.Canonical != nil || got.Lines != nil || got.Name != "" ||
			!strings.HasPrefix(err.Error(), `registry: bundle "bank.yaml": `) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want a refusal that says %q", what, err, says)
		}
	}
	named := func(text string) contracts.Document {
		return contracts.Document{Name: "bank.yaml", Canonical: []byte(text)}
	}
	signedAs := func(text, name string, version uint64) (contracts.Envelope, contracts.Document) {
		return sign(contracts.Bundle{Digest: crypto.Sum([]byte(text)), Name: name, Version: version}), named(text)
	}
	refuse("the version before under its own signature's place", "digest", good, bank(t, 11))
	refuse("no document", "digest", good, named(""))
	refuse("another spelling", "digest", good, named(text+"\n"))
	for what, c := range map[string]struct{ text, name, says string }{
		"an old version under a new number": {strings.Replace(text, `"version":12`, `"version":11`, 1), "bank",
			"bundle.version"},
		"a new version under an old number": {strings.Replace(text, `"version":12`, `"version":13`, 1), "bank",
			"bundle.version"},
		"no version": {strings.Replace(text, `,"version":12`, ``, 1), "bank", "bundle.version"},
		"a version that is text": {strings.Replace(text, `"version":12`, `"version":"12"`, 1), "bank",
			"bundle.version"},
		"a version that is half": {strings.Replace(text, `"version":12`, `"version":12.5`, 1), "bank",
			"bundle.version"},
		"a version below 0": {strings.Replace(text, `"version":12`, `"version":-12`, 1), "bank",
			"bundle.version"},
		"another bundle's name":     {strings.Replace(text, `"bank"`, `"mail"`, 1), "bank", "bundle.name"},
		"signed for another bundle": {text, "mail", "bundle.name"},
		"no name":                   {strings.Replace(text, `"name":"bank",`, ``, 1), "bank", "bundle.name"},
		"no bundle": {strings.Replace(text, `"bundle":{"name":"bank","version":12},`, ``, 1), "bank",
			"bundle.name"},
		"a bundle of null": {strings.Replace(text, `{"name":"bank","version":12}`, `null`, 1), "bank", "bundle.name"},
		"a floor":          {strings.Replace(text, `"P1"`, `"P0"`, 1), "bank", "layer"},
		"an overlay":       {strings.Replace(text, `"P1"`, `"P2"`, 1), "bank", "layer"},
		"no layer":         {strings.Replace(text, `"layer":"P1",`, ``, 1), "bank", "layer"},
		"layers":           {strings.Replace(text, `"P1"`, `["P1"]`, 1), "bank", "layer"},
		"not canonical":    {strings.Replace(text, `"P1"`, ` "P1"`, 1), "bank", "canonical"},
		"a name twice":     {strings.Replace(text, `"name":"bank"`, `"name":"bank","name":"bank"`, 1), "bank", "json"},
		"a list":           {`[]`, "bank", "json"},
		"nothing":          {``, "bank", "json"},
		"text":             {"layer: P1\n", "bank", "json"},
	} {
		require.False(t, c.text == text && c.name == "bank", "%s: nothing was changed", what)
		e, d := signedAs(c.text, c.name, 12)
		refuse(what, c.says, e, d)
	}
	if e, d := signedAs(text, "bank", 12); !bytes.Equal(e, good) {
		t.Error("signed again it is another")
	} else if _, err := OpenBundle(s, e, d); err != nil {
		t.Error(err)
	}
}
