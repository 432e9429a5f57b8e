package policy

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/table"
)

//go:embed testdata/files.yaml
var files string

func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func TestLoad(t *testing.T) {
	t.Parallel()
	one := write(t, "files.yaml", files)
	other := write(t, "mail.json",
		`{"helm":"policy/v1","layer":"P1","bundle":{"name":"mail","version":1},`+
			`"rules":[{"id":"list","allow":"mail.list"}],`+
			`"tools":{"mail.list":{"effect":"read","input":{"type":"object","properties":{}}}}}`)
	pol, err := Load(one, other)
	require.NoError(t, err)
	turned, err := Load(other, one)
	require.NoError(t, err)
	if pol.Hash() != turned.Hash() || pol.Hash() == (contracts.Digest{}) {
		t.Errorf("the order of files changes the policy: %s, %s", pol.Hash(), turned.Hash())
	}
	for _, tool := range []string{"fs.read", "mail.list"} {
		_, declared := pol.Limits(tool)
		assert.True(t, declared, "%s is not declared", tool)
	}
}

// The error of a file that cannot be used names it, with the place in it, whichever part refuses
// it; and there is no policy then.
func TestLoadErrors(t *testing.T) {
	t.Parallel()
	good := write(t, "good.yaml", files)
	if _, err := Load(good); err != nil {
		t.Fatal(err) // or the refusals below would prove nothing
	}
	missing := filepath.Join(t.TempDir(), "missing.yaml")
	pol, err := Load(good, missing)
	if pol != nil || !errors.Is(err, fs.ErrNotExist) ||
		err.Error() != "policy: "+missing+": cannot be read: no such file or directory" {
		t.Errorf("a missing file: %v", err)
	}
	if pol, err := Load(t.TempDir()); pol != nil || err == nil {
		t.Error("a directory is a policy")
	}
	if pol, err := Load(); pol != nil || err == nil {
		t.Error("no files are a policy")
	}

	for _, c := range []struct{ name, text, place string }{
		{"a.yaml", files + "on: {yes: no}\n", ":11:11: the plain scalar no means"}, // refused by Parse
		// and by Compile: there is no such key
		{"b.yaml", files + "\nrule: []\n", ":12:"},
		{"c.json", "{\"helm\": \"policy/v1\",\n \"layer\": \"P9\"}", ":2:"},
	} {
		file := write(t, c.name, c.text)
		pol, err := Load(file)
		var refused *guardian.LoadError
		if pol != nil || !errors.As(err, &refused) || refused.Document != file ||
			len(err.Error()) < len(file+c.place) || err.Error()[:len(file+c.place)] != file+c.place {
			t.Errorf("%s is refused with %v; want %s%s…", c.name, err, file, c.place)
		}
	}
}

// A file system's files load as the same files of the system do, with the same errors.
func TestLoadFS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "files.yaml"), []byte(files), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bad.yaml"), []byte(files+"on: {yes: no}\n"), 0o600))
	want, err := Load(filepath.Join(dir, "files.yaml"))
	require.NoError(t, err)
	pol, err := LoadFS(os.DirFS(dir), "files.yaml")
	require.NoError(t, err)
	assert.Equal(t, want.Hash(), pol.Hash())
	for name, says := range map[string]string{
		"missing.yaml": "policy: missing.yaml: cannot be read: ", "bad.yaml": "bad.yaml:11:11: ",
		"../files.yaml": "policy: ../files.yaml: cannot be read: ",
	} {
		pol, err := LoadFS(os.DirFS(dir), "files.yaml", name)
		require.Nil(t, pol)
		require.ErrorContains(t, err, says)
		assert.True(t, strings.HasPrefix(err.Error(), says), err.Error())
	}
	_, err = LoadFS(os.DirFS(dir), "missing.yaml")
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = LoadFS(nil, "files.yaml")
	require.Error(t, err)
	_, err = LoadFS(os.DirFS(dir))
	require.Error(t, err)
}

