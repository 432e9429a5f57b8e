package past

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/helmkernel/helm/guardian/internal/source"
)

// Of no source nothing was supplied, and a declaration does not depend on the order of its facts.
func TestSupply(t *testing.T) {
	t.Parallel()
	var s Supply
	assert.False(t, s.Has(valueOf(t, `"bob@corp.com"`)), "a source that holds nothing")
	facts := []Fact{{Key: "/b", Text: true}, {Key: "/a", Vouches: true}}
	d := NewDeclaration(facts)
	facts[0].Key = "/c"
	assert.Equal(t, &Declaration{[]source.Fact{{Key: "/a", Vouches: true}, {Key: "/b", Text: true}}}, d)
}
