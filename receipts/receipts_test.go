package receipts

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/trust/registry"
)

const at = contracts.Time(1767225600123)

func digest(s string) contracts.Digest { return crypto.Sum([]byte(s)) }

func key(t testing.TB, name string) crypto.PrivateKey {
	t.Helper()
	seed := digest(name)
	k, err := crypto.NewKeyFromSeed(seed[:])
	require.NoError(t, err)
	return k
}

func public(k crypto.PrivateKey) crypto.PublicKey { return k.Public().(crypto.PublicKey) }

// allow returns a decision of the session chat, seq 3.
func allow(charges ...contracts.Charge) *contracts.DecisionRecord {
	d := &contracts.DecisionRecord{ArgsHash: digest("args"), Charges: charges, Condition: 8,
		EffectType: contracts.Write, Expires: at + 30_000, Risk: contracts.High,
		PolicyHash: digest("policy"), Reason: contracts.ReasonAllow, Rule: "P1:bank:pay", Tool: "send_money",
		Verdict: contracts.Allow}
	d.Seal("chat", 3, digest("inputs"))
	return d
}

func deny() contracts.DecisionRecord {
	d := contracts.DecisionRecord{ArgsHash: digest("args"), Condition: 5, EffectType: contracts.Write,
		Risk: contracts.High, PolicyHash: digest("policy"),
		Reason: contracts.ReasonNoPolicyDefined, Tool: "send_money"}
	d.Seal("chat", 4, digest("inputs"))
	return d
}

// statement puts a receipt after the decision's entry.
func statement(k crypto.PrivateKey, r *contracts.Receipt) *contracts.Statement {
	return &contracts.Statement{Header: contracts.Header{Key: crypto.KeyID(public(k)), Lamport: 5,
		Prev: digest("decision's entry"), Seq: 4, Session: "chat", Time: at}, Receipt: r}
}

func sign(t testing.TB, k crypto.PrivateKey, st *contracts.Statement) contracts.Entry {
	t.Helper()
	payload := st.Append(nil)
	sig, err := crypto.Sign(k, crypto.AppendPAE(nil, contracts.PayloadType, payload))
	require.NoError(t, err)
	return crypto.AppendEnvelope(nil, contracts.PayloadType, payload, crypto.KeyID(public(k)), sig)
}

func trust(t testing.TB, r *registry.Registry) *registry.State {
	t.Helper()
	s, err := r.Initial(public(key(t, "kernel")), public(key(t, "log")))
	require.NoError(t, err)
	return s
}

func build(t testing.TB, o Result) *contracts.Receipt {
	t.Helper()
	r, err := Build(allow(), digest("decision's entry"), o)
	require.NoError(t, err)
	return r
}

// exhausts reports whether only a sandbox ends a run with the reason.
func exhausts(reason contracts.ReasonCode) bool {
	return reason == contracts.ReasonGasExhausted || reason == contracts.ReasonTimeExhausted ||
		reason == contracts.ReasonMemoryExhausted
}

