package compile

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestNear(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{{"exprires", "expires"}, {"expire", "expires"}, {"exipres", "expires"},
		{"Expires", "expires"}, {"expirez", "expires"}} {
		assert.True(t, near(c[0], c[1]), "%s is not near %s", c[0], c[1])
	}
	for _, c := range [][2]string{{"", "ab"}, {"eq", "ne"}, {"limits", "lists"}, {"expires", "expires2x"}} {
		assert.False(t, near(c[0], c[1]), "%s is near %s", c[0], c[1])
	}
}
