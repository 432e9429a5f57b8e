package contracts

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/crypto"
)

func digest(s string) Digest { return crypto.Sum([]byte(s)) }

func ptr[T any](x T) *T { return &x }

// samples has one statement of each kind and shape, with every field that may be there.
func samples() map[string]*Statement {
	at := Time(1767225600123)
	header := func(session string, seq uint64) Header {
		parents := []Digest{digest("p1"), digest("p2")}
		if bytes.Compare(parents[0][:], parents[1][:]) > 0 {
			parents[0], parents[1] = parents[1], parents[0]
		}
		return Header{Key: digest("key"), Lamport: 7, Parents: parents, Prev: digest("prev"), Seq: seq,
			Session: session, Time: at}
	}
	allow := &DecisionRecord{ArgsHash: digest("args"), Caller: Caller{"alice", "acme", []string{"clerk", "owner"}},
		Condition:  8,
		Delegation: ptr(digest("grant")), EffectType: Write, Expires: at + 30000, Idempotency: "k\"1", Risk: High,
		PolicyHash: digest("policy"),
		Approvals:  []Digest{digest("approval")}, Attestations: []Digest{digest("attestation")},
		Signals: []string{"a", "b"},
		Charges: []Charge{{Amount: 2, Before: 1, Budget: "P1:bank:pay", Limit: 5, Of: "alice", Window: "total"}},
		Reason:  ReasonAllow, Rule: "P1:bank:pay", Tool: "send_money", Verdict: Allow}
	allow.Seal("chat-1", 4, digest("inputs"))
	deny := &DecisionRecord{ArgsHash: digest("args"), Condition: 5, EffectType: Write, Risk: Low,
		PolicyHash: digest("policy"),
		Reason:     ReasonNoPolicyDefined, Tool: "send_money"}
	deny.Seal("chat-1", 5, digest("inputs"))
	ran := &Receipt{Outcome: Executed, ArgsHash: digest("args"), DecisionHash: digest("prev"), EffectType: Write,
		FactsHash:  ptr(digest("facts")),
		OutputForm: "jcs", OutputHash: ptr(digest("output")), Reason: ReasonAllow,
		Sandbox: &SandboxUse{Gas: 5, Grants: new(Digest), Module: digest("module"), Profile: "wasi"},
		Settled: []Settlement{{2, "P1:bank:pay", "alice"}}, Signals: []string{"s"}, Tool: "send_money", Verdict: Allow}
	effect := ran.Effect()
	ran.EffectHash = effect.Hash()
	policy := &PolicyRecord{Documents: []PolicyDocument{{digest("a"), "P1", "bank", 3},
		{digest("b"), "P1", "files", 1}}, Engine: Engine{Rules: 1}}
	policy.Policy = policy.Hash()
	closing := header("chat-1", 9)
	return map[string]*Statement{
		"genesis": {Header: header("", 0), Genesis: &Genesis{strings.Repeat("0f", 16), "example.test/log",
			digest("trust"), 1}},
		"policy":   {Header: header("", 1), Policy: policy},
		"decision": {Header: header("chat-1", 4), Decision: allow},
		"denied":   {Header: header("chat-1", 5), Receipt: &Receipt{Outcome: Denied, Decision: deny}},
		"receipt":  {Header: header("chat-1", 6), Receipt: ran},
		"message":  {Header: header("chat-1", 7), Message: &Message{digest("text")}},
		"session":  {Header: closing, Close: &Close{9, closing.Prev}},
		"condense": {Header: header("", 5), Condense: &Condense{2, 1, digest("root"), 9, digest("stubs"), 4, 1}},
		"key": {Header: header("", 2),
			Trust: &TrustRecord{TrustEvent{Type: "key", Origin: "log", Version: 2, ID: ptr(digest("k")), Name: "n",
				Proof: make([]byte, 64), Public: make([]byte, 32), Role: "approver", Roles: []string{"owner"}},
				[]Signature{{digest("root"), make([]byte, 64)}}}},
		"revoke": {Header: header("", 2),
			Trust: &TrustRecord{Event: TrustEvent{Type: "revoke", Origin: "log", Version: 2, ID: ptr(digest("k")),
				Why: "lost"}}},
		"root": {Header: header("", 2),
			Trust: &TrustRecord{Event: TrustEvent{Type: "root", Origin: "log", Version: 2, Threshold: 1,
				Keys: []RootKey{{digest("k"), "n", make([]byte, 64), make([]byte, 32)}}}}},
		"undelegate": {Header: header("", 2),
			Trust: &TrustRecord{Event: TrustEvent{Type: "undelegate", Origin: "log", Version: 2,
				Delegation: ptr(digest("g")), Delegator: "alice"}}},
		"freeze": {Header: header("", 2),
			Trust: &TrustRecord{Event: TrustEvent{Type: "freeze", Origin: "log", Version: 2, Why: "incident"}}},
	}
}

