package view

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/proofgraph"
)

// hostile are texts that a page must show as what they are.
var hostile = []string{
	"</script><script>document.title='ran'</script>",
	"<img src=x onerror=\"document.title='ran'\">",
	"<!--<script>", "]]>", "\u2028\u2029", "evil\u202egpj.exe", "\u2066a\u2069\u200b\ufeff", "javascript:alert(1)",
	"&lt;b&gt;", "@DATA@@SCRIPT@", "${document.title='ran'}",
}

const notes = `helm: policy/v1
layer: P1
bundle: {name: notes, version: 1}
tools:
  note:
    effect: write
    input: {type: object, properties: {text: {type: string, maxLength: 1048576}}, required: [text], additionalProperties: false}
rules:
  - {id: notes, allow: [note]}
`

// newLog returns a kernel over a log in memory whose tool returns its arguments.
func newLog(t *testing.T) (*helm.Kernel, *proofgraph.Memory) {
	t.Helper()
	doc, err := policy.Parse("notes.yaml", []byte(notes))
	require.NoError(t, err)
	p, err := guardian.Compile(doc)
	require.NoError(t, err)
	key, err := crypto.GenerateKey()
	require.NoError(t, err)
	store := proofgraph.NewMemory()
	k, err := helm.New(helm.Options{Policy: p, Key: key, Origin: "example.org/notes", Store: store,
		Keep: helm.Keep{Outputs: true}, Drivers: map[string]helm.Driver{"note": helm.Func(
			func(_ context.Context, args json.RawMessage) (json.RawMessage, error) { return args, nil })}})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, k.Close()) })
	return k, store
}

func call(t *testing.T, k *helm.Kernel, session, caller, text string) helm.Receipt {
	t.Helper()
	args, err := json.Marshal(map[string]string{"text": text})
	require.NoError(t, err)
	_, r := k.Guard(context.Background(),
		helm.Intent{Tool: "note", Args: args, Session: session, Caller: helm.Caller{ID: caller}})
	return r
}

func written(t *testing.T, log Source, o Options) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, Write(context.Background(), &b, log, o))
	return b.String()
}

// dataOf returns the data of a page, and the page without it.
func dataOf(t *testing.T, text string) (data map[string]json.RawMessage, rest string) {
	t.Helper()
	const begin = `<script id="data" type="application/json">`
	before, after, ok := strings.Cut(text, begin)
	require.True(t, ok)
	inside, after, ok := strings.Cut(after, "</script>")
	require.True(t, ok)
	require.NoError(t, json.Unmarshal([]byte(inside), &data))
	return data, before + after
}

// TestHostile: what callers wrote changes nothing of the page but its data, and stands there whole.
func TestHostile(t *testing.T) {
	t.Parallel()
	k, store := newLog(t)
	empty := written(t, store, Options{})
	for _, x := range hostile {
		call(t, k, "s", x, x) // some are denied, and recorded
	}
	long := strings.Repeat("abc<\u00e9", 80_000)
	assert.Equal(t, contracts.Executed, call(t, k, "s", "ann", long).Record.Outcome)
	_, err := k.Checkpoint(context.Background())
	require.NoError(t, err)
	steps := func(uint64) []string { return hostile }
	text := written(t, store, Options{Inputs: true, Steps: steps, About: hostile[0]})
	data, rest := dataOf(t, text)
	_, without := dataOf(t, empty)
	assert.Equal(t, without, rest)
	assert.NotContains(t, string(data["blobs"]), "<")
	var blobs map[string]struct{ Text string }
	require.NoError(t, json.Unmarshal(data["blobs"], &blobs))
	found := 0
	for digest, x := range blobs {
		assert.Equal(t, digest, crypto.Sum([]byte(x.Text)).String())
		for _, h := range hostile {
			var inputs struct{ Args struct{ Text string } }
			if json.Unmarshal([]byte(x.Text), &inputs) == nil && inputs.Args.Text == h {
				found++
			}
		}
	}
	assert.Equal(t, len(hostile), found, "arguments that are there")
	var about string
	require.NoError(t, json.Unmarshal(data["about"], &about))
	assert.Equal(t, hostile[0], about)
}

// TestContents: arguments and outputs are in a page only if they were asked for.
func TestContents(t *testing.T) {
	t.Parallel()
	k, store := newLog(t)
	call(t, k, "s", "ann", "a secret")
	text := written(t, store, Options{})
	data, _ := dataOf(t, text)
	assert.NotContains(t, data, "blobs")
	assert.NotContains(t, text, "a secret")
	assert.Contains(t, written(t, store, Options{Inputs: true}), "a secret")
}

