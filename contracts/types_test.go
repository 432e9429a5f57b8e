package contracts

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/table"
)

// Anything but the two texts is an error, and leaves Deny even after Allow.
func TestVerdictDecodes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Verdict{`"ALLOW"`: Allow, `"DENY"`: Deny} {
		v := !want
		err := json.Unmarshal([]byte(text), &v)
		assert.True(t, err == nil && v == want, "%s: %v %v", text, v, err)
		b, err := json.Marshal(v)
		assert.True(t, err == nil && string(b) == text, "%s was written %s, %v", text, b, err)
	}
	for _, text := range []string{`null`, `"allow"`, `"Allow"`, `"deny"`, `""`, `" ALLOW"`, `"ALLOW "`, `"ALLOWED"`,
		`true`, `false`, `1`, `0`, `{}`, `[]`, `["ALLOW"]`,
		`"\u0041LLOW"`, `{"verdict":"ALLOW"}`} {
		v := Allow
		err := json.Unmarshal([]byte(text), &v)
		assert.True(t, err != nil && v == Deny, "%s: %v %v", text, v, err)
		s := struct{ V Verdict }{Allow}
		err = json.Unmarshal([]byte(`{"V":`+text+`}`), &s)
		assert.True(t, err != nil && s.V == Deny, "%s in an object: %v %v", text, s.V, err)
	}
	for _, b := range []string{``, `"`, `A`, `ALLOW`, `"ALLOW`, `ALLOW"`} {
		v := Allow
		err := v.UnmarshalJSON([]byte(b))
		assert.True(t, err != nil && v == Deny, "UnmarshalJSON of %q: %v %v", b, v, err)
	}
	var zero Verdict
	assert.True(t, zero == Deny && zero.String() == "DENY", "the zero Verdict is %s", zero)
}

// A moment has one text, and a text one moment.
func TestTimeText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Time{
		"1970-01-01T00:00:00.000Z": 0,
		"1970-01-01T00:00:00.001Z": 1,
		"2026-01-01T00:00:00.123Z": 1767225600123,
		"2024-02-29T23:59:59.999Z": 1709251199999,
		"9999-12-31T23:59:59.999Z": maxTime,
	} {
		got, err := ParseTime(text)
		assert.True(t, err == nil && got == want && got.String() == text && TimeOf(got.Time()) == got, "%s: %d %v, %s",
			text, got, err, got)
	}
	for _, text := range table.Read[string](t, "time_refused", 24) {
		got, err := ParseTime(text)
		assert.True(t, err != nil && got == 0, "%q: %d %v", text, got, err)
	}
}

// Every moment of a clock has a text: it is clamped to the years that have one.
func TestTimeOfAnyClock(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("", 5*3600+1800)
	for _, c := range []struct {
		at   time.Time
		want string
	}{
		{time.Time{}, "1970-01-01T00:00:00.000Z"},
		{time.Unix(-1, 0), "1970-01-01T00:00:00.000Z"},
		{time.Unix(0, 999_999), "1970-01-01T00:00:00.000Z"},
		{time.Date(2026, 1, 1, 5, 30, 0, 123_999_999, zone), "2026-01-01T00:00:00.123Z"},
		{time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC), "9999-12-31T23:59:59.999Z"},
		{time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), "9999-12-31T23:59:59.999Z"},
	} {
		assert.Equal(t, c.want, TimeOf(c.at).String(), "%v", c.at)
	}
	for _, c := range []struct {
		from Time
		d    time.Duration
		want Time
	}{{5, time.Second, 1005}, {5, 1999 * time.Microsecond, 6}, {maxTime - 5, time.Hour, maxTime},
		{maxTime, math.MaxInt64, maxTime}} {
		assert.Equal(t, c.want, c.from.Add(c.d), "%d + %v =", c.from, c.d)
	}
}

func TestCallerEqual(t *testing.T) {
	t.Parallel()
	a := Caller{"alice", "acme", []string{"clerk", "owner"}}
	assert.True(t, a.Equal(Caller{"alice", "acme", []string{"clerk", "owner"}}) &&
		(Caller{}).Equal(Caller{Roles: []string{}}), "equal callers differ")
	for _, b := range []Caller{{}, {"alice", "acme", nil}, {"alice", "acme", []string{"clerk"}},
		{"alice", "acme", []string{"owner", "clerk"}}, {"alice", "", a.Roles}, {"", "acme", a.Roles}} {
		assert.True(t, !a.Equal(b) && !b.Equal(a), "%+v is the same", b)
	}
}

// Entries and envelopes are JSON, and stay as they are within it.
func TestEnvelopesAsJSON(t *testing.T) {
	t.Parallel()
	text := `{"payload":"AA=="}`
	b, err := json.Marshal(map[string]any{"entry": Entry(text), "none": Entry(nil), "envelope": Envelope(text)})
	want := `{"entry":` + text + `,"envelope":` + text + `,"none":null}`
	assert.True(t, err == nil && string(b) == want, "%s %v", b, err)
	var in struct{ Envelope Envelope }
	src := []byte(`{"Envelope":` + text + `}`)
	err = json.Unmarshal(src, &in)
	assert.True(t, err == nil && string(in.Envelope) == text, "%s %v", in.Envelope, err)
	for i := range src {
		src[i] = 'x'
	}
	assert.Equal(t, text, string(in.Envelope), "the envelope is not a copy")
	assert.True(t, Envelope(text).Digest() == digest(text) && Entry(text).Hash() != digest(text),
		"envelopes are named by their digest, entries by their leaf hash")
}

// The definition of a tool is its JSON in any spelling, and anything else about it is another one.
func TestDefinitionOf(t *testing.T) {
	t.Parallel()
	want, err := DefinitionOf([]byte(`{"name":"a","description":"x"}`))
	require.NoError(t, err)
	assert.Equal(t, crypto.Sum([]byte(`{"description":"x","name":"a"}`)), want)
	same, err := DefinitionOf([]byte("{ \"description\": \"\\u0078\",\n\"name\": \"a\" }\n"))
	require.NoError(t, err)
	assert.Equal(t, want, same)
	other, err := DefinitionOf([]byte(`{"name":"a","description":"x "}`))
	require.NoError(t, err)
	assert.NotEqual(t, want, other)
	for _, text := range []string{``, `null`, `[]`, `{"name":"private","name":"private"}`, `{} {}`,
		`{"n":9007199254740993}`} {
		d, err := DefinitionOf([]byte(text))
		require.Error(t, err, text)
		assert.NotContains(t, err.Error(), "private")
		assert.Zero(t, d)
	}
}
