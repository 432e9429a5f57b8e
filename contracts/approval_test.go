package contracts

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A request travels to an approver as JSON without changing: an approval of the copy is an approval
// of the original.
func TestRequestTravels(t *testing.T) {
	t.Parallel()
	r := sampleRequest()
	r.Caller.ID = "a<b>&c\u2028\"é\\"
	bare := ApprovalRequest{Nonce: strings.Repeat("00", 16), Quorum: 1, Session: "s", Tool: "t"}
	for name, r := range map[string]ApprovalRequest{"full": r, "bare": bare} {
		text, err := json.Marshal(map[string]any{"pending": &r, "by value": r})
		require.NoError(t, err)
		for _, text := range [][]byte{text, indented(t, text)} {
			var got struct {
				Pending *ApprovalRequest
				Value   ApprovalRequest `json:"by value"`
			}
			if err := json.Unmarshal(text, &got); err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			assert.True(t, got.Pending.Digest() == r.Digest() && got.Value.Digest() == r.Digest() &&
				bytes.Equal(got.Value.Append(nil), r.Append(nil)), "%s: arrived as %+v", name, got.Pending)
			there, err := got.Value.Approve(keyOf(t, "ann"))
			here, err2 := r.Approve(keyOf(t, "ann"))
			assert.True(t, err == nil && err2 == nil && bytes.Equal(there, here), "%s: another approval: %v %v", name,
				err, err2)
		}
		b, err := r.MarshalJSON()
		assert.True(t, err == nil && bytes.Equal(b, r.Append(nil)), "%s: %s, %v", name, b, err)
	}
	for name, change := range map[string]func(*ApprovalRequest){"not UTF-8": func(r *ApprovalRequest) {
		r.Tool = "\xff"
	}, "of 12047": func(r *ApprovalRequest) { r.Expires = 318_000_000_000_000 }} {
		r := sampleRequest()
		change(&r)
		b, err := json.Marshal(r)
		assert.Error(t, err, "%s: written as %s", name, b)
	}
}

func indented(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, json.Indent(&out, b, " ", "\t"))
	return out.Bytes()
}

// A request that is refused leaves the value unchanged.
func TestRequestRefused(t *testing.T) {
	t.Parallel()
	full := sampleRequest()
	kept := full.Digest()
	refuse := func(what string, text []byte) {
		t.Helper()
		r := sampleRequest()
		var f *FormatError
		err := r.UnmarshalJSON(text)
		assert.True(t, err != nil && errors.As(err, &f) && r.Digest() == kept, "%s: %v, %+v", what, err, r)
		err = json.Unmarshal(text, &r)
		assert.True(t, err != nil && r.Digest() == kept, "%s: by package json: %v, %+v", what, err, r)
	}
	refused, taken := 0, 0
	for _, a := range attacks(value(t, string(full.Append(nil))), "") {
		var r ApprovalRequest
		if err := r.UnmarshalJSON(a.text); err == nil {
			if taken++; !bytes.Equal(r.Append(nil), value(t, string(a.text)).Append(nil)) {
				t.Errorf("%s %s: became %s", a.at, a.with, r.Append(nil))
			}
			continue
		}
		refuse(a.at+" "+a.with, a.text)
		refused++
	}
	assert.True(t, refused >= 250 && taken <= 60, "%d refused, %d taken", refused, taken)
	for how, text := range respell(t, string(full.Append(nil))) {
		var r ApprovalRequest
		switch err := r.UnmarshalJSON([]byte(text)); how {
		// other spellings of the same
		case "a space", "a space before", "a line feed after", "an escaped name", "last member first":
			assert.True(t, err == nil && r.Digest() == kept, "%s: %v", how, err)
		default:
			refuse(how, []byte(text))
		}
	}
	refuse("64 KiB", append([]byte(`{"zz":"`+strings.Repeat("x", maxRequest)), `"}`...))
	refuse("names by letter case", bytes.Replace(full.Append(nil), []byte(`"tool"`), []byte(`"Tool"`), 1))
}

// Approve and Refuse are of the request they are of, and differ from each other, by signer, and by
// every field.
func TestApprovalsDiffer(t *testing.T) {
	t.Parallel()
	ann, bob := keyOf(t, "ann"), keyOf(t, "bob")
	seen := map[Digest]string{}
	add := func(name string, e Envelope, err error) {
		t.Helper()
		require.NoError(t, err)
		assert.Empty(t, seen[e.Digest()], "%s is not the only one of its digest", name)
		seen[e.Digest()] = name
	}
	sign := func(name string, r ApprovalRequest) {
		t.Helper()
		e, err := r.Approve(ann)
		add(name, e, err)
		e, err = r.Refuse(ann)
		add(name+" refused", e, err)
		e, err = r.Approve(bob)
		add(name+" by bob", e, err)
		e, err = Approval{Request: r, Time: r.NotBefore + 1, Verdict: Allow}.Sign(ann)
		add(name+" later", e, err)
	}
	sign("as it is", sampleRequest())
	for name, change := range map[string]func(*ApprovalRequest){
		"args":           func(r *ApprovalRequest) { r.ArgsHash[0]++ },
		"caller":         func(r *ApprovalRequest) { r.Caller.ID = "eve" },
		"tenant":         func(r *ApprovalRequest) { r.Caller.Tenant = "" },
		"caller's roles": func(r *ApprovalRequest) { r.Caller.Roles = nil },
		"expires":        func(r *ApprovalRequest) { r.Expires++ },
		"nonce":          func(r *ApprovalRequest) { r.Nonce = strings.Repeat("1", 32) },
		"notBefore":      func(r *ApprovalRequest) { r.NotBefore-- },
		"policy":         func(r *ApprovalRequest) { r.PolicyHash[31]++ },
		"quorum":         func(r *ApprovalRequest) { r.Quorum-- },
		"roles":          func(r *ApprovalRequest) { r.Roles = r.Roles[:1] },
		"schema":         func(r *ApprovalRequest) { r.SchemaHash[1]++ },
		"session":        func(r *ApprovalRequest) { r.Session = "main" },
		"tool":           func(r *ApprovalRequest) { r.Tool = "send" },
	} {
		r := sampleRequest()
		if change(&r); r.Digest() == ptr(sampleRequest()).Digest() {
			t.Errorf("%s is not in the digest", name)
		}
		sign(name, r)
	}
	assert.Len(t, seen, 14*4, "%d approvals", len(seen))
}

// Any bytes: no panic, and an accepted request is the same after it is written and read again.
func FuzzRequest(f *testing.F) {
	r := sampleRequest()
	f.Add(r.Append(nil))
	f.Add(append(r.Append([]byte(" ")), 10))
	for i, a := range attacks(value(f, string(r.Append(nil))), "") {
		if i%4 == 0 {
			f.Add(a.text)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var r, again ApprovalRequest
		if err := r.UnmarshalJSON(b); err != nil {
			return
		}
		text, err := r.MarshalJSON()
		require.NoError(t, err)
		err = again.UnmarshalJSON(text)
		require.True(t, err == nil && again.Digest() == r.Digest(), "%v: %s", err, text)
	})
}