// A misspelt key is after the start of the value that lacks it, and is still what is reported.
func TestMisspeltFirst(t *testing.T) {
	t.Parallel()
	compile := func(text string) error {
		doc, err := Parse("p.yaml", []byte(text))
		if err == nil {
			_, err = guardian.Compile(doc)
		}
		return err
	}
	require.NoError(t, compile(files))
	for _, c := range table.Read[struct{ Right, Wrong, Want string }](t, "misspelt_first", 7) {
		require.Equal(t, 1, strings.Count(files, c.Right), "%q is not once in the document", c.Right)
		if err := compile(strings.Replace(files, c.Right, c.Wrong, 1)); err == nil || err.Error() != c.Want {
			t.Errorf("%v\n\twant %s", err, c.Want)
		}
	}
}

// All that is wrong with all files is said at once: files that are missing, that do not parse, and
// that do not compile. What the others say of their tools is not, since they may be right.
func TestLoadJoins(t *testing.T) {
	t.Parallel()
	const mail = "helm: policy/v1\nlayer: P1\nbundle: {name: mail, version: 1}\n" +
		"tools: {mail.list: {effect: read, input: {type: object, properties: {}}}}\n"
	fsys := fstest.MapFS{
		"files.yaml": {Data: []byte(files)},
		"b.yaml":     {Data: []byte(files + "on: {yes: no}\n")},
		"a.json":     {Data: []byte("{\"helm\": \"policy/v1\",\n \"layer\": }")},
		"mail.yaml": {
			Data: []byte(mail + "rules:\n  - {id: a, allow: mail.lst}\n  - {id: a, deny: mail.list, wen: {}}\n"),
		},
		"floor.yaml": {
			Data: []byte("helm: policy/v1\nlayer: P0\nname: f\nversion: 1\nonly: [fs.read, other]\nrule: []\n"),
		},
	}
	lines := func(names ...string) []string {
		pol, err := LoadFS(fsys, names...)
		require.Nil(t, pol)
		require.Error(t, err)
		turned := slices.Clone(names)
		slices.Reverse(turned)
		_, again := LoadFS(fsys, turned...)
		assert.Equal(t, err.Error(), again.Error(), "the order of files")
		return strings.Split(err.Error(), "\n")
	}
	mailed := []string{
		`mail.yaml:6:20: /rules/0/allow: no tool "mail.lst" in this bundle; did you mean mail.list?`,
		`mail.yaml:7:10: /rules/1/id: a second rule of id "a"; choose another: ` +
			`rules, requirements and budgets are told apart by it`,
		`mail.yaml:7:35: /rules/1/wen: unknown key "wen"; did you mean when?`,
	}
	assert.Equal(t, append([]string{
		`floor.yaml:5:17: /only/1: no tool "other" in this stack; name a tool that a bundle of the stack declares`,
		`floor.yaml:6:7: /rule: unknown key "rule"; did you mean rules?`,
	}, mailed...), lines("files.yaml", "mail.yaml", "floor.yaml"))

	got := lines("files.yaml", "b.yaml", "missing.yaml", "mail.yaml", "a.json", "floor.yaml")
	require.Len(t, got, 7)
	assert.True(t, strings.HasPrefix(got[0], "a.json:2:11: not strict JSON: "), got[0])
	assert.True(t, strings.HasPrefix(got[1], "b.yaml:11:11: the plain scalar no means"), got[1])
	assert.Equal(t, "policy: missing.yaml: cannot be read: file does not exist", got[2])
	assert.Equal(t, `floor.yaml:6:7: /rule: unknown key "rule"; did you mean rules?`, got[3])
	assert.Equal(t, mailed, got[4:])

	_, err := LoadFS(fsys, "a.json", "missing.yaml")
	require.ErrorIs(t, err, fs.ErrNotExist)
	var refused *guardian.LoadError
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, "a.json", refused.Document)

	// However many files do not parse.
	var names []string
	for i := range 30 {
		names = append(names, fmt.Sprintf("missing%02d", i))
	}
	got = lines(append(names, "mail.yaml")...)
	assert.Len(t, got, 21)
	assert.Equal(t, "and 13 more", got[20])
}
