package conformance

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/race"
)

// ourAnswers are those of this module to the published vectors, by case.
func ourAnswers(t *testing.T) map[string][]byte {
	t.Helper()
	list, err := answeredOnce()
	require.NoError(t, err)
	return maps.Clone(list)
}

var answeredOnce = sync.OnceValues(func() (map[string][]byte, error) {
	v := Vectors()
	cases, err := vectorCases(v)
	list := map[string][]byte{}
	for _, c := range cases {
		if answers[filepath.Dir(c.Name)] == nil || err != nil {
			continue
		}
		list[c.Name], err = answerVector(v, c.Name)
	}
	return list, err
})

// answerLines writes answers.jsonl.
func answerLines(list map[string][]byte) []byte {
	var b []byte
	for _, name := range slices.Sorted(maps.Keys(list)) {
		b = fmt.Appendf(b, "{\"answer\":%s,\"case\":%q}\n", list[name], name)
	}
	return b
}

// TestGradeOurs: the answers of this module reach FORMAT, and no more.
func TestGradeOurs(t *testing.T) {
	t.Parallel()
	v := Vectors()
	lines := answerLines(ourAnswers(t))
	r, err := Grade(v, bytes.NewReader(lines))
	require.NoError(t, err)
	assert.Equal(t, Format, r.Level, "%s", r)
	assert.Equal(t, crypto.Sum(lines), r.Implementation.Digest)
	digest, err := vectorsDigest(v)
	require.NoError(t, err)
	assert.Equal(t, digest, r.Vectors)
	for i, g := range r.Gates {
		want := NotRun
		if slices.Contains([]int{1, 5, 6, 7, 8}, i+1) {
			want = Passed
		}
		assert.Equal(t, want, g.Result, "gate %d: %s", i+1, g.Why)
	}
}

// TestGradeSigned: a graded report is signed and opened as any other.
func TestGradeSigned(t *testing.T) {
	t.Parallel()
	r, err := Grade(Vectors(), bytes.NewReader(answerLines(ourAnswers(t))))
	require.NoError(t, err)
	key := proofKey(t, 30)
	public, err := crypto.PublicOf(key)
	require.NoError(t, err)
	_, err = r.Sign(key)
	require.Error(t, err, "no name, no version: nobody knows what was graded")
	r.Implementation.Name, r.Implementation.Version = "other", "1.0"
	r, err = r.Sign(key)
	require.NoError(t, err)
	opened, err := Open(r.Envelope, public)
	require.NoError(t, err)
	assert.Equal(t, Format, opened.Level)
	assert.Equal(t, r.Vectors, opened.Vectors)
	assert.Equal(t, r.Implementation, opened.Implementation)
}

// wrong returns an answer that differs, and is of the same kind.
func wrong(answer string) string {
	for _, x := range [][2]string{{`"ok":true`, `"ok":false`}, {`"ok":false`, `"ok":true`}, {`"error":"`, `"error":"x`},
		{`"canonical":"`, `"canonical":"QQ`}, {`"pointer":"`, `"pointer":"/x`}, {`"event":`, `"event":1`},
		{`"check":"`, `"check":"X`}, {`"level":"LOGGED"`, `"level":"INTACT"`}, {`"history":"NONE"`, `"history":"FRESH"`},
		{`"verdict":"DENY"`, `"verdict":"ALLOW"`}} {
		if strings.Contains(answer, x[0]) {
			return strings.Replace(answer, x[0], x[1], 1)
		}
	}
	digit := strings.IndexAny(answer, "0123456789")
	if digit < 0 {
		return strings.Replace(answer, "INTACT", "LOGGED", 1)
	}
	return answer[:digit] + string('0'+('9'-answer[digit])) + answer[digit+1:]
}

// TestGradeWrong answers each case wrongly: that case fails, in the gate of its folder, and no
// other one; FORMAT is lost.
func TestGradeWrong(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	v := Vectors()
	good := ourAnswers(t)
	cases, err := vectorCases(v)
	require.NoError(t, err)
	ran := 0
	for _, c := range cases {
		if good[c.Name] == nil {
			continue
		}
		ran++
		bad := wrong(string(good[c.Name]))
		require.NotEqual(t, string(good[c.Name]), bad, c.Name)
		g := grading{given: maps.Clone(good)}
		g.given[c.Name] = []byte(bad)
		r := gradeAll(t, &g, v, cases)
		assert.Equal(t, Level(""), r.Level, "%s: %s", c.Name, bad)
		for i, gate := range r.Gates {
			if i+1 != c.Gate {
				assert.Empty(t, gate.Failed, "%s fails gate %d", c.Name, i+1)
				continue
			}
			if assert.Len(t, gate.Failed, 1, c.Name) {
				assert.Equal(t, c.Name, gate.Failed[0].Case)
				assert.NotContains(t, gate.Failed[0].What, bad)
			}
		}
	}
	assert.Greater(t, ran, 400)
}

// wants are the files want.json that were read, by case.
var wants sync.Map

// gradeAll is Grade without reading the files again.
func gradeAll(t *testing.T, g *grading, v fs.FS, cases []vectorCase) Report {
	t.Helper()
	for _, c := range cases {
		want, ok := wants.Load(c.Name)
		if !ok {
			b, err := fs.ReadFile(v, c.Name+"/"+wantFile)
			require.NoError(t, err)
			wants.Store(c.Name, b)
			want = b
		}
		g.grade(c, want.([]byte))
	}
	require.Empty(t, g.given)
	r := Report{Gates: g.gates(), Vectors: crypto.Sum(nil)}
	r.setLevel()
	return r
}

