package disk

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestIs: an open file has the names that lead to it, and no name of another file, of a link or of
// none. The way that other systems ask says the same.
func TestIs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	open := func(name string) osFile {
		f, err := OS{}.Create(at(name))
		require.NoError(t, err)
		t.Cleanup(func() { f.Close() })
		return f.(osFile)
	}
	f, gone := open("a"), open("gone")
	open("other")
	require.NoError(t, os.Link(at("a"), at("again")))
	require.NoError(t, os.Symlink(at("a"), at("link")))
	require.NoError(t, os.Remove(at("gone")))
	check := func(f osFile, name string, want bool) {
		t.Helper()
		for _, is := range []func(string) (bool, error){f.Is, f.named} {
			got, err := is(at(name))
			require.NoError(t, err)
			assert.Equal(t, want, got, name)
		}
	}
	check(f, "a", true)
	check(f, "again", true)
	check(f, "other", false)
	check(f, "link", false)
	check(f, "none", false)
	check(gone, "gone", false)
	require.NoError(t, os.Rename(at("other"), at("gone")))
	check(gone, "gone", false)

	for _, is := range []func(string) (bool, error){f.Is, f.named} {
		got, err := is(at("a/below")) // of what is no directory
		assert.True(t, err != nil && !got, "%v, %v", got, err)
	}
}
