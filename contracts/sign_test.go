package contracts

import (
	"bytes"
	stdcrypto "crypto"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/crypto"
)

// Sign refuses records that the reader would refuse, or would read as another record.
func TestSignRefuses(t *testing.T) {
	t.Parallel()
	k := keyOf(t, "signer")
	request := func(change func(*ApprovalRequest)) func(crypto.Signer) (Envelope, error) {
		r := sampleRequest()
		change(&r)
		return r.Approve
	}
	grant := func(change func(*Delegation)) func(crypto.Signer) (Envelope, error) {
		d := Delegation{Delegate: "bob", Delegator: "alice", Expires: 5, Nonce: "n", Only: []string{"t"}}
		change(&d)
		return d.Sign
	}
	word := func(change func(*Attestation)) func(crypto.Signer) (Envelope, error) {
		a := Attestation{Claims: value(t, `{}`), Type: "x"}
		change(&a)
		return a.Sign
	}
	far := Time(318_000_000_000_000) // in the year 12047, whose text would be that of 2047
	for name, c := range map[string]struct {
		sign func(crypto.Signer) (Envelope, error)
		says string
	}{
		"nonce in capitals": {request(func(r *ApprovalRequest) { r.Nonce = strings.Repeat("0F", 16) }),
			"nonce"},
		"no nonce":              {request(func(r *ApprovalRequest) { r.Nonce = "" }), "nonce"},
		"quorum 0":              {request(func(r *ApprovalRequest) { r.Quorum = 0 }), "quorum"},
		"quorum beyond doubles": {request(func(r *ApprovalRequest) { r.Quorum = 1 << 53 }), "quorum"},
		"roles not sorted":      {request(func(r *ApprovalRequest) { r.Roles = []string{"b", "a"} }), "roles"},
		"a role twice":          {request(func(r *ApprovalRequest) { r.Roles = []string{"a", "a"} }), "roles"},
		"a role not UTF-8":      {request(func(r *ApprovalRequest) { r.Roles = []string{"a\xff"} }), "not UTF-8"},
		"33 roles": {request(func(r *ApprovalRequest) { r.Roles = slices.Repeat([]string{"a"}, 33) }),
			"33 elements"},
		"the kernel's session": {request(func(r *ApprovalRequest) { r.Session = "" }), "session"},
		"@refused":             {request(func(r *ApprovalRequest) { r.Session = "@refused" }), "session"},
		"no tool":              {request(func(r *ApprovalRequest) { r.Tool = "" }), "tool"},
		"caller not UTF-8":     {request(func(r *ApprovalRequest) { r.Caller.ID = "a\xff" }), "not UTF-8"},
		"caller of 257 bytes": {request(func(r *ApprovalRequest) { r.Caller.ID = strings.Repeat("x", 257) }),
			"id"},
		"caller's roles not sorted": {request(func(r *ApprovalRequest) { r.Caller.Roles = []string{"b", "a"} }),
			"roles"},
		"expires in 12047":       {request(func(r *ApprovalRequest) { r.Expires = far }), "years"},
		"expires before 1970":    {request(func(r *ApprovalRequest) { r.Expires = -1 }), "years"},
		"not before 12047":       {request(func(r *ApprovalRequest) { r.NotBefore = far }), "years"},
		"no delegate":            {grant(func(d *Delegation) { d.Delegate = "" }), "delegate"},
		"delegate not UTF-8":     {grant(func(d *Delegation) { d.Delegate = "\xc0\xaf" }), "not UTF-8"},
		"delegator of 257 bytes": {grant(func(d *Delegation) { d.Delegator = strings.Repeat("x", 257) }), "delegator"},
		"a control character":    {grant(func(d *Delegation) { d.Delegator = "a\nb" }), "delegator"},
		"depth beyond doubles":   {grant(func(d *Delegation) { d.Depth = 1 << 53 }), "depth"},
		"no nonce of a grant":    {grant(func(d *Delegation) { d.Nonce = "" }), "nonce"},
		"a pattern of tools":     {grant(func(d *Delegation) { d.Only = []string{"send_*"} }), "only"},
		"an empty tool":          {grant(func(d *Delegation) { d.Only = []string{""} }), "only"},
		"when a list":            {grant(func(d *Delegation) { d.When = value(t, `[]`) }), "when"},
		"when null":              {grant(func(d *Delegation) { d.When = value(t, `null`) }), "when"},
		"too many tools":         {grant(func(d *Delegation) { d.Only = toolNames(4000) }), "want at most 16384"},
		"no claims":              {word(func(a *Attestation) { a.Claims = crypto.Value{} }), "claims"},
		"claims a string":        {word(func(a *Attestation) { a.Claims = value(t, `"x"`) }), "claims"},
		"claims too deep": {word(func(a *Attestation) {
			a.Claims = value(t, `{"a":`+strings.Repeat("[", 127)+strings.Repeat("]", 127)+`}`)
		}), "deep"},
		"claims of 16 KiB": {word(func(a *Attestation) {
			a.Claims = value(t, `{"a":"`+strings.Repeat("x", 16<<10)+`"}`)
		}), "want at most 16384"},
		"no type":                 {word(func(a *Attestation) { a.Type = "" }), "type"},
		"attestation in 12047":    {word(func(a *Attestation) { a.Time = far }), "years"},
		"attestation until 12047": {word(func(a *Attestation) { a.Expires = far }), "years"},
		"attestation until 1969":  {word(func(a *Attestation) { a.Expires = -5 }), "years"},
		"a session with a space":  {word(func(a *Attestation) { a.Session = "a b" }), "session"},
		"no name of a bundle":     {Bundle{}.Sign, "name"},
		"a bundle with a space":   {Bundle{Name: "a b"}.Sign, "name"},
		"version beyond doubles":  {Bundle{Name: "b", Version: 1 << 53}.Sign, "version"},
	} {
		asked := &counted{key: k}
		e, err := c.sign(asked)
		assert.True(t, err != nil && e == nil && strings.HasPrefix(err.Error(), "contracts: sign ") &&
			strings.Contains(err.Error(), c.says), "%s: %v", name, err)
		assert.True(t, asked.signed <= 0, "%s: it was signed, and then refused", name)
	}
	for name, key := range map[string]crypto.Signer{"none": nil, "the zero key": crypto.PrivateKey{},
		"one that lies": &counted{key: k, lies: true}, "one that fails": &counted{key: k, fails: true},
		"one that panics": &counted{key: k, panics: true}} {
		for what, p := range presentedSamples(t) {
			e, err := p.sign(key)
			assert.True(t, err != nil && e == nil && strings.HasPrefix(err.Error(), "contracts: sign "), "%s by %s: %v",
				what, name, err)
		}
	}
	asked := &counted{key: k}
	if _, err := sampleRequest().Approve(asked); err != nil || asked.signed != 1 {
		t.Errorf("by a signer elsewhere: %v, %d times", err, asked.signed)
	}
}

