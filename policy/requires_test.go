package policy

import (
	_ "embed"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/table"
)

//go:embed testdata/requiring.yaml
var requiringText string

// A bundle with requirements is read from a file and requires what it says; a faulty one is refused
// with line and column.
func TestRequires(t *testing.T) {
	t.Parallel()
	p, err := guardian.Compile(mustParse(t, "bank.yaml", requiringText))
	require.NoError(t, err)
	looked := had{"list": workday}
	for _, c := range []struct {
		past had
		args string
		want contracts.ReasonCode
		rule string
	}{
		{nil, `{"amount":5,"to":"GB29"}`, contracts.ReasonMissingRequirement, "P1:bank:looked"},
		{looked, `{"amount":5,"to":"GB29"}`, contracts.ReasonAllow, "P1:bank:all"},
		{looked, `{"amount":500,"to":"GB29"}`, contracts.ReasonApprovalRequired, "P1:bank:large"},
	} {
		r := judgedAfter(t, p, c.past, "pay", c.args, func(in *contracts.Inputs) { in.Session = "chat-1" })
		if r.Reason != c.want || r.Rule != c.rule ||
			(r.Pending != nil) != (c.want == contracts.ReasonApprovalRequired) {
			t.Errorf("%s: %v by %q", c.args, r.Reason, r.Rule)
		}
	}
	for _, c := range table.Read[struct{ Right, Wrong, Want string }](t, "requires", 8) {
		require.Equal(t, 1, strings.Count(requiringText, c.Right), "%q is not once in the document", c.Right)
		p, err := guardian.Compile(mustParse(t, "bank.yaml", strings.Replace(requiringText, c.Right, c.Wrong, 1)))
		if p != nil || err == nil || err.Error() != c.Want {
			t.Errorf("%v\n\twant %s", err, c.Want)
		}
	}
}
