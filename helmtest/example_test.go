package helmtest_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/helmtest"
	"github.com/helmkernel/helm/policy"
)

func TestPolicy(t *testing.T) { helmtest.Policy(t, "testdata/*_cases.yaml") }

func TestRefunds(t *testing.T) {
	p, err := policy.Load("testdata/shop.yaml")
	require.NoError(t, err)
	w := helmtest.New(t, p).As(helm.Caller{ID: "ann", Roles: []string{"clerk"}})
	w.Call("refund", `{"amount": 50}`).Allow().By("P1:shop:small").Ran(1)
	w.Call("refund", `{"amount": 51}`).Deny(contracts.ReasonNoPolicyDefined).Ran(0)
}

func FuzzRefunds(f *testing.F) {
	p, err := policy.Load("testdata/shop.yaml")
	require.NoError(f, err)
	clerk := helm.Caller{ID: "ann", Roles: []string{"clerk"}}
	seeds := []helm.Intent{{Tool: "refund", Args: json.RawMessage(`{"amount": 5}`), Caller: clerk, Session: "s"}}
	helmtest.Fuzz(f, p, seeds, func(in helm.Intent) error {
		var args struct{ Amount int }
		if err := json.Unmarshal(in.Args, &args); err != nil || args.Amount > 50 {
			return errors.New("more than 50, or not an amount")
		}
		return nil
	})
}
