package adapt

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

func key(t testing.TB, seed byte) crypto.PrivateKey {
	t.Helper()
	k, err := crypto.NewKeyFromSeed(bytes.Repeat([]byte{seed}, 32))
	require.NoError(t, err)
	return k
}

func request() contracts.ApprovalRequest {
	return contracts.ApprovalRequest{
		ArgsHash: crypto.Sum([]byte(`{"secret":"hunter2"}`)), Caller: contracts.Caller{ID: "bob", Roles: []string{"staff"}},
		Expires: 2000, Nonce: strings.Repeat("0a", 16), NotBefore: 1000, Quorum: 1, Roles: []string{"owner"},
		Session: "chat-1", Tool: "mail.send",
	}
}

func approval(t testing.TB, seed byte) contracts.Envelope {
	t.Helper()
	e, err := request().Approve(key(t, seed))
	require.NoError(t, err)
	return e
}

func payload(list ...contracts.Envelope) []byte {
	return []byte(`{"approvals":[` + string(bytes.Join(raw(list), []byte(","))) + `]}`)
}

func raw(list []contracts.Envelope) (out [][]byte) {
	for _, e := range list {
		out = append(out, e)
	}
	return out
}

// The request of an interrupt is the whole of what an approver signs, and it has no arguments.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	want := request()
	b, err := Interrupt(&want)
	require.NoError(t, err)
	var got struct{ Helm contracts.ApprovalRequest }
	require.NoError(t, json.Unmarshal(b, &got))
	assert.Equal(t, want.Digest(), got.Helm.Digest())
	assert.NotContains(t, string(b), "secret")
	var shown struct{ Helm map[string]any }
	require.NoError(t, json.Unmarshal(b, &shown))
	assert.Equal(t, []any{want.Nonce, "mail.send", "chat-1"},
		[]any{shown.Helm["nonce"], shown.Helm["tool"], shown.Helm["session"]})

	_, err = Interrupt(nil)
	require.Error(t, err)
	want.Tool = "\xff"
	_, err = Interrupt(&want)
	require.Error(t, err)
}

// Every form in which a framework hands a payload over has the same envelopes.
func TestApprovals(t *testing.T) {
	t.Parallel()
	want := []contracts.Envelope{approval(t, 1), approval(t, 2)}
	text := payload(want...)
	var decoded any
	require.NoError(t, json.Unmarshal(text, &decoded))
	var spelled bytes.Buffer
	require.NoError(t, json.Indent(&spelled, text, "", "\t"))
	type answers struct {
		Approvals []contracts.Envelope `json:"approvals"`
	}
	for name, p := range map[string]any{
		"bytes": text, "raw": json.RawMessage(text), "string": string(text), "map": decoded,
		"indented": spelled.Bytes(), "escaped": strings.ReplaceAll(string(text), "signatures", `signature\u0073`),
		"struct": answers{want}, "pointer": &answers{want}, "map of envelopes": map[string]any{"approvals": want},
	} {
		got, err := Approvals(p)
		require.NoError(t, err, name)
		assert.Equal(t, want, got, name)
	}
	for _, none := range []any{`{"approvals":[]}`, map[string]any{"approvals": []any{}}} {
		got, err := Approvals(none)
		assert.NoError(t, err)
		assert.Empty(t, got)
	}
	most := make([]contracts.Envelope, contracts.MaxListed)
	for i := range most {
		most[i] = approval(t, byte(i))
	}
	got, err := Approvals(payload(most...))
	require.NoError(t, err)
	assert.Equal(t, most, got)
}

type hostile struct{}

func (hostile) MarshalJSON() ([]byte, error) { panic("hunter2") }

