// Package vectorfile keeps folders of conformance vectors for the tests that make them.
//
// The makers of package evidence's own tests and of package conformance both write cases, so what
// they share is here.
package vectorfile

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Want is the name of the file with the answer. It is kept if the case has it; if not, package
// conformance keeps it.
const Want = "want.json"

// A Case is the input of a vector.
type Case struct {
	About string            // one line of about.txt
	Files map[string][]byte // by name
}

// Keep compares a folder with its cases, in the order of their numbers: the first is 0001. With
// update it writes them instead.
func Keep(t testing.TB, folder string, cases []Case, update bool) {
	t.Helper()
	require.NotEmpty(t, cases, folder)
	var about strings.Builder
	files := map[string][]byte{}
	seen := map[string]bool{}
	for i, c := range cases {
		require.False(t, c.About == "" || seen[c.About], "case %d is about nothing new: %q", i+1, c.About)
		seen[c.About] = true
		number := fmt.Sprintf("%04d", i+1)
		fmt.Fprintf(&about, "%s %s\n", number, c.About)
		for name, b := range c.Files {
			files[number+"/"+name] = b
		}
	}
	files["about.txt"] = []byte(about.String())
	if update {
		write(t, folder, files)
	}
	compare(t, folder, files)
}

// write writes all files, and removes what is no longer there.
func write(t testing.TB, folder string, files map[string][]byte) {
	t.Helper()
	for _, name := range list(t, folder) {
		if _, ok := files[name]; !ok && filepath.Base(name) != Want {
			require.NoError(t, os.Remove(filepath.Join(folder, filepath.FromSlash(name))))
		}
	}
	for name, b := range files {
		to := filepath.Join(folder, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o750))
		require.NoError(t, os.WriteFile(to, b, 0o600))
	}
}

// compare requires the folder to have these files, and an answer to each case.
func compare(t testing.TB, folder string, files map[string][]byte) {
	t.Helper()
	there := map[string]bool{}
	for _, name := range list(t, folder) {
		there[name] = true
		want, ok := files[name]
		if !ok {
			require.Equal(t, Want, filepath.Base(name), "%s: %s is of no case", folder, name)
			continue
		}
		b, err := os.ReadFile(filepath.Join(folder, filepath.FromSlash(name)))
		require.NoError(t, err)
		require.True(t, string(b) == string(want), "%s: %s is not what the generator makes", folder, name)
	}
	for name := range files {
		require.True(t, there[name], "%s: %s is missing", folder, name)
	}
}

// list returns the files of a folder by their paths with slashes; of no folder it is empty.
func list(t testing.TB, folder string) (names []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(folder), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, path)
		}
		return err
	})
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	return names
}