func sealIn(payload []byte) []byte {
	return crypto.AppendEnvelope(nil, PayloadType, payload, digest("key"), make([]byte, 64))
}

func reopen(t *testing.T, payload []byte) (*Statement, error) {
	t.Helper()
	var r Reader
	sealed, err := r.Open(sealIn(payload))
	if err != nil {
		return nil, err
	}
	return sealed.Statement()
}

// isFault reports whether err is a FormatError of that class, in a field that begins so.
func isFault(err error, class Class, field string) bool {
	var f *FormatError
	return errors.As(err, &f) && f.Class == class && strings.HasPrefix(f.Field, field)
}

func TestStatementRoundTrip(t *testing.T) {
	t.Parallel()
	for name, s := range samples() {
		payload := s.Append(nil)
		var tree crypto.Tree
		require.NoError(t, tree.Parse(payload, crypto.Limits{Bytes: MaxPayload, Depth: MaxRecordDepth, Object: true}),
			"%s", name)
		canonical := tree.Root().Append(nil)
		assert.True(t, bytes.Equal(canonical, payload), "%s: written\n%s\ncanonical\n%s", name, payload, canonical)
		again, err := reopen(t, payload)
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, payload)
			continue
		}
		b := again.Append(nil)
		assert.True(t, bytes.Equal(b, payload), "%s: read and written again\n%s\nwas\n%s", name, b, payload)
		assert.Equal(t, s.Kind(), again.Kind(), name)
	}
}

// Each field of each record in turn is removed, and an unknown field is added to each object in
// turn.
func TestStatementFieldsAreClosed(t *testing.T) {
	t.Parallel()
	cases, optionalFields := 0, 0
	for name, s := range samples() {
		payload := s.Append(nil)
		var tree crypto.Tree
		require.NoError(t, tree.Parse(payload, crypto.Limits{Bytes: MaxPayload, Depth: MaxRecordDepth}))
		for i, bad := range spoil(tree.Root()) {
			cases++
			_, err := reopen(t, bad)
			if err == nil {
				optionalFields++ // another valid record, if no other field depends on the one removed
				assert.False(t, bytes.Contains(bad, []byte(`"zz"`)), "%s %d: accepted an unknown field in %s", name, i,
					bad)
			} else if !isFault(err, Record, "") && !isFault(err, Shape, "") {
				t.Errorf("%s %d: %v for %s", name, i, err, bad)
			}
		}
	}
	assert.True(t, cases >= 300 && optionalFields <= 30, "%d cases, of which %d left a valid record", cases,
		optionalFields)
}

// spoil returns the canonical forms of v with each member removed, and with one more member in each
// object.
func spoil(v crypto.Value) (out [][]byte) {
	switch v.Kind() {
	case crypto.Object:
		var members [][2][]byte
		for it := v.Iter(); it.Next(); {
			members = append(members, [2][]byte{crypto.AppendString(nil, string(it.Key())), it.Value().Append(nil)})
		}
		join := func(skip int, at int, instead []byte, more string) []byte {
			var parts [][]byte
			for i, m := range members {
				switch {
				case i == skip:
				case i == at:
					parts = append(parts, bytes.Join([][]byte{m[0], instead}, []byte{':'}))
				default:
					parts = append(parts, bytes.Join(m[:], []byte{':'}))
				}
			}
			if more != "" {
				parts = append(parts, []byte(more))
			}
			return append(append([]byte{'{'}, bytes.Join(parts, []byte{','})...), '}')
		}
		out = append(out, join(-1, -1, nil, `"zz":1`))
		i := 0
		for it := v.Iter(); it.Next(); i++ {
			out = append(out, join(i, -1, nil, ""), join(-1, i, []byte("null"), ""))
			for _, inner := range spoil(it.Value()) {
				out = append(out, join(-1, i, inner, ""))
			}
		}
	case crypto.Array:
		n := v.Len()
		for i := range n {
			for _, inner := range spoil(v.At(i)) {
				var parts [][]byte
				for j := range n {
					if j == i {
						parts = append(parts, inner)
					} else {
						parts = append(parts, v.At(j).Append(nil))
					}
				}
				out = append(out, append(append([]byte{'['}, bytes.Join(parts, []byte{','})...), ']'))
			}
		}
	}
	return out
}
