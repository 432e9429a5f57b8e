package policy

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian"
)

const requiringText = `helm: policy/v1
layer: P1
bundle: {name: bank, version: 2}
tools:
  list:
    effect: read
    input: {type: object, properties: {iban: {type: string}}}
  pay:
    effect: write
    input: {type: object, required: [to, amount], properties: {to: {type: string}, amount: {type: number}}}
rules:
  - {id: all, allow: [list, pay]}
requires:
  - id: looked
    tools: pay
    all:
      - {receipt: list, same: {/iban: /to}, max_age: 30m}
  - id: large
    tools: [pay]
    when: {arg: /amount, gt: 100}
    any:
      - {approval: {roles: [owner, cfo], quorum: 2, ttl: 1h}}
      - attestation: {type: four-eyes, bind: {payee: /to}, max_age: 10m}
`

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
	for _, c := range []struct{ right, wrong, want string }{
		{"receipt: list", "receipt: lists",
			`bank.yaml:17:19: /requires/0/all/0/receipt: no tool "lists" in this bundle; did you mean list?`},
		{"{/iban: /to}", "{/ibn: /to}",
			`bank.yaml:17:38: /requires/0/all/0/same/~1ibn: no "/ibn" in the input of list; name what the ` +
				`schema declares`},
		{"receipt: list, same: {/iban: /to}", "receipt: pay, same: [/to]",
			`bank.yaml:14:5: /requires/0: can never be met: pay needs a receipt of pay; need something else, or let ` +
				`it apply under a condition`},
		{"max_age: 30m", "max_age: 30",
			`bank.yaml:17:54: /requires/0/all/0/max_age: a number is no duration; write it like 5s, 10m, 24h or 7d`},
		{"quorum: 2", "quorum: 0",
			`bank.yaml:22:50: /requires/1/any/0/approval/quorum: no quorum; write how many people must approve: an ` +
				`integer from 1 to 16, for no call presents more approvals`},
		{"attestation: {type", "atestation: {type",
			`bank.yaml:23:21: /requires/1/any/1/atestation: unknown key "atestation"; did you mean attestation?`},
		{", max_age: 10m}", "}", `bank.yaml:23:22: /requires/1/any/1/attestation: no max_age; add max_age`},
		{"id: large", "id: looked",
			`bank.yaml:18:9: /requires/1/id: a second rule of id "looked"; choose another: rules, requirements and ` +
				`budgets are told apart by it`},
	} {
		require.Equal(t, 1, strings.Count(requiringText, c.right), "%q is not once in the document", c.right)
		p, err := guardian.Compile(mustParse(t, "bank.yaml", strings.Replace(requiringText, c.right, c.wrong, 1)))
		if p != nil || err == nil || err.Error() != c.want {
			t.Errorf("%v\n\twant %s", err, c.want)
		}
	}
}