// TestStubs: what is left of entries is in a page as it stands in the log, and nothing that they
// named.
func TestStubs(t *testing.T) {
	t.Parallel()
	k, store := newLog(t)
	ctx := context.Background()
	call(t, k, "s", "ann", "a secret")
	call(t, k, "t", "ann", "another")
	var stubs [][]byte
	var r contracts.Reader
	for e, err := range store.Entries(ctx, 2, 4) { // the call in s
		require.NoError(t, err)
		sealed, err := r.Open(e)
		require.NoError(t, err)
		st, err := sealed.Statement()
		require.NoError(t, err)
		stubs = append(stubs, contracts.NewStub(st, e.Hash(), 1+uint64(len(stubs))).Append(nil))
	}
	require.NoError(t, store.Condense(ctx, func(yield func(uint64, []byte) bool) {
		_ = yield(2, stubs[0]) && yield(3, stubs[1])
	}, func(func(contracts.Digest) bool) {}))
	s := "s"
	for _, o := range []Options{{Inputs: true}, {Inputs: true, Session: &s}} {
		data, _ := dataOf(t, written(t, store, o))
		var entries [][2]any
		require.NoError(t, json.Unmarshal(data["entries"], &entries))
		var texts []string
		for _, x := range entries {
			texts = append(texts, x[1].(string))
		}
		assert.Contains(t, texts, string(stubs[0]))
		assert.Contains(t, texts, string(stubs[1]))
		assert.NotContains(t, string(data["blobs"]), "a secret")
		assert.Equal(t, o.Session == nil, strings.Contains(string(data["blobs"]), "another"))
		assert.Equal(t, o.Session == nil, len(entries) > 2)
	}
}

var part = regexp.MustCompile(`(script|style)-src ('sha256-[^']*')`)

// TestPolicy: a page may run its own script and style and nothing else, and needs no more.
func TestPolicy(t *testing.T) {
	t.Parallel()
	_, store := newLog(t)
	offline := written(t, store, Options{})
	answer := httptest.NewRecorder()
	Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/helm/", nil))
	require.Equal(t, http.StatusOK, answer.Code)
	live := answer.Body.String()
	header := answer.Header().Get("Content-Security-Policy")
	assert.Contains(t, header, "connect-src 'self'")
	assert.Contains(t, header, "frame-ancestors 'none'")
	assert.NotContains(t, offline, "connect-src")
	for name, text := range map[string]string{"offline": offline, "live": live} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, policy, _ := strings.Cut(text, `http-equiv="Content-Security-Policy" content="`)
			policy, _, ok := strings.Cut(policy, `"`)
			require.True(t, ok)
			assert.True(t, strings.HasPrefix(policy, "default-src 'none'; "), policy)
			assert.NotContains(t, policy, "unsafe")
			assert.Less(t, strings.Index(text, "Content-Security-Policy"), strings.Index(text, "<style"), "it comes too late")
			if name == "live" {
				assert.True(t, strings.HasPrefix(header, policy))
				assert.NotContains(t, text, `id="data"`)
			}
			sums := map[string]string{}
			for _, m := range part.FindAllStringSubmatch(policy, -1) {
				sums[m[1]] = m[2]
			}
			for _, element := range []string{"script", "style"} {
				_, inside, ok := strings.Cut(text, "<"+element+">")
				require.True(t, ok)
				inside, _, ok = strings.Cut(inside, "</"+element+">")
				require.True(t, ok)
				assert.Equal(t, hashOf(inside), sums[element])
				assert.Equal(t, 1, strings.Count(text, "<"+element+">"))
			}
			if name == "offline" {
				_, text = dataOf(t, text)
			}
			assert.LessOrEqual(t, len(text), 150<<10)
			t.Logf("%d bytes without data", len(text))
			assert.NotRegexp(t, `(?i)<[a-z][^>]* (on[a-z]+|style|src|href)="?[^#"]`, text, "the policy forbids it")
			assert.NotContains(t, text, "://www.w3.org/1999/xhtml")
			assert.Equal(t, 1, strings.Count(text, "://"), "only the name of SVG is an address")
		})
	}
}

// TestScript: nothing in the script makes markup or code of a text.
func TestScript(t *testing.T) {
	t.Parallel()
	assert.NotRegexp(t, `innerHTML|outerHTML|insertAdjacent|document\.write|createContextual|DOMParser|setHTML|srcdoc`+
		`|\beval\b|Function\(|import\(|setTimeout\(['"]|\.(src|href)\b|localStorage|sessionStorage|indexedDB|cookie`, script)
	assert.Contains(t, script, "textContent")
	_, _, policy := pageOf("offline", "")
	assert.NotContains(t, policy, hashOf(script), "the advice is not in it")
}

// TestAdvice: the script has the advice of each reason.
func TestAdvice(t *testing.T) {
	t.Parallel()
	before, after, _ := pageOf("offline", "")
	n := 0
	for r := range contracts.Reasons() {
		b, err := json.Marshal(r.Advice())
		require.NoError(t, err)
		assert.Contains(t, after, `"`+string(r)+`":`+string(b))
		n++
	}
	assert.Greater(t, n, 30)
	assert.NotContains(t, before+after, "@ADVICE")
}

