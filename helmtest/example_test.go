package helmtest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/helmtest"
	"github.com/helmkernel/helm/policy"
)

func TestRefunds(t *testing.T) {
	p, err := policy.Load("testdata/shop.yaml")
	require.NoError(t, err)
	w := helmtest.New(t, p).As(helm.Caller{ID: "ann", Roles: []string{"clerk"}})
	w.Call("refund", `{"amount": 50}`).Allow().By("P1:shop:small").Ran(1)
	w.Call("refund", `{"amount": 51}`).Deny(contracts.ReasonNoPolicyDefined).Ran(0)
}
