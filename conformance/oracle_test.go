package conformance

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/internal/shared"
)

// secondAnswers has the second implementation of the formats answer the vectors, from their files
// alone: the copy that it reads has no want.json. Its own commands verify packs only, so
// testdata/answers.go adds one to it that calls its functions.
func secondAnswers(t *testing.T) map[string][]byte {
	t.Helper()
	source := shared.Path(t, "oracle-next", "the vectors are not answered by the second implementation")
	source, err := filepath.EvalSymlinks(source) // an overlay goes by the true names of files
	require.NoError(t, err)
	dir := t.TempDir()
	extra, err := filepath.Abs("testdata/answers.go")
	require.NoError(t, err)
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(source, "helm_answers.go"): extra}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600))
	program := filepath.Join(dir, "oracle")
	build := exec.CommandContext(
		t.Context(),
		"go",
		"build",
		"-overlay",
		filepath.Join(dir, "overlay.json"),
		"-o",
		program,
		".",
	)
	build.Dir = source
	build.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod -buildvcs=false")
	said, err := build.CombinedOutput()
	require.NoError(t, err, "%s", said)

	questions := filepath.Join(dir, "vectors")
	v := os.DirFS("vectors")
	require.NoError(t, os.CopyFS(questions, v))
	cases, err := vectorCases(v)
	require.NoError(t, err)
	for _, c := range cases {
		require.NoError(t, os.Remove(filepath.Join(questions, c.Name, wantFile)))
	}
	out, err := exec.CommandContext(t.Context(), program, "answers", questions).Output()
	require.NoError(t, err)
	list := map[string][]byte{}
	for line := range strings.Lines(string(out)) {
		var a struct {
			Answer json.RawMessage
			Case   string
		}
		require.NoError(t, json.Unmarshal([]byte(line), &a))
		list[a.Case] = a.Answer
	}
	return list
}

// unanswered are the folders that the second implementation has no code for: it judges no policy,
// and runs no module.
var unanswered = []string{"policies", "verdicts", "meter"}

// judged are cases of other folders whose answer only a judgement shows.
var judged = map[string]string{
	"packs/0077": "that there was no driver contradicts the verdict, and nothing else in the log",
}

// TestSecondImplementation: the second implementation answers every vector of the formats as this
// one does, so each was checked by both.
func TestSecondImplementation(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	theirs := secondAnswers(t)
	v := os.DirFS("vectors")
	cases, err := vectorCases(v)
	require.NoError(t, err)
	count := map[string]int{}
	for _, c := range cases {
		folder, _, _ := strings.Cut(c.Name, "/")
		got, ok := theirs[c.Name]
		if !ok {
			assert.Contains(t, unanswered, folder, "%s has no answer", c.Name)
			continue
		}
		want, err := fs.ReadFile(v, c.Name+"/"+wantFile)
		require.NoError(t, err)
		if err := sameAnswer(want, got); judged[c.Name] != "" {
			assert.Error(t, err, "%s: no exception: %s", c.Name, judged[c.Name])
		} else {
			assert.NoError(t, err, "%s: %s, want %s", c.Name, got, want)
		}
		count[folder]++
	}
	t.Logf("answered: %v; not: %v", count, unanswered)
	assert.Len(t, count, 8, "folders")
	t.Run("graded", func(t *testing.T) { gradedSecond(t, theirs) })
}

// gradedSecond: the answers of the second implementation, and of this one where that has no code,
// reach FORMAT. Without those of this one they do not: nothing is passed over.
func gradedSecond(t *testing.T, list map[string][]byte) {
	r, err := Grade(Vectors(), bytes.NewReader(answerLines(list)))
	require.NoError(t, err)
	assert.Equal(t, Level(""), r.Level)
	for i, want := range map[int]Result{1: Passed, 5: Passed, 6: Passed, 7: Passed, 8: Failed} {
		assert.Equal(t, want, r.Gates[i-1].Result, "gate %d: %v", i, r.Gates[i-1].Failed)
	}
	filled := 0
	for name, answer := range ourAnswers(t) {
		if list[name] == nil || judged[name] != "" {
			list[name] = answer
			filled++
		}
	}
	r, err = Grade(Vectors(), bytes.NewReader(answerLines(list)))
	require.NoError(t, err)
	assert.Equal(t, Format, r.Level, "%s", r)
	t.Logf("%d answers of %d are of this module, since the other one judges no policy", filled, len(list))
}
