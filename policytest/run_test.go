package policytest

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBank(t *testing.T) {
	t.Parallel()
	s, err := Load(os.DirFS("testdata"), "bank_cases.yaml")
	require.NoError(t, err)
	r, err := s.Run(t.Context(), Options{Mutate: true})
	require.NoError(t, err)
	for _, c := range r.Cases {
		t.Logf("%s %v %v", c.Name, c.Failures, c.Steps)
	}
	t.Log(r.Coverage)
	for _, m := range r.Mutants {
		t.Log(m, m.Survived, m.Cases, m.Killer)
	}
}
