package evidence

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gowebpki/jcs"

	"github.com/helmkernel/helm/contracts"
)

// A crossing verifies a pack with a second canonicaliser of the test's.
func crossing(t testing.TB, pack []byte, o Options, second func([]byte) ([]byte, error)) error {
	t.Helper()
	v := newVerifier(t.Context(), o)
	v.canonical = second
	return v.inPack(bytes.NewReader(pack), int64(len(pack)))
}

// TestCrossCheck: every valid pack is as valid to the second canonicaliser, and the report the same.
func TestCrossCheck(t *testing.T) {
	for name, p := range testPacks(t) {
		o := Options{Trust: p.trust, Last: p.last}
		want, err := verifyBytes(t, p.pack, o)
		if err != nil {
			t.Fatal(name, err)
		}
		o.CrossCheck = true
		got, err := verifyBytes(t, p.pack, o)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v\n%+v\n%+v", name, err, got, want)
		}
	}
}

// jsonOf is all JSON in a pack: where it is, and under which check it falls.
func jsonOf(t testing.TB, pack []byte) map[string]*Error {
	t.Helper()
	all := map[string]*Error{}
	var r contracts.Reader
	envelope := func(b []byte, fault Error, field string) []byte {
		s, err := r.Open(b)
		if err != nil {
			t.Fatal(err)
		}
		fault.Field = field
		all[string(b)] = &fault
		inside := fault
		if field == "" {
			inside.Field = "payload"
		}
		all[string(s.Payload)] = &inside
		return s.Payload
	}
	ms := untar(t, pack)
	envelope(ms[manifestMember].body, Error{Check: ErrManifest, Entry: -1}, "")
	first := map[string]int64{} // which entry names a blob first
	for i, line := range slices.Collect(bytes.Lines(ms[entriesMember].body)) {
		payload := string(envelope(bytes.TrimSuffix(line, lineEnd), Error{Check: ErrEncoding, Entry: int64(i)}, ""))
		for _, m := range ms[entriesMember+1:] {
			if _, ok := first[m.name]; !ok && strings.Contains(payload, strings.TrimPrefix(m.name, blobPrefix)) {
				first[m.name] = int64(i)
			}
		}
	}
	for _, m := range ms[entriesMember+1:] {
		if !json.Valid(m.body) {
			continue
		}
		all[string(m.body)] = &Error{Check: ErrBlob, Entry: first[m.name], Field: m.name}
		var in struct {
			Envelopes map[string][]json.RawMessage
		}
		if json.Unmarshal(m.body, &in) == nil {
			for _, list := range in.Envelopes {
				for _, e := range list {
					envelope(e, Error{Check: ErrBlob, Entry: first[m.name]}, m.name)
					delete(all, string(e)) // it is crossed with the inputs around it
				}
			}
		}
	}
	return all
}

// TestCrossCheckFinds: whatever JSON of a pack the second canonicaliser finds fault with, that is the fault of the pack, under its own check.
func TestCrossCheckFinds(t *testing.T) {
	m := baseLog(t)
	m.checkpoint()
	pack, o := m.pack(), Options{Trust: m.trust, Origin: testOrigin}
	all, asked := jsonOf(t, pack), map[string]bool{}
	var mu sync.Mutex // entries are opened by several goroutines
	ask := func(b []byte) ([]byte, error) {
		mu.Lock()
		asked[string(b)] = true
		mu.Unlock()
		return jcs.Transform(b)
	}
	if err := crossing(t, pack, o, ask); err != nil {
		t.Fatal(err)
	}
	inside := 0
	for text, want := range all {
		if !asked[text] {
			t.Errorf("not crossed: %s %d %s: %.200s", want.Check, want.Entry, want.Field, text)
		}
		if want.Check == ErrBlob && strings.HasPrefix(text, `{"_type"`) {
			inside++
		}
	}
	if len(asked) != len(all) || len(all) < 120 || inside < 2 {
		t.Errorf("%d documents, %d crossed, %d of them in envelopes that were presented", len(all), len(asked), inside)
	}
	i := 0
	for text, want := range all {
		i++
		err := crossing(t, pack, o, func(b []byte) ([]byte, error) {
			switch {
			case string(b) != text:
				return b, nil
			case i%3 == 0:
				return nil, errors.New("secret")
			case i%3 == 1:
				panic("secret")
			}
			return b[:len(b)-1], nil
		})
		var f *Error
		if !errors.As(err, &f) || f.Check != want.Check || f.Entry != want.Entry || f.Field != want.Field || strings.Contains(f.Error(), "secret") || f.Err != nil ||
			!strings.Contains(f.What, "second canonicaliser") {
			t.Errorf("%v, want %s %d %s", err, want.Check, want.Entry, want.Field)
		}
	}
}

// TestCrossCheckHostile: the second canonicaliser is not asked about what is too deep, too long or not canonical to ours.
func TestCrossCheckHostile(t *testing.T) {
	m := newMaker(t)
	m.use(anything)
	m.allowed(ask{session: "main", tool: "any", args: `{"a":1}`}).ran(`[1,2,3]`)
	m.checkpoint()
	deep := strings.Repeat("[", 9000) + strings.Repeat("]", 9000)
	for what, text := range map[string]string{"deep": deep, "not canonical": `[1, 2,3]`, "no JSON": `[1,2,3`, "a number": `[1,2,9007199254740993]`} {
		x := takeApart(t, m.pack())
		for _, n := range x.nodes {
			if n.kind() == "receipt" {
				old := n.text("outputHash")
				delete(x.blobs, old)
				n.p()["outputHash"] = hexSum([]byte(text))
				x.blobs[hexSum([]byte(text))] = []byte(text)
			}
		}
		pack := x.build()
		err := crossing(t, pack, Options{Trust: m.trust}, func(b []byte) ([]byte, error) {
			if string(b) == text {
				t.Errorf("%s: asked", what)
			}
			return jcs.Transform(b)
		})
		if !errors.Is(err, ErrBlob) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// BenchmarkCrossCheck is BenchmarkVerify with the second canonicaliser.
func BenchmarkCrossCheck(b *testing.B) {
	m := longLog(b, 2_000)
	pack := m.pack()
	for _, cross := range []bool{false, true} {
		b.Run(fmt.Sprint(cross), func(b *testing.B) {
			b.ReportAllocs()
			t0 := processor(b)
			for b.Loop() {
				if r, err := Verify(b.Context(), bytes.NewReader(pack), int64(len(pack)), Options{Trust: m.trust, CrossCheck: cross}); err != nil || !r.Success(Logged) {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((processor(b)-t0).Microseconds())/float64(b.N), "µs-cpu")
		})
	}
}
