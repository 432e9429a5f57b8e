package helmtest

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
)

func TestTranscript(t *testing.T) {
	t.Parallel()
	w := desk(t)
	for _, tool := range []string{"pay", "run", "say"} {
		w.Tool(tool, func(context.Context, json.RawMessage) (json.RawMessage, error) {
			t.Error("a tool ran")
			return nil, nil
		})
	}
	v := Transcript(t, w, "testdata/desk.json")
	require.Len(t, v.Calls, 4)
	for i, want := range []contracts.ReasonCode{
		contracts.ReasonAllow, contracts.ReasonApprovalRequired, contracts.ReasonAllow, contracts.ReasonNoPolicyDefined,
	} {
		assert.Equal(t, want, v.Calls[i].Reason, "call %d: %s", i+1, v)
	}
	assert.Equal(t, []int{2, 1, 1, 2}, []int{v.Allow, v.Deny, v.Person, v.First})
	assert.Equal(t, w.session, "test")

	w.User("say hello") // the host's word: then the text is the user's, in this session
	v = Transcript(t, w, "testdata/desk.json")
	assert.Equal(t, contracts.ReasonAllow, v.Calls[3].Reason)
	v = Transcript(t, w.In("other"), "testdata/desk.json")
	assert.Equal(t, contracts.ReasonNoPolicyDefined, v.Calls[3].Reason)
}
