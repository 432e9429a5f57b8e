package helmtest

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
)

// A failure shows none of the values of a call, unless go test has -v.
func TestFailuresHideValues(t *testing.T) {
	t.Parallel()
	secrets := 0
	secret := func() (list string) {
		for range 20 {
			secrets++
			list += fmt.Sprintf("s3cret%d ", secrets)
		}
		return list
	}
	var w *World
	for i := range 50 {
		if i%5 == 0 { // each block reads the whole log
			w = desk(t).User("s3cret0")
		}
		for _, r := range []*Result{
			w.Call("say", map[string]any{"text": secret()}),
			w.Call("pay", map[string]any{"amount": 5, "currency": secret(), "to": map[string]any{"iban": secret()}}),
			w.Call("pay", map[string]any{"amount": secret()}),
			w.Call("list", `{"`+secret()+`": `),
			w.Call("pay", `{"amount": "`+secret()+`", "amount": 1}`),
		} {
			assert.NotContains(t, r.block("verdict: want ALLOW, got DENY", false), "s3cret")
			require.Contains(t, r.block("verdict: want ALLOW, got DENY", true), "s3cret", "or that would prove nothing")
		}
		// Why names a key that the schema does not, but not what the call is shown by.
		r := w.Call("pay", map[string]any{secret(): map[string]any{secret(): secret()}})
		assert.NotContains(t, r.called(false), "s3cret")
	}
	assert.Equal(t, 9_000, secrets)
}

// Worlds over one kernel may be used by many goroutines.
func TestWorldsTogether(t *testing.T) {
	t.Parallel()
	w := desk(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			mine := w.In(fmt.Sprintf("s%d", i)).User("please say hello")
			mine.Tool("list", counted)
			for range 10 {
				mine.Call("pay", `{"amount": 5}`).Allow().Ran(1)
				mine.As(helm.Caller{}).Call("pay", `{"amount": 5}`).Deny(contracts.ReasonNoPolicyDefined).Ran(0)
				mine.Call("say", `{"text": "hello"}`).Allow().Ran(1)
			}
		}()
	}
	wg.Wait()
	c := w.Coverage()
	assert.Positive(t, c.Percent())
}
