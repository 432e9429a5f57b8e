package helmtest

import (
	"encoding/json"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/policy"
)

// own are policies of this repository, and a sentence of what each may allow.
var own = map[string]struct {
	files    []string
	seeds    []helm.Intent
	sentence func(args map[string]any, in helm.Intent) error
}{
	"quickstart": {
		[]string{"../examples/quickstart/policy.yaml"},
		[]helm.Intent{
			call("fs.read", `{"path": "/notes/a.txt"}`, clerk),
			call("fs.list", `{}`, clerk),
			call("fs.write", `{"path": "/notes/b.txt", "text": "b"}`, editor),
			call("fs.delete", `{"path": "/trash/b.txt"}`, editor),
		},
		func(args map[string]any, in helm.Intent) error {
			p := text(args, "path")
			switch {
			case !below("/notes", p) && !below("/trash", p), path.Clean(p) != p:
				return unless(false, "outside")
			case strings.Contains(p, "/."):
				return unless(false, "hidden")
			case in.Tool == "fs.write" || in.Tool == "fs.delete":
				return unless(slices.Contains(in.Caller.Roles, "editor") &&
					!strings.Contains(strings.ToLower(text(args, "text")), "password") &&
					(in.Tool == "fs.write" || below("/trash", p)), "no editor, a password, or not in the trash")
			}
			return nil
		},
	},
	"middleware": {
		[]string{"../examples/middleware/policy.yaml"},
		[]helm.Intent{call("order.refund", `{"number": "4711", "amount": 50}`, helm.Caller{})},
		func(args map[string]any, in helm.Intent) error {
			return unless(len(text(args, "number")) == 4 &&
				(in.Tool == "order.find" || amount(args, "amount") > 0 && amount(args, "amount") <= 50), "not as it was meant")
		},
	},
	"approvals": {
		[]string{"../examples/approvals/policy.yaml"},
		[]helm.Intent{call("bank.pay", `{"to": "landlord", "amount": 50}`, helm.Caller{})},
		func(args map[string]any, _ helm.Intent) error { // nobody approves here
			return unless(amount(args, "amount") >= 1 && amount(args, "amount") <= 50, "more than 50")
		},
	},
	"audit": {
		[]string{"../examples/audit/policy.yaml"},
		[]helm.Intent{call("refund.pay", `{"order": "4711", "euros": 80}`, clerk),
			call("order.read", `{"order": "1"}`, clerk)},
		func(args map[string]any, in helm.Intent) error {
			return unless(slices.Contains(in.Caller.Roles, "clerk") && (in.Tool == "order.read" ||
				amount(args, "euros") >= 1 && amount(args, "euros") <= 500), "no clerk, or too much")
		},
	},
	"layers": {
		[]string{"../examples/layers/floor.yaml", "../examples/layers/bundle.yaml"},
		[]helm.Intent{
			call("invoice.credit", `{"number": "4711", "amount": 80}`, clerk), call("invoice.list", `{}`, clerk),
			call("invoice.delete", `{"number": "4711"}`, clerk),
		},
		func(args map[string]any, in helm.Intent) error {
			return unless(slices.Contains(in.Caller.Roles, "clerk") && in.Tool != "invoice.delete" &&
				(in.Tool != "invoice.credit" || amount(args, "amount") > 0 && amount(args, "amount") <= 400 &&
					!slices.Contains(in.Caller.Roles, "guest")), "not as it was meant")
		},
	},
	"bank": {
		[]string{"../policytest/testdata/bank.yaml"},
		[]helm.Intent{
			call("list_payments", `{}`, clerk), call("send_money", `{"to": "GB29NWBK60161331926819", "amount": 5}`, clerk),
		},
		func(args map[string]any, in helm.Intent) error { // the user says nothing here, and nothing was paid
			return unless(slices.Contains(in.Caller.Roles, "clerk") && (in.Tool == "list_payments" ||
				amount(args, "amount") > 0 && amount(args, "amount") <= 1000 && !strings.Contains(text(args, "note"), "://") &&
					slices.Contains([]string{"GB29NWBK60161331926819", "SE3550000000054910000003"}, text(args, "to"))),
				"a stranger, or too much")
		},
	},
}

var editor = helm.Caller{ID: "eve", Tenant: "acme", Roles: []string{"editor"}}

func call(tool, args string, c helm.Caller) helm.Intent {
	return helm.Intent{Tool: tool, Args: json.RawMessage(args), Caller: c, Session: "s"}
}

// Fuzz finds nothing in the policies of this repository.
func TestFuzzOwnPolicies(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	most := 1000
	if testing.Short() {
		most = 200
	}
	for name, o := range own {
		p, err := policy.Load(o.files...)
		require.NoError(t, err, name)
		ran := map[string]int{}
		z, err := newFuzzer(p, o.seeds, func(in helm.Intent) error {
			ran[in.Tool]++
			var args map[string]any
			require.NoError(t, json.Unmarshal(in.Args, &args))
			return o.sentence(args, in)
		})
		require.NoError(t, err, name)
		calls, fault := search(t, z, most)
		require.NoError(t, fault, name)
		assert.GreaterOrEqual(t, calls, most, name)
		for _, in := range o.seeds {
			if in.Tool != "invoice.delete" { // the floor
				assert.Greater(t, ran[in.Tool], most/100, "%s: %s hardly ran", name, in.Tool)
			}
		}
	}
}
