package guardian

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/crypto"
)

func TestImplies(t *testing.T) {
	t.Parallel()
	read := func(condition string) crypto.Value {
		var tree crypto.Tree
		require.NoError(t, tree.Parse([]byte(condition), crypto.Limits{Bytes: 1 << 10, Depth: 16}), condition)
		return tree.Root()
	}
	for _, x := range []struct {
		p, q string
		both bool // q implies p, too
	}{
		{`{}`, `{}`, true},
		{`{"when":{"arg":"/n","lt":3}}`, `{}`, false},
		{`{"when":{"arg":"/n","lt":3}}`, `{"when":{"arg":"/n","lt":3}}`, true},
		{`{"when":{"arg":"/n","lt":3}}`, `{"when":{"arg":"/n","le":3}}`, false},
		{`{"when":{"arg":"/n","eq":3}}`, `{"when":{"arg":"/n","in":[3,4]}}`, false},
		{`{"when":{"arg":"/p","within":["/a/b"]}}`, `{"when":{"arg":"/p","within":["/a"]}}`, false},
		{`{"when":{"all":[{"arg":"/n","lt":3},{"caller":"roles","has":"r"}]}}`, `{"when":{"caller":"roles","has":"r"}}`, false},
		{`{"unless":{"arg":"/n","lt":3},"when":{"arg":"/s","eq":"x"}}`, `{"unless":{"arg":"/n","lt":3}}`, false},
	} {
		assert.True(t, Implies(read(x.p), read(x.q)), "%s implies %s", x.p, x.q)
		assert.Equal(t, x.both, Implies(read(x.q), read(x.p)), "%s implies %s", x.q, x.p)
	}
	assert.False(t, Implies(read(`{"unless":{"arg":"/n","lt":3}}`), read(`{"unless":{"arg":"/n","lt":4}}`)),
		"the table has no negations but equal ones")
}