// many is a log with one entry many times over, as nobody would write it.
type many struct {
	Source
	n uint64
}

func (m many) Size(context.Context) (uint64, error) { return m.n, nil }

func (m many) Entries(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
	return func(yield func(contracts.Entry, error) bool) {
		var last contracts.Entry
		for e, err := range m.Source.Entries(ctx, 0, 4) {
			if last = e; err != nil || from == 0 && !yield(e, err) {
				return
			}
			from -= min(from, 1)
			to--
		}
		for ; to > from; to-- {
			if !yield(last, nil) {
				return
			}
		}
	}
}

// TestTooMuch: a page that would be too long is not written at all.
func TestTooMuch(t *testing.T) {
	t.Parallel()
	k, store := newLog(t)
	call(t, k, "s", "ann", "x")
	ctx := context.Background()
	var b bytes.Buffer
	long := many{store, MaxEntries + 5}
	assert.ErrorIs(t, Write(ctx, &b, long, Options{}), ErrTooMuch)
	session := "s"
	assert.ErrorIs(t, Write(ctx, &b, long, Options{Session: &session}), ErrTooMuch)
	assert.Zero(t, b.Len())
	assert.NoError(t, Write(ctx, &b, long, Options{To: MaxEntries}))
	assert.NoError(t, Write(ctx, &b, long, Options{From: 5}))
	for _, o := range []Options{{From: 4, To: 4}, {From: 9, To: 4}, {From: 1 << 40}} {
		assert.ErrorContains(t, Write(ctx, &b, store, o), "no entries")
	}
	other := "t"
	assert.ErrorContains(t, Write(ctx, &b, store, Options{Session: &other}), `"t"`)
}

// TestMaxBlobs: nor is one with too many bytes of arguments and outputs.
func TestMaxBlobs(t *testing.T) {
	t.Parallel()
	k, store := newLog(t)
	for i := range 40 {
		call(t, k, "s", "ann", fmt.Sprint(i)+strings.Repeat("x", 1_000_000))
	}
	var b bytes.Buffer
	ctx := context.Background()
	assert.ErrorIs(t, Write(ctx, &b, store, Options{Inputs: true}), ErrTooMuch)
	assert.Zero(t, b.Len())
	assert.NoError(t, Write(ctx, &b, store, Options{}))
	assert.NoError(t, Write(ctx, &b, store, Options{Inputs: true, To: 10}))
}

// TestParts: a page of a session or a range has its entries, with their places, and says so.
func TestParts(t *testing.T) {
	t.Parallel()
	k, store := newLog(t)
	for _, s := range []string{"a", "b", "a"} {
		call(t, k, s, "ann", s)
	}
	places := func(o Options) (is []uint64, says string) {
		data, _ := dataOf(t, written(t, store, o))
		var list [][]any
		require.NoError(t, json.Unmarshal(data["entries"], &list))
		for _, x := range list {
			is = append(is, uint64(x[0].(float64)))
		}
		if data["part"] != nil {
			require.NoError(t, json.Unmarshal(data["part"], &says))
		}
		return is, says
	}
	all, says := places(Options{})
	assert.Equal(t, []uint64{0, 1, 2, 3, 4, 5, 6, 7}, all)
	assert.Empty(t, says)
	session := "a"
	some, says := places(Options{Session: &session})
	assert.Equal(t, []uint64{2, 3, 6, 7}, some)
	assert.NotEmpty(t, says)
	some, says = places(Options{From: 3, To: 5})
	assert.Equal(t, []uint64{3, 4}, some)
	assert.NotEmpty(t, says)
}

// TestReport: the verifier's words are in the page.
func TestReport(t *testing.T) {
	t.Parallel()
	k, store := newLog(t)
	call(t, k, "s", "ann", "x")
	ctx := context.Background()
	_, err := k.Checkpoint(ctx)
	require.NoError(t, err)
	r, err := evidence.VerifyStore(ctx, store, evidence.Options{Trust: k.Trust()})
	require.NoError(t, err)
	data, _ := dataOf(t, written(t, store, Options{Report: &r}))
	var text, trust string
	require.NoError(t, json.Unmarshal(data["report"], &text))
	assert.Equal(t, r.String(), text)
	require.NoError(t, json.Unmarshal(data["trust"], &trust))
	assert.Equal(t, string(k.Trust().Canonical()), trust)
}

// TestMethod: the live page is only read.
func TestMethod(t *testing.T) {
	t.Parallel()
	answer := httptest.NewRecorder()
	Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/helm/", nil))
	assert.Equal(t, http.StatusMethodNotAllowed, answer.Code)
}