// Open accepts the receipt that Build makes for each end of a run, and the receipt records that
// end.
func TestEveryEndingOfARun(t *testing.T) {
	t.Parallel()
	kernel, state := key(t, "kernel"), trust(t, nil)
	endings := 0
	for reason := range contracts.Reasons() {
		outcome, verdict := reason.Ending()
		for name, o := range map[string]Result{
			"no output": {Reason: reason}, "jcs": {Reason: reason, Output: []byte(`{"a":1}`), Form: "jcs"},
			"raw": {Reason: reason, Output: []byte("hello"), Form: "raw"},
			"sandbox": {Reason: reason, Sandbox: &contracts.SandboxUse{Gas: 5, Module: digest("module"),
				Profile: "wasi", Grants: new(contracts.Digest)}},
			"facts":   {Reason: reason, Output: []byte(`{"a":1}`), Form: "jcs", Facts: []byte(`{"/a":[1]}`)},
			"signals": {Reason: reason, Output: []byte("hello"), Form: "raw", Signals: []string{"nul", "secret"}},
		} {
			hasOutput := reason == contracts.ReasonAllow || reason == contracts.ReasonContractDrift
			possible := outcome != contracts.Denied && (hasOutput == (o.Form != "") ||
				reason == contracts.ReasonToolError) &&
				(o.Sandbox == nil || reason != contracts.ReasonOutcomeUnknown) &&
				(o.Sandbox != nil || !exhausts(reason)) &&
				(o.Facts == nil || reason == contracts.ReasonAllow) &&
				(o.Signals == nil || reason != contracts.ReasonContractDrift)
			r, err := Build(allow(), digest("decision's entry"), o)
			assert.True(t, (err == nil) == possible && (r != nil) == possible, "%s, %s: %v", reason, name, err)
			if err != nil {
				continue
			}
			endings++
			got, err := Open(sign(t, kernel, statement(kernel, r)), state, 7)
			if err != nil {
				t.Errorf("%s, %s: %v", reason, name, err)
				continue
			}
			assert.True(t, got.Outcome == outcome && got.Verdict == verdict && got.Reason == reason &&
				got.Tool == "send_money" && got.ArgsHash == digest("args") && got.EffectType == contracts.Write &&
				got.DecisionHash == digest("decision's entry") && got.OutputForm == o.Form &&
				(got.OutputHash != nil) == (o.Form != "") && got.Settled == nil && got.Decision == nil, "%s, %s: %+v",
				reason, name, got)
			assert.True(t, o.Form == "" || *got.OutputHash == digest(string(o.Output)), "%s, %s: output hash %s",
				reason, name, got.OutputHash)
			assert.True(t, (got.Sandbox != nil) == (o.Sandbox != nil) && (o.Sandbox == nil ||
				reflect.DeepEqual(got.Sandbox, o.Sandbox)), "%s, %s: sandbox %+v", reason, name, got.Sandbox)
			assert.True(t, (got.FactsHash != nil) == (o.Facts != nil) && (o.Facts == nil ||
				*got.FactsHash == digest(string(o.Facts))), "%s, %s: facts %s", reason, name, got.FactsHash)
			assert.Equal(t, o.Signals, got.Signals, "%s, %s", reason, name)
		}
	}
	// Three limits of a sandbox are reached in one alone.
	assert.Equal(t, 2*2+4+7*2-3+1+1+2, endings, "%d endings", endings)
}

func TestBuildRefuses(t *testing.T) {
	t.Parallel()
	denied := deny()
	undeclared := allow()
	undeclared.EffectType = ""
	nameless := allow()
	nameless.Tool = ""
	jcs := func(o Result) Result { o.Output, o.Form = []byte("1"), "jcs"; return o }
	for name, c := range map[string]struct {
		d *contracts.DecisionRecord
		o Result
	}{
		"no decision":                 {nil, jcs(Result{Reason: contracts.ReasonAllow})},
		"a denial":                    {&denied, jcs(Result{Reason: contracts.ReasonAllow})},
		"no effect":                   {undeclared, jcs(Result{Reason: contracts.ReasonAllow})},
		"no tool":                     {nameless, jcs(Result{Reason: contracts.ReasonAllow})},
		"no reason":                   {allow(), jcs(Result{})},
		"a reason nobody knows":       {allow(), jcs(Result{Reason: "DONE"})},
		"a reason of a condition":     {allow(), Result{Reason: contracts.ReasonPolicyViolation}},
		"a reason that is no ending":  {allow(), Result{Reason: contracts.ReasonFailClosedError}},
		"a reason that is not logged": {allow(), Result{Reason: contracts.ReasonReceiptNotStored}},
		"executed without output":     {allow(), Result{Reason: contracts.ReasonAllow}},
		"executed with empty output":  {allow(), Result{Reason: contracts.ReasonAllow, Form: "jcs"}},
		"output of another form": {allow(), Result{Reason: contracts.ReasonAllow, Form: "utf8",
			Output: []byte("1")}},
		"output of no form":      {allow(), Result{Reason: contracts.ReasonAllow, Output: []byte("1")}},
		"output of a panic":      {allow(), jcs(Result{Reason: contracts.ReasonToolPanic})},
		"no bytes of a failure":  {allow(), Result{Reason: contracts.ReasonToolError, Form: "raw"}},
		"no JSON of a failure":   {allow(), Result{Reason: contracts.ReasonToolError, Form: "jcs"}},
		"bytes of a failure":     {allow(), Result{Reason: contracts.ReasonToolError, Output: []byte("secret")}},
		"bytes of an exhaustion": {allow(), jcs(Result{Reason: contracts.ReasonOutputExhausted})},
		"facts of text": {allow(), Result{Reason: contracts.ReasonAllow, Output: []byte("x"), Form: "raw",
			Facts: []byte("{}")}},
		"facts of a failure": {allow(), Result{Reason: contracts.ReasonToolError, Output: []byte("{}"), Form: "jcs",
			Facts: []byte("{}")}},
		"signals of no output": {allow(), Result{Reason: contracts.ReasonToolError, Signals: []string{"nul"}}},
		"signals of an output that is withheld": {allow(), Result{Reason: contracts.ReasonContractDrift,
			Output: []byte("x"), Form: "raw", Signals: []string{"nul"}}},
		"signals out of order": {allow(), jcs(Result{Reason: contracts.ReasonAllow,
			Signals: []string{"secret", "nul"}})},
		"sandbox of the unseen": {allow(), Result{Reason: contracts.ReasonOutcomeUnknown,
			Sandbox: &contracts.SandboxUse{Profile: "wasi", Grants: new(contracts.Digest)}}},
		"sandbox without a profile": {allow(), Result{Reason: contracts.ReasonToolError,
			Sandbox: &contracts.SandboxUse{Grants: new(contracts.Digest)}}},
		"sandbox without grants": {allow(), Result{Reason: contracts.ReasonToolError,
			Sandbox: &contracts.SandboxUse{Profile: "wasi"}}},
		"exhausted without a sandbox": {allow(), Result{Reason: contracts.ReasonGasExhausted}},
		"gas beyond doubles": {allow(), Result{Reason: contracts.ReasonToolError,
			Sandbox: &contracts.SandboxUse{Gas: crypto.MaxInt + 1, Profile: "wasi", Grants: new(contracts.Digest)}}},
	} {
		r, err := Build(c.d, digest("e"), c.o)
		assert.True(t, err != nil && r == nil, "%s: %+v", name, r)
	}
}

