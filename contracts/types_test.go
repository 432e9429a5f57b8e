package contracts

import (
	"encoding/json"
	"github.com/stretchr/testify/assert"
	"math"
	"testing"
	"time"
)

// Anything but the two texts is an error, and leaves Deny where Allow was.
func TestVerdictDecodes(t *testing.T) {
	for text, want := range map[string]Verdict{`"ALLOW"`: Allow, `"DENY"`: Deny} {
		v := !want
		if err := json.Unmarshal([]byte(text), &v); err != nil || v != want {
			t.Errorf("%s: %v %v", text, v, err)
		}
		if b, err := json.Marshal(v); err != nil || string(b) != text {
			t.Errorf("%s was written %s, %v", text, b, err)
		}
	}
	for _, text := range []string{`null`, `"allow"`, `"Allow"`, `"deny"`, `""`, `" ALLOW"`, `"ALLOW "`, `"ALLOWED"`, `true`, `false`, `1`, `0`, `{}`, `[]`, `["ALLOW"]`,
		`"\u0041LLOW"`, `{"verdict":"ALLOW"}`} {
		v := Allow
		if err := json.Unmarshal([]byte(text), &v); err == nil || v != Deny {
			t.Errorf("%s: %v %v", text, v, err)
		}
		s := struct{ V Verdict }{Allow}
		if err := json.Unmarshal([]byte(`{"V":`+text+`}`), &s); err == nil || s.V != Deny {
			t.Errorf("%s in an object: %v %v", text, s.V, err)
		}
	}
	for _, b := range []string{``, `"`, `A`, `ALLOW`, `"ALLOW`, `ALLOW"`} {
		v := Allow
		if err := v.UnmarshalJSON([]byte(b)); err == nil || v != Deny {
			t.Errorf("UnmarshalJSON of %q: %v %v", b, v, err)
		}
	}
	var zero Verdict
	if zero != Deny || zero.String() != "DENY" {
		t.Errorf("the zero Verdict is %s", zero)
	}
}

// A moment has one text, and a text one moment.
func TestTimeText(t *testing.T) {
	for text, want := range map[string]Time{
		"1970-01-01T00:00:00.000Z": 0,
		"1970-01-01T00:00:00.001Z": 1,
		"2026-01-01T00:00:00.123Z": 1767225600123,
		"2024-02-29T23:59:59.999Z": 1709251199999,
		"9999-12-31T23:59:59.999Z": maxTime,
	} {
		got, err := ParseTime(text)
		if err != nil || got != want || got.String() != text || TimeOf(got.Time()) != got {
			t.Errorf("%s: %d %v, %s", text, got, err, got)
		}
	}
	for _, text := range []string{"", "1969-12-31T23:59:59.999Z", "0000-01-01T00:00:00.000Z", "10000-01-01T00:00:00.000Z", "2026-01-01T24:00:00.000Z", "2026-01-01T00:00:60.000Z",
		"2026-01-01T00:00:00Z", "2026-01-01T00:00:00.00Z", "2026-01-01T00:00:00.0000Z", "2026-01-01T00:00:00,000Z", "2026-01-01T00:00:00.000+00:00", "2026-01-01T00:00:00.000z",
		"2026-01-01 00:00:00.000Z", "2026-01-01t00:00:00.000Z", "2026-02-30T00:00:00.000Z", "2025-02-29T00:00:00.000Z", "2026-13-01T00:00:00.000Z", "2026-00-01T00:00:00.000Z",
		"2026-01-01T0:00:00.000Z", " 2026-01-01T00:00:00.000Z", "2026-01-01T00:00:00.000Z\n", "+2026-01-01T00:00:00.000Z", "2026-01-01T00:00:00.000", "2026-1-1T00:00:00.000Z"} {
		if got, err := ParseTime(text); err == nil || got != 0 {
			t.Errorf("%q: %d %v", text, got, err)
		}
	}
}

// Every moment of a clock has a text: what is outside the years is cut to them.
func TestTimeOfAnyClock(t *testing.T) {
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
	}{{5, time.Second, 1005}, {5, 1999 * time.Microsecond, 6}, {maxTime - 5, time.Hour, maxTime}, {maxTime, math.MaxInt64, maxTime}} {
		assert.Equal(t, c.want, c.from.Add(c.d), "%d + %v =", c.from, c.d)
	}
}

func TestCallerEqual(t *testing.T) {
	a := Caller{"alice", "acme", []string{"clerk", "owner"}}
	if !a.Equal(Caller{"alice", "acme", []string{"clerk", "owner"}}) || !(Caller{}).Equal(Caller{Roles: []string{}}) {
		t.Error("equal callers differ")
	}
	for _, b := range []Caller{{}, {"alice", "acme", nil}, {"alice", "acme", []string{"clerk"}}, {"alice", "acme", []string{"owner", "clerk"}}, {"alice", "", a.Roles}, {"", "acme", a.Roles}} {
		if a.Equal(b) || b.Equal(a) {
			t.Errorf("%+v is the same", b)
		}
	}
}

// Entries and envelopes are JSON, and stay as they are within it.
func TestEnvelopesAsJSON(t *testing.T) {
	text := `{"payload":"AA=="}`
	b, err := json.Marshal(map[string]any{"entry": Entry(text), "none": Entry(nil), "envelope": Envelope(text)})
	if want := `{"entry":` + text + `,"envelope":` + text + `,"none":null}`; err != nil || string(b) != want {
		t.Errorf("%s %v", b, err)
	}
	var in struct{ Envelope Envelope }
	src := []byte(`{"Envelope":` + text + `}`)
	if err := json.Unmarshal(src, &in); err != nil || string(in.Envelope) != text {
		t.Errorf("%s %v", in.Envelope, err)
	}
	for i := range src {
		src[i] = 'x'
	}
	assert.Equal(t, text, string(in.Envelope), "the envelope is not a copy")
	if Envelope(text).Digest() != digest(text) || Entry(text).Hash() == digest(text) {
		t.Error("envelopes are named by their digest, entries by their leaf hash")
	}
}
