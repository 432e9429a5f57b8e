package compile

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

const goodWhen = `{"arg":"/s","eq":"a"}`

const good = `{"helm":"policy/v1","layer":"P1","bundle":{"name":"b","version":1},
	"tools":{"t":{"effect":"write","risk":"high","input":{"type":"object","required":["s","l"],
		"properties":{"s":{"type":"string"},"l":{"type":"array","items":{"type":"string"}}}}}},
	"rules":[{"id":"one","allow":"t","when":` + goodWhen + `}]}`

// refused compiles the good document with a change, which must be refused.
func refused(t *testing.T, old, change string) *LoadError {
	t.Helper()
	compile := func(text string) error {
		var tree crypto.Tree
		require.NoError(t, tree.Parse([]byte(text), crypto.Limits{Bytes: len(text), Depth: 64}))
		_, err := Documents([]contracts.Document{{Canonical: tree.Root().Append(nil)}})
		return err
	}
	require.NoError(t, compile(good), "or refusals prove nothing")
	require.Equal(t, 1, strings.Count(good, old))
	var e *LoadError
	require.ErrorAs(t, compile(strings.Replace(good, old, change, 1)), &e)
	return e
}

// What is offered in place of an unknown key is never refused next: no word that this version does
// not have.
func TestOffers(t *testing.T) {
	t.Parallel()
	known := slices.Concat(operatorNames, combinators, quantifiers, subjectKeys)
	for word, here := range foreign {
		assert.True(t, !slices.Contains(known, word) && slices.Contains(known, here), "%s is said to be %s", word, here)
		require.Contains(t, refused(t, goodWhen, `{"arg":"/s","`+word+`":"a"}`).Remedy, "did you mean "+here+"?")
	}
	assert.True(t, len(foreign) >= 30, "%d foreign words", len(foreign))
	offered := 0
	for _, c := range []struct{ old, new string }{
		{`"layer":"P1"`, `"layer":"P1","zzzzz":1`},
		{`"risk":"high"`, `"zzzzz":1`},
		{`"id":"one"`, `"id":"one","zzzzz":1`},
		{goodWhen, `{"zzzzz":1}`},
		{goodWhen, `{"arg":"/s","zzzzz":1}`},
		{goodWhen, `{"every":"/l","that":{"zzzzz":1}}`},
	} {
		e := refused(t, c.old, c.new)
		offer, ok := strings.CutPrefix(e.Remedy, "write one of ")
		assert.True(t, ok && e.What == `unknown key "zzzzz"`, "%s gives %v", c.new, e)
		for _, word := range strings.Split(offer, ", ") {
			if strings.Contains(good, `"`+word+`":`) {
				continue // it would stand there twice
			}
			e := refused(t, c.old, strings.Replace(c.new, "zzzzz", word, 1)) // its value is none
			assert.NotContains(t, e.What, "unknown key", "%s: %s is offered", c.new, word)
			offered++
		}
	}
	assert.GreaterOrEqual(t, offered, 40)
}