// A denial holds its decision and nothing more. An ALLOW is no denial.
func TestDenied(t *testing.T) {
	t.Parallel()
	kernel, d := key(t, "kernel"), deny()
	r := Denied(&d)
	require.True(t, r.Outcome == contracts.Denied && r.Decision == &d && r.Reason == "" && r.OutputHash == nil, "%+v",
		r)
	got, err := Open(sign(t, kernel, statement(kernel, &r)), trust(t, nil), 7)
	assert.True(t, err == nil && got.Outcome == contracts.Denied && got.Decision != nil &&
		bytes.Equal(got.Decision.Append(nil), d.Append(nil)), "%+v %v", got, err)
	for name, none := range map[string]contracts.Receipt{"an ALLOW": Denied(allow()), "nothing": Denied(nil)} {
		assert.True(t, none.Outcome == "" && none.Decision == nil && !bool(none.Verdict), "%s has a denial: %+v", name,
			none)
	}
}

// The decision that a receipt names is opened in the same way, and neither is taken for the other.
func TestOpenDecision(t *testing.T) {
	t.Parallel()
	kernel, state := key(t, "kernel"), trust(t, nil)
	st := statement(kernel, nil)
	st.Seq, st.Decision = 3, allow()
	good := sign(t, kernel, st)
	d, err := OpenDecision(good, state, 6)
	require.True(t, err == nil && d.Tool == "send_money" && bytes.Equal(d.Append(nil), allow().Append(nil)), "%+v %v",
		d, err)
	denied := deny()
	denial := Denied(&denied)
	spoilt := bytes.Clone(good)
	spoilt[len(spoilt)-10] ^= 1
	for name, bad := range map[string]contracts.Entry{"a denial": sign(t, kernel, statement(kernel, &denial)),
		"a receipt":    sign(t, kernel, statement(kernel, build(t, Result{Reason: contracts.ReasonToolError}))),
		"a stranger's": sign(t, key(t, "stranger"), st), "a flipped bit": spoilt, "nothing": nil} {
		d, err := OpenDecision(bad, state, 6)
		assert.True(t, err != nil && d.Verdict != contracts.Allow, "%s: %+v", name, d)
	}
}