// What is no list of signed approvals is refused as a whole, and the refusal quotes none of it.
func TestApprovalsRefused(t *testing.T) {
	t.Parallel()
	good := string(approval(t, 1))
	_, err := Approvals(`{"approvals":[` + good + `]}`)
	require.NoError(t, err, "or the refusals below would prove nothing")
	refusal, err := request().Refuse(key(t, 1))
	require.NoError(t, err)
	_, err = Approvals(payload(refusal))
	require.NoError(t, err, "an answer that refuses is an answer")
	var none crypto.Tree
	require.NoError(t, none.Parse([]byte("{}"), crypto.Limits{Bytes: 2, Depth: 1}))
	attestation, err := contracts.Attestation{Claims: none.Root(), Time: 1000, Type: "mfa"}.Sign(key(t, 1))
	require.NoError(t, err)
	_, err = Approvals(payload(attestation))
	require.Error(t, err, "signed, and no approval")
	seventeen := strings.TrimSuffix(strings.Repeat(good+",", 17), ",")
	var list []any
	for range 17 {
		list = append(list, "hunter2")
	}
	cycle := map[string]any{}
	cycle["approvals"] = []any{cycle}
	for name, p := range map[string]any{
		"nil": nil, "true": true, "approved": `{"approved":true}`, "approved, decoded": map[string]any{"approved": true},
		"approved too": `{"approved":true,"approvals":[` + good + `]}`, "empty": "", "no bytes": []byte{},
		"null": "null", "a list": `[` + good + `]`, "the envelope alone": good,
		"null list": `{"approvals":null}`, "an object": `{"approvals":` + good + `}`,
		"twice": `{"approvals":[],"approvals":[` + good + `]}`, "another case": `{"Approvals":[` + good + `]}`,
		"a string": `{"approvals":["hunter2"]}`, "true in it": `{"approvals":[true]}`,
		"null in it": `{"approvals":[null]}`, "good and bad": `{"approvals":[` + good + `,{"hunter2":1}]}`,
		"seventeen": `{"approvals":[` + seventeen + `]}`, "seventeen, decoded": map[string]any{"approvals": list},
		"more after it": `{"approvals":[` + good + `]} {}`, "not UTF-8": "{\"approvals\":[\"hunter2\xff\"]}",
		"deep":  `{"approvals":[` + strings.Repeat("[", 1e5) + strings.Repeat("]", 1e5) + `]}`,
		"long":  `{"approvals":[` + strings.Repeat(" ", contracts.MaxPresented) + good + `]}`,
		"long,": strings.Repeat(" ", 8<<20), "a member more": `{"approvals":[` + good[:len(good)-1] + `,"x":"hunter2"}]}`,
		"a cycle": cycle, "a channel": make(chan int), "a function": func() {}, "hostile": hostile{},
		"hostile in it": map[string]any{"approvals": []any{hostile{}}}, "nil pointer": (*struct{})(nil),
		"bytes in a map": map[string]any{"approvals": [][]byte{[]byte(good)}},
	} {
		got, err := Approvals(p)
		require.Error(t, err, name)
		assert.Empty(t, got, name)
		assert.NotContains(t, err.Error(), "hunter2", name)
		assert.Less(t, len(err.Error()), 200, name)
	}
}

// No truncation of a payload has an approval, and no changed byte makes it another than a kernel
// would find by its signature.
func TestApprovalsMangled(t *testing.T) {
	t.Parallel()
	good := payload(approval(t, 1))
	want, err := Approvals(good)
	require.NoError(t, err)
	taken := 0
	for i := range good {
		_, err := Approvals(good[:i])
		require.Error(t, err, "cut at byte %d", i)
		for _, flip := range []byte{1, 0x20, 0x80} {
			bad := bytes.Clone(good)
			bad[i] ^= flip
			got, err := Approvals(bad)
			if err != nil {
				assert.Empty(t, got)
				continue
			}
			taken++
			require.Len(t, got, 1)
			require.NotEqual(t, want, got, "byte %d: the same approval from other bytes", i)
		}
	}
	assert.Positive(t, taken, "the signature's bytes are not looked at here")
}

func FuzzApprovals(f *testing.F) {
	f.Add(payload(approval(f, 1), approval(f, 2)))
	f.Add([]byte(`{"approvals":[]}`))
	f.Add([]byte(`{"approved":true}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		got, err := Approvals(in)
		if err != nil {
			if len(got) > 0 {
				t.Fatalf("%d envelopes with an error", len(got))
			}
			return
		}
		again, err := Approvals(payload(got...))
		if err != nil || fmt.Sprint(got) != fmt.Sprint(again) {
			t.Fatalf("%q became %q, error %v", got, again, err)
		}
	})
}
