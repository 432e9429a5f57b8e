package approval

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An approver gets the request and the arguments as JSON, and sees by these two alone what they
// sign: the call as it was judged, with its defaults, and nothing else.
func TestApproverSeesWhatTheySign(t *testing.T) {
	t.Parallel()
	b := kerneltest.NewBank(t)
	d := b.MustNotPay(contracts.ReasonApprovalRequired)
	assert.Equal(t, `{"amount":900,"note":"none","to":"landlord"}`, string(d.Args))
	sent, err := json.MarshalIndent(d.Args, "", " ")
	require.NoError(t, err)
	var asked contracts.ApprovalRequest
	question, err := json.Marshal(d.Pending)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(question, &asked))
	require.NoError(t, asked.About(d.Args))
	require.NoError(t, asked.About(sent))
	for _, other := range []string{
		kerneltest.Rent, `{"amount":901,"note":"none","to":"landlord"}`,
		`{"amount":900,"note":"none","to":"landlord","to":"mallory"}`,
		`{"amount":900,"note":"none","to":"landlord"} {}`, `"x"`, `null`, ``,
	} {
		assert.Error(t, asked.About([]byte(other)), other)
		if err := asked.About([]byte(other)); err != nil {
			assert.NotContains(t, err.Error(), "mallory")
		}
	}
	d.Args[2] = 'x' // the caller's own copy
	b.MustPay(b.Approve(*d.Pending, kerneltest.Ann))
	d, _ = b.Do("look", `{"account":"a"}`)
	assert.Nil(t, d.Args, "nobody is asked")
	b.MustPass()
}

// An approver who is reached through a wrapped function gets the same arguments from its error.
// They are not in its text, or in a log that prints its fields.
func TestApproverBehindWrap(t *testing.T) {
	t.Parallel()
	b := kerneltest.NewBank(t)
	d := b.MustNotPay(contracts.ReasonApprovalRequired)
	var e *helm.Error
	require.ErrorAs(t, d.Err(), &e)
	assert.Equal(t, string(d.Args), string(e.Args()))
	require.NoError(t, e.Pending.About(e.Args()))
	fields, err := json.Marshal(e)
	require.NoError(t, err)
	for _, text := range []string{e.Error(), fmt.Sprintf("%v %+v", e, e), string(fields)} {
		assert.NotContains(t, text, "landlord")
	}
	d, _ = b.Do("look", `{"account":1}`)
	require.ErrorAs(t, d.Err(), &e)
	assert.Nil(t, e.Args(), "nobody is asked")
	assert.Nil(t, (*helm.Error)(nil).Args())
	b.MustPass()
}

func TestRequestOfNothing(t *testing.T) {
	t.Parallel()
	assert.Error(t, contracts.ApprovalRequest{}.About([]byte(`{}`)))
	assert.Error(t, contracts.ApprovalRequest{}.About(nil))
}