// TestGradeMissing: a case without an answer fails; a case of a kernel's gate cannot be answered.
func TestGradeMissing(t *testing.T) {
	t.Parallel()
	v := Vectors()
	for _, name := range []string{"canonical/0001", "proofs/0001", "trust/0001", "packs/0001", "verdicts/0001"} {
		list := ourAnswers(t)
		delete(list, name)
		r, err := Grade(v, bytes.NewReader(answerLines(list)))
		require.NoError(t, err)
		assert.Equal(t, Level(""), r.Level)
		assert.Contains(t, r.String(), name+": no answer")
	}
	r, err := Grade(v, strings.NewReader(""))
	require.NoError(t, err)
	for _, g := range r.Gates {
		assert.NotEqual(t, Passed, g.Result, g.Name)
	}
}

// TestGradeRefuses: what is no file of answers is an error.
func TestGradeRefuses(t *testing.T) {
	t.Parallel()
	v := Vectors()
	for about, x := range map[string]struct{ lines, says string }{
		"no case":        {`{"case":"canonical/9999","answer":{}}`, `"canonical/9999" is no case`},
		"a folder":       {`{"case":"canonical","answer":{}}`, "is no case"},
		"two answers":    {"{\"case\":\"packs/0001\",\"answer\":1}\n{\"case\":\"packs/0001\",\"answer\":1}", "line 2: a second answer"},
		"no JSON":        {"{", "line 1"},
		"an empty line":  {"\n", "line 1"},
		"no answer":      {`{"case":"packs/0001"}`, "line 1"},
		"a key too many": {`{"case":"packs/0001","answer":1,"name":2}`, "line 1"},
		"no name":        {`{"case":1,"answer":1}`, "line 1"},
		"a key twice":    {`{"case":"packs/0001","answer":1,"answer":2}`, "line 1"},
	} {
		_, err := Grade(v, strings.NewReader(x.lines))
		assert.ErrorContains(t, err, x.says, about)
	}
	_, err := Grade(v, iotest.ErrReader(fs.ErrClosed))
	assert.ErrorIs(t, err, fs.ErrClosed)
}

// TestGradeVectors: vectors that are not as their list says are refused, whatever the answers.
func TestGradeVectors(t *testing.T) {
	t.Parallel()
	small := func() fstest.MapFS {
		files := fstest.MapFS{}
		for name, text := range map[string]string{"numbers/0001/input": "1", "numbers/0001/want.json": `{"ok":true}`} {
			files[name] = &fstest.MapFile{Data: []byte(text)}
		}
		files[vectorList] = &fstest.MapFile{Data: fmt.Appendf(
			nil,
			`{"files":[{"path":"numbers/0001/input","sha256":"%s"},{"path":"numbers/0001/want.json","sha256":"%s"}],"version":1}`,
			crypto.Sum([]byte("1")),
			crypto.Sum([]byte(`{"ok":true}`)),
		)}
		return files
	}
	const answer = `{"case":"numbers/0001","answer":{"ok":true}}`
	r, err := Grade(small(), strings.NewReader(answer))
	require.NoError(t, err) // or the refusals would prove nothing
	assert.Equal(t, Passed, r.Gates[0].Result)
	assert.Equal(t, Failed, r.Gates[4].Result, "a gate without a case")
	assert.Equal(t, Level(""), r.Level)
	for about, x := range map[string]struct {
		change func(v fstest.MapFS)
		says   string
	}{
		"a changed answer":  {func(v fstest.MapFS) { v["numbers/0001/want.json"].Data = []byte(`{"ok":false}`) }, "not the file"},
		"a changed input":   {func(v fstest.MapFS) { v["numbers/0001/input"].Data = []byte("2") }, "not the file"},
		"a missing file":    {func(v fstest.MapFS) { delete(v, "numbers/0001/input") }, "not exist"},
		"a file of no list": {func(v fstest.MapFS) { v["numbers/0002/input"] = &fstest.MapFile{} }, "not listed"},
		"no list":           {func(v fstest.MapFS) { delete(v, vectorList) }, "not exist"},
		"another version": {func(v fstest.MapFS) {
			v[vectorList].Data = bytes.Replace(v[vectorList].Data, []byte(`"version":1`), []byte(`"version":2`), 1)
		}, "version 1"},
		"no case": {func(v fstest.MapFS) {
			delete(v, "numbers/0001/want.json")
			v[vectorList].Data = fmt.Appendf(nil, `{"files":[{"path":"numbers/0001/input","sha256":"%s"}],"version":1}`,
				crypto.Sum([]byte("1")))
		}, "no case"},
		"an unknown folder": {func(v fstest.MapFS) {
			for _, f := range []string{"input", "want.json"} {
				v["names/0001/"+f] = v["numbers/0001/"+f]
				delete(v, "numbers/0001/"+f)
			}
			v[vectorList].Data = bytes.ReplaceAll(v[vectorList].Data, []byte("numbers"), []byte("names"))
		}, "in no folder"},
	} {
		v := small()
		x.change(v)
		_, err := Grade(v, strings.NewReader(answer))
		assert.ErrorContains(t, err, x.says, about)
	}
}
