package office

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
)

// TestAnswers expects that an answer is presented to the call that was asked about, once, and to no
// other.
func TestAnswers(t *testing.T) {
	o, err := Open(io.Discard)
	require.NoError(t, err)
	defer o.Close()
	refund := func(session, args string) contracts.ReasonCode {
		d, _ := o.Guard(t.Context(), helm.Intent{Tool: "invoice_refund", Args: json.RawMessage(args), Caller: Bob(),
			Session: session})
		return d.Reason
	}
	const args, more = `{"amount":80,"number":"4711"}`, `{"amount":81,"number":"4711"}`
	require.Equal(t, contracts.ReasonApprovalRequired, refund("bob/1", args))
	require.NoError(t, o.Answer())
	assert.Equal(t, contracts.ReasonApprovalRequired, refund("bob/2", args), "another conversation")
	assert.Equal(t, contracts.ReasonApprovalRequired, refund("bob/1", more), "other arguments")
	assert.Empty(t, o.Shop.Ran())
	assert.Equal(t, contracts.ReasonAllow, refund("bob/1", args))
	assert.Equal(t, contracts.ReasonApprovalRequired, refund("bob/1", args), "it was for one call")
	assert.Equal(t, []string{"invoice_refund " + args}, o.Shop.Ran())
}

func TestNoArguments(t *testing.T) {
	o, err := Open(io.Discard)
	require.NoError(t, err)
	defer o.Close()
	d, _ := o.Guard(t.Context(), helm.Intent{Tool: "invoice_find", Caller: Bob(), Session: "bob/1"})
	assert.Equal(t, contracts.ReasonSchemaViolation, d.Reason, "judged as {}")
	for _, none := range []any{nil, map[string]any(nil)} {
		args, err := Args(none)
		assert.NoError(t, err)
		assert.Equal(t, "{}", string(args))
	}
	_, err = Args(func() {})
	assert.Error(t, err)
}

// TestSession expects names that are legal and that do not run into each other.
func TestSession(t *testing.T) {
	names := make(map[string]bool)
	for _, ids := range [][]string{{"bob/1", "2"}, {"bob", "1/2"}, {"bob", "1", "2"}, {"bob", ""},
		{"bob\xff"}, {"bob\xfe"}, {"@" + strings.Repeat("ü ", 200)}} {
		name := Session(ids...)
		assert.Regexp(t, "^s-[0-9a-f]{32}$", name)
		assert.False(t, names[name], "%q: the name of others", ids)
		names[name] = true
	}
}