// TestOpenStub: what is left of a receipt or of a decision that a log let go of is neither.
func TestOpenStub(t *testing.T) {
	t.Parallel()
	kernel, state := key(t, "kernel"), trust(t, nil)
	ran := statement(kernel, build(t, Result{Reason: contracts.ReasonAllow, Output: []byte("1"), Form: "jcs"}))
	judged := statement(kernel, nil)
	judged.Seq, judged.Decision = 3, allow()
	for _, st := range []*contracts.Statement{ran, judged} {
		stub := contracts.NewStub(st, sign(t, kernel, st).Hash(), 1).Append(nil)
		_, err := new(contracts.Reader).Stub(stub)
		require.NoError(t, err)
		r, err := Open(stub, state, 7)
		assert.True(t, err != nil && r.Outcome == "", "%v", err)
		d, err := OpenDecision(stub, state, 6)
		assert.True(t, err != nil && d.Verdict != contracts.Allow, "%v", err)
	}
}

// However a run ends, its charges stay, in their order.
func TestChargesStay(t *testing.T) {
	t.Parallel()
	charges := []contracts.Charge{
		{Amount: 2, Before: 1, Budget: "P1:bank:money", Limit: 5, Of: "alice", Window: "total"},
		{Amount: 0, Before: 5, Budget: "P1:bank:money", Limit: 5, Of: "bob", Window: "2026-01-01T00:00:00.000Z"},
		{Amount: 7, Budget: "P1:bank:pay", Limit: 7, Window: "total"},
	}
	want := []contracts.Settlement{{Amount: 2, Budget: "P1:bank:money", Of: "alice"},
		{Amount: 0, Budget: "P1:bank:money", Of: "bob"}, {Amount: 7, Budget: "P1:bank:pay"}}
	kernel := key(t, "kernel")
	for _, reason := range []contracts.ReasonCode{contracts.ReasonToolError, contracts.ReasonToolPanic,
		contracts.ReasonToolTimeout, contracts.ReasonOutcomeUnknown} {
		r, err := Build(allow(charges...), digest("decision's entry"), Result{Reason: reason})
		require.NoError(t, err)
		got, err := Open(sign(t, kernel, statement(kernel, r)), trust(t, nil), 7)
		assert.True(t, err == nil && slices.Equal(got.Settled, want), "%s: %+v %v", reason, got.Settled, err)
	}
	back := Result{Reason: contracts.ReasonToolError, Refunds: []string{"P1:bank:pay", "P1:bank:other"}}
	if r, err := Build(allow(charges...), digest("decision's entry"), back); err != nil || r.Settled[0] != want[0] ||
		r.Settled[2] != (contracts.Settlement{Budget: "P1:bank:pay"}) {
		t.Errorf("a refund: %+v %v", r, err)
	}
	back.Reason = contracts.ReasonToolPanic // the tool ran on, for all that is known
	_, err := Build(allow(charges...), digest("decision's entry"), back)
	assert.Error(t, err, "a refund of a panic")
	r := Unknown(allow(charges...), digest("decision's entry"))
	assert.True(t, r != nil && r.Outcome == contracts.Indeterminate && r.Verdict == contracts.Deny &&
		r.Reason == contracts.ReasonOutcomeUnknown && slices.Equal(r.Settled, want) && r.Sandbox == nil, "%+v", r)
	d := deny()
	assert.True(t, Unknown(nil, digest("e")) == nil && Unknown(&d, digest("e")) == nil,
		"what was not allowed has an unknown outcome")
}

// A receipt shares no memory with the values it was built from.
func TestReceiptIsACopy(t *testing.T) {
	t.Parallel()
	grants := digest("grants")
	use := &contracts.SandboxUse{Gas: 5, Grants: &grants, Module: digest("module"), Profile: "wasi"}
	output, facts, signals := []byte(`{"a":1}`), []byte(`{"/a":[1]}`), []string{"nul"}
	d := allow(contracts.Charge{Amount: 2, Budget: "P1:bank:pay", Limit: 5, Window: "total"})
	r, err := Build(d, digest("e"), Result{Reason: contracts.ReasonAllow, Output: output, Form: "jcs", Sandbox: use,
		Facts: facts, Signals: signals})
	require.NoError(t, err)
	use.Gas, grants, output[1], d.Charges[0].Amount, d.Tool, facts[2], signals[0] = 6, digest("others"), 'x', 3, "other", 'x', "x"
	assert.True(t, r.Sandbox.Gas == 5 && *r.Sandbox.Grants == digest("grants") && *r.FactsHash == digest(`{"/a":[1]}`) && r.Signals[0] == "nul" && *r.OutputHash == digest(`{"a":1}`) && r.Settled[0].Amount == 2 &&
		r.Tool == "send_money", "%+v", r)
}

