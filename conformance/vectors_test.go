package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/internal/vectorfile"
	"github.com/helmkernel/helm/sandbox"
)

var (
	update = flag.Bool("update", false, "write the vectors, the answers in them, and their list")
	file   = flag.String("answers", "", "write the answers of this module to this file")
)

// made are the folders whose generators are in this package. Those of the others are in
// evidence/internal/forge, which has the makers of logs.
var made = map[string]func(t *testing.T) []vectorfile.Case{
	"canonical": canonicalVectors, "numbers": numberVectors, "points": pointVectors, "proofs": proofVectors,
	"policies": policyVectors,
}

// TestVectorsMade compares each folder with what its generator makes: the same bytes every time.
func TestVectorsMade(t *testing.T) {
	for folder, cases := range made {
		t.Run(folder, func(t *testing.T) {
			vectorfile.Keep(t, filepath.Join("vectors", folder), cases(t), *update)
		})
	}
}

// TestVectorsListed holds want.json to the answers of this module, and vectors.json to the files.
func TestVectorsListed(t *testing.T) {
	dir := os.DirFS("vectors")
	if *update {
		updateAnswers(t, dir)
	}
	digest, err := vectorsDigest(dir)
	require.NoError(t, err)
	if !*update { // or the embedded ones are those of before
		embedded, err := vectorsDigest(Vectors())
		require.NoError(t, err)
		assert.Equal(t, digest, embedded)
	}
	cases, err := vectorCases(dir)
	require.NoError(t, err)
	size, folders := 0, map[string]int{}
	for _, f := range first(vectorFiles(dir)) {
		b, err := fs.ReadFile(dir, f.Path)
		require.NoError(t, err)
		size += len(b)
	}
	for _, c := range cases {
		folders[filepath.Dir(c.Name)]++
	}
	t.Logf("%d bytes, cases: %v", size, folders)
	assert.LessOrEqual(t, size, 4<<20, "bytes of all vectors")
}

func first[T, A, B any](list []T, _ A, _ B) []T { return list }

// updateAnswers writes want.json of each case that this module can answer, and vectors.json.
func updateAnswers(t *testing.T, dir fs.FS) {
	var list []vectorFile
	paths, err := fs.Glob(dir, "*/[0-9]*")
	require.NoError(t, err)
	for _, name := range paths {
		if answers[filepath.Dir(name)] == nil {
			continue
		}
		want, err := answerVector(dir, name)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join("vectors", name, wantFile), append(want, '\n'), 0o600))
	}
	err = fs.WalkDir(dir, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path == vectorList {
			return err
		}
		b, err := fs.ReadFile(dir, path)
		list = append(list, vectorFile{path, crypto.Sum(b)})
		return err
	})
	require.NoError(t, err)
	slices.SortFunc(list, func(a, b vectorFile) int { return strings.Compare(a.Path, b.Path) })
	text := "{\"files\":[\n"
	for i, f := range list {
		line, err := json.Marshal(f)
		require.NoError(t, err)
		if text += string(line); i < len(list)-1 {
			text += ","
		}
		text += "\n"
	}
	text += "],\"version\":1}\n"
	require.NoError(t, os.WriteFile(filepath.Join("vectors", vectorList), []byte(text), 0o600))
}

// TestVectorsAnswered: this module answers all vectors right. With -answers it writes its answers.
func TestVectorsAnswered(t *testing.T) {
	v := os.DirFS("vectors")
	cases, err := vectorCases(v)
	require.NoError(t, err)
	var lines []byte
	for _, c := range cases {
		if answers[filepath.Dir(c.Name)] == nil {
			continue
		}
		got, err := answerVector(v, c.Name)
		require.NoError(t, err)
		want, err := fs.ReadFile(v, c.Name+"/"+wantFile)
		require.NoError(t, err)
		assert.NoError(t, sameAnswer(want, got), c.Name)
		lines = fmt.Appendf(lines, "{\"answer\":%s,\"case\":%q}\n", got, c.Name)
	}
	if *file != "" {
		require.NoError(t, os.WriteFile(*file, lines, 0o600))
	}
}

// TestVectorsMetered: an auditor's sandbox answers the cases of modules right. They are made in
// package sandbox, where compiler and interpreter must agree on them.
func TestVectorsMetered(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	runtime, err := sandbox.New(sandbox.Options{})
	if err != nil {
		t.Skip("no module was run: ", err)
	}
	defer func() { assert.NoError(t, runtime.Close(context.Background())) }()
	v := Vectors()
	cases, err := vectorCases(v)
	require.NoError(t, err)
	list := ourAnswers(t)
	ran := 0
	for _, c := range cases {
		if c.Gate != 3 {
			continue
		}
		got, err := answerMeter(t.Context(), v, c.Name, runtime.Rerun(nil))
		require.NoError(t, err)
		want, err := fs.ReadFile(v, c.Name+"/"+wantFile)
		require.NoError(t, err)
		assert.NoError(t, sameAnswer(want, got), "%s: %s, want %s", c.Name, got, want)
		list[c.Name] = got
		ran++
	}
	assert.Greater(t, ran, 5, "modules")
	r, err := Grade(v, bytes.NewReader(answerLines(list)))
	require.NoError(t, err)
	assert.Equal(t, Passed, r.Gates[2].Result)
	assert.Equal(t, Format, r.Level, "modules count for no level")
	for name := range list {
		if strings.HasPrefix(name, "meter/") {
			list[name] = []byte(strings.Replace(string(list[name]), `"gas":`, `"gas":1`, 1))
			break
		}
	}
	r, err = Grade(v, bytes.NewReader(answerLines(list)))
	require.NoError(t, err)
	assert.Equal(t, Failed, r.Gates[2].Result)
	assert.Equal(t, Format, r.Level, "modules count for no level")
}
