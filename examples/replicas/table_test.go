package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
)

// invented returns a log and the bank's book of it.
func invented() (*ledger, []order) {
	return &ledger{
			ran: map[string]ran{
				"a/1": {tool: "bank.look", version: 1, by: "two"},
				"a/3": {tool: "bank.pay", version: 1, euros: 30, by: "one"},
				"a/5": {tool: "bank.pay", version: 2, euros: 50, by: "two"},
				"a/7": {tool: "bank.pay", version: 1, euros: 20},
			},
			denied: map[contracts.ReasonCode]int{contracts.ReasonSystemFrozen: 2},
			limit:  100,
		}, []order{
			{Reference: "a/1", Replica: "two", Tool: "bank.look"},
			{Reference: "a/3", Replica: "one", Tool: "bank.pay", Euros: 30},
			{Reference: "a/5", Replica: "two", Tool: "bank.pay", Euros: 50},
			{Reference: "a/7", Replica: "three", Tool: "bank.pay", Euros: 20},
		}
}

func TestPrint(t *testing.T) {
	l, _ := invented()
	var out strings.Builder
	l.print(&out)
	assert.Equal(t, `  replica  policy  looked  paid  euros
  one           1       0     1     30
  two           1       1     0      0
  two           2       0     1     50
  unknown       1       0     1     20
  spent                         100 of 100

  denied: 2 SYSTEM_FROZEN
`, out.String())
}

// TestCompare: each way in which log and book can differ is noticed.
func TestCompare(t *testing.T) {
	l, book := invented()
	unknown, err := l.compare(book)
	require.NoError(t, err)
	assert.Equal(t, 1, unknown)
	unknown, err = l.compare(book[:3])
	require.NoError(t, err, "what is unknown may not have been done")
	assert.Zero(t, unknown)

	for want, change := range map[string]func(l *ledger, book []order) []order{
		"the bank does not know it": func(_ *ledger, b []order) []order { return b[1:] },
		"has done it 2 times":       func(_ *ledger, b []order) []order { return append(b, b[2]) },
		"a/7 has run once":          func(_ *ledger, b []order) []order { return append(b, b[3]) },
		"log has no such call":      func(_ *ledger, b []order) []order { return append(b, order{Reference: "b/1"}) },
		"80 euros were spent": func(l *ledger, b []order) []order {
			delete(l.ran, "a/7")
			return b[:3]
		},
	} {
		l, book := invented()
		_, err := l.compare(change(l, book))
		assert.ErrorContains(t, err, want)
	}
	for _, change := range []func(*order){
		func(o *order) { o.Replica = "three" },
		func(o *order) { o.Tool = "bank.look" },
		func(o *order) { o.Euros++ },
	} {
		l, book := invented()
		change(&book[1])
		_, err := l.compare(book)
		assert.ErrorContains(t, err, "call a/3 was")
	}
}