// Open refuses each of these, in the order of its checks.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	kernel, log, stranger := key(t, "kernel"), key(t, "log"), key(t, "stranger")
	state := trust(t, nil)
	result := Result{Reason: contracts.ReasonAllow, Output: []byte("1"), Form: "jcs"}
	good := sign(t, kernel, statement(kernel, build(t, result)))
	if _, err := Open(good, state, 7); err != nil {
		t.Fatal(err) // or the refusals below would prove nothing
	}
	st := statement(kernel, build(t, result))
	payload := st.Append(nil)
	bare, err := crypto.Sign(kernel, payload)
	require.NoError(t, err)
	signed := func(k crypto.PrivateKey, payload []byte) contracts.Entry { // as k's, whatever the header says
		sig, err := crypto.Sign(k, crypto.AppendPAE(nil, contracts.PayloadType, payload))
		require.NoError(t, err)
		return crypto.AppendEnvelope(nil, contracts.PayloadType, payload, crypto.KeyID(public(k)), sig)
	}
	edit := func(from, to string) contracts.Entry {
		text := strings.Replace(string(payload), from, to, 1)
		require.NotEqual(t, string(payload), text, "%s: nothing was changed", from)
		return signed(kernel, []byte(text))
	}
	decision := statement(kernel, nil)
	decision.Seq, decision.Decision = 3, allow()
	message := statement(kernel, nil)
	message.Message = &contracts.Message{TextHash: digest("text")}
	manifest := contracts.EvidencePack{Key: crypto.KeyID(public(kernel)), Origin: "o", Size: 1}
	for name, c := range map[string]struct {
		entry contracts.Entry
		trust *registry.State
		class contracts.Class // "": not a fault of the form
		says  string
	}{
		"nothing":      {nil, state, contracts.Encoding, ""},
		"white space":  {append(contracts.Entry(" "), good...), state, contracts.Encoding, ""},
		"two receipts": {append(bytes.Clone(good), good...), state, contracts.Encoding, ""},
		"no signature": {
			contracts.Entry(`{"payload":"e30=","payloadType":"application/vnd.in-toto+json","signatures":[]}`),
			state, contracts.Shape, "",
		},
		"a decision":            {sign(t, kernel, decision), state, "", "no receipt"},
		"a message":             {sign(t, kernel, message), state, "", "no receipt"},
		"a manifest":            {signed(kernel, manifest.Append(nil)), state, "", "no receipt"},
		"no trust state":        {good, nil, "", "KEY"},
		"a stranger's":          {sign(t, stranger, statement(stranger, build(t, result))), state, "", "KEY"},
		"the log key's":         {sign(t, log, statement(log, build(t, result))), state, "", "KEY"},
		"header of another key": {signed(log, payload), state, "", "KEY"},
		"header without a key":  {edit(`"key":"`+crypto.KeyID(public(kernel)).String()+`",`, ``), state, "", "KEY"},
		"envelope of another key": {crypto.AppendEnvelope(nil, contracts.PayloadType, payload,
			crypto.KeyID(public(log)), bare), state, "", "KEY"},
		"another's signature": {crypto.AppendEnvelope(nil, contracts.PayloadType, payload,
			crypto.KeyID(public(kernel)), must(t, stranger, payload)), state, "", "SIGNATURE"},
		"signature without PAE": {crypto.AppendEnvelope(nil, contracts.PayloadType, payload,
			crypto.KeyID(public(kernel)), bare), state, "", "SIGNATURE"},
		"signature of nothing": {crypto.AppendEnvelope(nil, contracts.PayloadType, payload,
			crypto.KeyID(public(kernel)), make([]byte, 64)), state, "", "SIGNATURE"},
		"verdict turned": {edit(`"verdict":"ALLOW"`, `"verdict":"DENY"`), state, contracts.Record, "verdict"},
		"outcome turned": {edit(`"outcome":"EXECUTED"`, `"outcome":"FAILED"`), state, contracts.Record,
			"outcome"},
		"a field nobody knows": {edit(`"verdict":"ALLOW"`, `"verdict":"ALLOW","zz":1`), state, contracts.Record,
			"zz"},
		"the subject of another": {edit(`"name":"send_money"`, `"name":"fs.read"`), state, contracts.Record,
			"subject"},
		"effect of another output": {edit(`"outputHash":"`+digest("1").String(), `"outputHash":"`+digest("2").String()),
			state, contracts.Record, "effectHash"},
		"of no decision": {edit(`"prev":"`+digest("decision's entry").String(), `"prev":"`+digest("other").String()),
			state, contracts.Record, "parents"},
		"in the refused": {edit(`"session":"chat"`, `"session":"@refused"`), state, contracts.Record, "session"},
	} {
		r, err := Open(c.entry, c.trust, 7)
		var f *contracts.FormatError
		assert.True(t, err != nil && r.Outcome == "" && r.Tool == "" && strings.HasPrefix(err.Error(),
			"receipts: open: ") && strings.Contains(err.Error(), c.says), "%s: %+v %v", name, r, err)
		assert.True(t, errors.As(err, &f) == (c.class != "") && (f == nil || f.Class == c.class), "%s: %v, want %s",
			name, err, c.class)
	}
}