func toolNames(n int) (out []string) {
	for i := range n {
		out = append(out, "tool-"+digest(fmt.Sprint(i)).String()[:8])
	}
	return out
}

// counted is a signer that is not in memory.
type counted struct {
	key                 crypto.PrivateKey
	signed              int
	lies, fails, panics bool
}

func (c *counted) Public() stdcrypto.PublicKey { return c.key.Public() }

func (c *counted) Sign(_ io.Reader, msg []byte, opts stdcrypto.SignerOpts) ([]byte, error) {
	switch c.signed++; {
	case c.fails:
		return nil, errors.New("no")
	case c.panics:
		panic("no")
	case c.lies:
		return make([]byte, 64), nil
	}
	return c.key.Sign(nil, msg, opts)
}

// The largest of each is signed and read; one byte more is not.
func TestPresentedLimits(t *testing.T) {
	t.Parallel()
	k := keyOf(t, "signer")
	sign := func(n int) (Envelope, error) {
		return Attestation{Claims: value(t, `{"a":"`+strings.Repeat("x", n)+`"}`), Type: "x"}.Sign(k)
	}
	e, err := sign(0)
	require.NoError(t, err)
	s, err := new(Reader).Open(e)
	require.NoError(t, err)
	room := MaxPayload - len(s.Payload)
	e, err = sign(room)
	require.NoError(t, err)
	s, err = new(Reader).Open(e)
	require.True(t, err == nil && len(s.Payload) == MaxPayload && len(e) <= MaxEnvelope, "%v, an envelope of %d bytes",
		err, len(e))
	e, err = sign(room + 1)
	assert.True(t, err != nil && e == nil, "a payload of 16385 bytes was signed")
	r := sampleRequest()
	r.Caller = Caller{strings.Repeat("é", 128), strings.Repeat("x", 256), roleNames(32)}
	r.Roles, r.Session, r.Tool = roleNames(32), strings.Repeat("s", 128), strings.Repeat("t", 128)
	e, err = r.Approve(k)
	assert.True(t, err == nil && len(e) <= MaxEnvelope && len(r.Append(nil)) >= 5000,
		"the largest request: %d bytes, %v", len(e), err)
}

func roleNames(n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("%02d", i)+strings.Repeat("x", 62))
	}
	slices.Sort(out)
	return out
}

// Sign does not change its arguments, and the order and repeats of tools do not matter.
func TestSignLeavesItsArguments(t *testing.T) {
	t.Parallel()
	k := keyOf(t, "signer")
	only := []string{"b", "a", "b"}
	d := Delegation{Delegate: "bob", Delegator: "alice", Expires: 5, Nonce: "n", Only: only}
	e, err := d.Sign(k)
	require.NoError(t, err)
	assert.True(t, slices.Equal(only, []string{"b", "a", "b"}) && d.Key == (Digest{}), "changed: %v %s", only, d.Key)
	d.Only = []string{"a", "b"}
	again, err := d.Sign(k)
	assert.True(t, err == nil && bytes.Equal(again, e), "another grant: %v", err)
	d.Key = digest("another")
	again, err = d.Sign(k)
	assert.True(t, err == nil && bytes.Equal(again, e), "Key is not filled in: %v", err)
}
