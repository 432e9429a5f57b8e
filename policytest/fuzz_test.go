package policytest

import (
	"os"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/internal/several"
)

// FuzzLoad: whatever a file of cases says, Load returns a suite or faults, each with a remedy. A
// suite runs.
func FuzzLoad(f *testing.F) {
	bank, err := os.ReadFile("testdata/bank.yaml")
	require.NoError(f, err)
	task, err := os.ReadFile("testdata/task.yaml")
	require.NoError(f, err)
	for _, text := range []string{goodCases, everyKey, "helm: cases/v1\npolicy: [bank.yaml]\ncases: []\n"} {
		f.Add(text)
	}
	for _, x := range faults[:20] {
		f.Add(x.new)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<16 {
			return
		}
		s, err := Load(fstest.MapFS{
			"c.yaml": {Data: []byte(text)}, "bank.yaml": {Data: bank}, "task.yaml": {Data: task},
			"talk.json": {Data: []byte(story)},
		}, "c.yaml")
		if err != nil {
			require.Nil(t, s)
			require.NotEmpty(t, several.All(err))
			return
		}
		r, err := s.Run(t.Context(), Options{Parallel: 1})
		if err == nil {
			require.NotEmpty(t, r.Cases)
			require.NotEmpty(t, r.String())
		}
	})
}