func must(t testing.TB, k crypto.PrivateKey, payload []byte) []byte {
	t.Helper()
	sig, err := crypto.Sign(k, crypto.AppendPAE(nil, contracts.PayloadType, payload))
	require.NoError(t, err)
	return sig
}

// The keys that may have signed depend on the receipt's index: a kernel key counts from after its
// addition up to its revocation.
func TestOpenAtAnIndex(t *testing.T) {
	t.Parallel()
	kernel := key(t, "kernel")
	good := sign(t, kernel, statement(kernel, build(t, Result{Reason: contracts.ReasonToolError})))
	second := key(t, "second")
	r, err := registry.New(0, registry.Key{Name: "second", Public: public(second), Role: registry.Kernel})
	require.NoError(t, err)
	text := string(trust(t, r).Canonical())
	text = strings.Replace(text, `"name":"kernel","public":"`+b64(kernel)+`","role":"kernel","since":0`,
		`"name":"kernel","public":"`+b64(kernel)+`","revoked":9,"role":"kernel","since":4`, 1)
	state, err := registry.ParseState([]byte(text))
	require.True(t, err == nil && strings.Contains(text, `"revoked":9`), "%v", err)
	for index, want := range map[uint64]bool{0: false, 4: false, 5: true, 9: true, 10: false} {
		_, err := Open(good, state, index)
		assert.Equal(t, want, (err == nil), "at %d: %v", index, err)
	}
	_, err = Open(sign(t, second, statement(second, build(t, Result{Reason: contracts.ReasonToolError}))), state, 0)
	assert.NoError(t, err, "the other kernel key")
}

func b64(k crypto.PrivateKey) string { return string(crypto.AppendBase64(nil, public(k))) }

// Every flipped bit and every truncation is refused.
func TestReceiptMangled(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	kernel, state := key(t, "kernel"), trust(t, nil)
	good := sign(t, kernel,
		statement(kernel, build(t, Result{Reason: contracts.ReasonAllow, Output: []byte("1"), Form: "jcs"})))
	_, err := Open(good, state, 7)
	require.NoError(t, err) // or the refusals below would prove nothing
	step := 1
	if testing.Short() {
		step = 7
	}
	for i := 0; i < 8*len(good); i += step {
		bad := bytes.Clone(good)
		bad[i/8] ^= 1 << (i % 8)
		r, err := Open(bad, state, 7)
		require.True(t, err != nil && r.Outcome == "", "bit %d: taken", i)
		_, err = Open(good[:i/8], state, 7)
		require.Error(t, err, "the first %d bytes: taken", i/8)
	}
}

func BenchmarkBuild(b *testing.B) {
	d, output := allow(), []byte(`{"a":1}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Build(d, d.ArgsHash, Result{Reason: contracts.ReasonAllow, Output: output,
			Form: "jcs"}); err != nil {
			b.Fatal(err)
		}
	}
}
