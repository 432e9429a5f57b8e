package table

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type row struct {
	Name string
	N    int
	Yes  bool
	List []string
}

// TestDecode: each way to write a field.
func TestDecode(t *testing.T) {
	t.Parallel()
	rows, err := decode[row]("# a comment\nname\tn\tyes\tlist\n\n:long=\n\tone\n\t\ttwo\n\na b\t-1\ttrue\tx | y\n" +
		":long\n\t2\tfalse\n\t=\"\"\n")
	require.NoError(t, err)
	assert.Equal(t, []row{{"a b", -1, true, []string{"x", "y"}}, {"one\n\ttwo", 2, false, nil}}, rows)
	texts, err := decode[string]("a\n=\"\\tb\"\n")
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "\tb"}, texts)
}

// TestDecodeRefuses: what is not a table of such rows.
func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	const header = "name\tn\tyes\tlist\n"
	for _, text := range []string{"", "name\tn\tyes\n", "name\tn\tlist\tyes\n", header + "a\t1\ttrue\n",
		header + "a\t1\ttrue\tx\ty\n", header + "\ta\n", header + "a\tx\ttrue\tx\n", header + "a\t1 2\ttrue\tx\n",
		header + "a\t1\tyes\tx\n", header + "a\t1\t\tx\n", header + "a\t1\ttrue\t\n", header + "=a\t1\ttrue\tx\n",
		header + ":a\t1\ttrue\tx\n", ":a=\n\tb\n" + header, ":a=\n\tb\n:a=\n\tb\n" + header + ":a\t1\ttrue\tx\n"} {
		_, err := decode[row](text)
		assert.Error(t, err, "%q", text)
	}
	_, err := decode[string]("a\tb\n")
	assert.Error(t, err)
}
