package guardian

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/helmkernel/helm/contracts"
)

const (
	pin      = "5d41402abc4b2a76b9719d911017c592ae2c0b1f3e4f5a6b7c8d9e0f1a2b3c4d"
	pinned   = `{"helm":"policy/v1","layer":"P1","bundle":{"name":"remote","version":1},"tools":{"t":{"effect":"read","input":{"type":"object"},"definition":"` + pin + `"},"u":{"effect":"read","input":{"type":"object"}}},"rules":[{"id":"all","allow":["t","u"]}]}`
	pinAlone = `"` + pin + `"`
)

// A pin is 64 lower-case hexadecimal digits that are the digest of something: no spelling that
// means nothing, and none that means the same.
func TestDefinitionRefusals(t *testing.T) {
	t.Parallel()
	mustCompile(t, pinned) // or the refusals would prove nothing
	for _, written := range []string{`""`, `null`, `true`, `12`, `[]`, `{}`, `[` + pinAlone + `]`, `"` + pin[1:] + `"`,
		`"` + pin + `0"`, `"` + strings.ToUpper(pin) + `"`,
		`" ` + pin[1:] + `"`, `"sha256:` + pin + `"`, `"` + pin[:63] + `g"`, `"` + strings.Repeat("0", 64) + `"`,
		`"none"`} {
		e := mustRefuse(t, document(t, "b.yaml", strings.Replace(pinned, pinAlone, written, 1)))
		assert.True(t, e.Pointer == "/tools/t/definition" && e.Remedy != "", "%s: %v", written, e)
	}
	for _, elsewhere := range []string{
		strings.Replace(pinned, `"layer"`, `"definition":`+pinAlone+`,"layer"`, 1),
		strings.Replace(pinned, `"id":"all"`, `"definition":`+pinAlone+`,"id":"all"`, 1),
		strings.Replace(pinned, `"definition"`, `"definitions"`, 1),
		strings.Replace(pinned, `"definition"`, `"Definition"`, 1),
	} {
		mustRefuse(t, document(t, "b.yaml", elsewhere))
	}
}

// What the tool pins is asked for by name, and is of the PolicyHash. Where no driver that declares
// it is bound the denial says so, and replays from the inputs; the driver of another tool needs
// none.
func TestDefinition(t *testing.T) {
	t.Parallel()
	p := mustCompile(t, pinned)
	d, ok := p.Definition("t")
	assert.True(t, ok && d.String() == pin, "%v %v", d, ok)
	for name, p := range map[string]*Policy{"u": p, "nobody": p, "t": nil} {
		d, ok := p.Definition(name)
		assert.True(t, !ok && d == (contracts.Digest{}), "%s: %v %v", name, d, ok)
	}
	if other := mustCompile(t, strings.Replace(pinned, "5d41", "5d42", 1)); other.Hash() == p.Hash() {
		t.Error("another pin is the same policy")
	}
	for _, c := range []struct {
		tool    string
		drivers uint64
		reason  contracts.ReasonCode
		says    string
	}{
		{"t", 1, contracts.ReasonAllow, ""},
		{"t", 0, contracts.ReasonDriverNotBound, "definition"},
		{"t", 2, contracts.ReasonDriverNotBound, "two drivers"},
		{"u", 1, contracts.ReasonAllow, ""},
		{"u", 0, contracts.ReasonDriverNotBound, "no driver is bound: set"},
	} {
		in := inputs(t, c.tool, `{}`)
		in.Drivers = c.drivers
		r, why := p.judged(in, nil)
		assert.True(t, r.Reason == c.reason && strings.Contains(why.String(), c.says) &&
			(c.reason == contracts.ReasonAllow || r.Condition == 1), "%s with %d drivers: %s at %d, %v", c.tool,
			c.drivers, r.Reason, r.Condition, why)
	}
}
