package evidence

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gowebpki/jcs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence/internal/forge"
	"github.com/helmkernel/helm/evidence/internal/ustar"
)

// A crossing verifies a pack with a second canonicaliser of the test's.
func crossing(t testing.TB, pack []byte, o Options, second func([]byte) ([]byte, error)) error {
	t.Helper()
	v := newVerifier(t.Context(), o)
	v.canonical = second
	return v.inPack(bytes.NewReader(pack), int64(len(pack)))
}

// jsonOf is all JSON in a pack, with its place and the check that it falls under.
func jsonOf(t testing.TB, pack []byte) map[string]*Error {
	t.Helper()
	all := map[string]*Error{}
	var r contracts.Reader
	envelope := func(b []byte, fault Error, field string) []byte {
		s, err := r.Open(b)
		require.NoError(t, err)
		fault.Field = field
		all[string(b)] = &fault
		inside := fault
		if field == "" {
			inside.Field = "payload"
		}
		if was := all[string(s.Payload)]; was == nil || inside.Entry < was.Entry { // presented twice: the first time
			all[string(s.Payload)] = &inside
		}
		return s.Payload
	}
	ms := forge.Untar(t, pack)
	envelope(ms[forge.ManifestAt].Body, Error{Check: ErrManifest, Entry: -1}, "")
	first := map[string]int64{} // which entry names a blob first
	for i, line := range slices.Collect(bytes.Lines(ms[forge.EntriesAt].Body)) {
		payload := string(envelope(bytes.TrimSuffix(line, lineEnd), Error{Check: ErrEncoding, Entry: int64(i)}, ""))
		for _, m := range ms[forge.EntriesAt+1:] {
			if _, ok := first[m.Name]; !ok && strings.Contains(payload, strings.TrimPrefix(m.Name, ustar.BlobPrefix)) {
				first[m.Name] = int64(i)
			}
		}
	}
	for _, m := range ms[forge.EntriesAt+1:] {
		if !json.Valid(m.Body) {
			continue
		}
		all[string(m.Body)] = &Error{Check: ErrBlob, Entry: first[m.Name], Field: m.Name}
		var in struct {
			Envelopes map[string][]json.RawMessage
		}
		if json.Unmarshal(m.Body, &in) == nil {
			for _, list := range in.Envelopes {
				for _, e := range list {
					envelope(e, Error{Check: ErrBlob, Entry: first[m.Name]}, m.Name)
					delete(all, string(e)) // it is crossed with the inputs around it
				}
			}
		}
	}
	return all
}

// TestCrossCheckStubs: a stub is crossed as an entry is.
func TestCrossCheckStubs(t *testing.T) {
	t.Parallel()
	m := filesLog(t, 1)
	x := newLetGoer(t, m)
	x.letGo(2, x.read())
	m.Checkpoint()
	pack, o := packOf(t, x.store(everything)), Options{Trust: m.Trust}
	require.NoError(t, crossing(t, pack, o, jcs.Transform))
	require.NotEmpty(t, x.stubs)
	for i, stub := range x.stubs {
		err := crossing(t, pack, o, func(b []byte) ([]byte, error) {
			if bytes.Equal(b, stub) {
				return nil, errors.New("secret")
			}
			return b, nil
		})
		var f *Error
		require.ErrorAs(t, err, &f)
		assert.True(t, f.Check == ErrEncoding && f.Entry == int64(i), "entry %d: %v", i, f)
		assert.NotContains(t, f.Error(), "secret")
	}
}

// TestCrossCheckFinds: whatever JSON of a pack the second canonicaliser finds fault with, that is
// the fault of the pack, under its own check.
func TestCrossCheckFinds(t *testing.T) {
	t.Parallel()
	m := forge.BaseLog(t)
	m.Checkpoint()
	pack, o := m.Pack(Write), Options{Trust: m.Trust, Origin: forge.Origin}
	all, asked := jsonOf(t, pack), map[string]bool{}
	var mu sync.Mutex // entries are opened by several goroutines
	ask := func(b []byte) ([]byte, error) {
		mu.Lock()
		asked[string(b)] = true
		mu.Unlock()
		return jcs.Transform(b)
	}
	require.NoError(t, crossing(t, pack, o, ask))
	inside := 0
	for text, want := range all {
		if !asked[text] {
			t.Errorf("not crossed: %s %d %s: %.200s", want.Check, want.Entry, want.Field, text)
		}
		if want.Check == ErrBlob && strings.HasPrefix(text, `{"_type"`) {
			inside++
		}
	}
	assert.True(t, len(asked) == len(all) && len(all) >= 120 && inside >= 2,
		"%d documents, %d crossed, %d of them in envelopes that were presented", len(all), len(asked), inside)
	i, step := 0, forge.Sample(3)
	for text, want := range all {
		if i++; i%step > 0 {
			continue
		}
		err := crossing(t, pack, o, func(b []byte) ([]byte, error) {
			switch {
			case string(b) != text:
				return b, nil
			case i/step%3 == 0:
				return nil, errors.New("secret")
			case i/step%3 == 1:
				panic("secret")
			}
			return b[:len(b)-1], nil
		})
		var f *Error
		if !errors.As(err, &f) || f.Check != want.Check || f.Entry != want.Entry || f.Field != want.Field ||
			strings.Contains(f.Error(), "secret") || f.Err != nil ||
			!strings.Contains(f.What, "second canonicaliser") {
			t.Errorf("%v, want %s %d %s", err, want.Check, want.Entry, want.Field)
		}
	}
}

// TestCrossCheckHostile: the second canonicaliser is not asked about what is too deep, too long or
// not canonical to ours.
func TestCrossCheckHostile(t *testing.T) {
	t.Parallel()
	m := forge.NewMaker(t)
	m.Use(forge.Anything)
	m.Allowed(forge.Ask{Session: "main", Tool: "any", Args: `{"a":1}`}).Ran(`[1,2,3]`)
	m.Checkpoint()
	deep := strings.Repeat("[", 9000) + strings.Repeat("]", 9000)
	for what, text := range map[string]string{"deep": deep, "not canonical": `[1, 2,3]`, "no JSON": `[1,2,3`,
		"a number": `[1,2,9007199254740993]`} {
		x := forge.TakeApart(t, m.Pack(Write))
		for _, n := range x.Nodes {
			if n.Kind() == "receipt" {
				old := n.Text("outputHash")
				delete(x.Blobs, old)
				n.P()["outputHash"] = forge.HexSum([]byte(text))
				x.Blobs[forge.HexSum([]byte(text))] = []byte(text)
			}
		}
		pack := x.Build()
		err := crossing(t, pack, Options{Trust: m.Trust}, func(b []byte) ([]byte, error) {
			assert.NotEqual(t, text, string(b), "%s: asked", what)
			return jcs.Transform(b)
		})
		assert.ErrorIs(t, err, ErrBlob, "%s", what)
	}
}

// BenchmarkCrossCheck is BenchmarkVerify with the second canonicaliser.
func BenchmarkCrossCheck(b *testing.B) {
	m := forge.LongLog(b, 2_000)
	pack := m.Pack(Write)
	for _, cross := range []bool{false, true} {
		b.Run(fmt.Sprint(cross), func(b *testing.B) {
			b.ReportAllocs()
			t0 := processor(b)
			for b.Loop() {
				if r, err := Verify(b.Context(), bytes.NewReader(pack), int64(len(pack)),
					Options{Trust: m.Trust, CrossCheck: cross}); err != nil || !r.Success(Logged) {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((processor(b)-t0).Microseconds())/float64(b.N), "µs-cpu")
		})
	}
}
