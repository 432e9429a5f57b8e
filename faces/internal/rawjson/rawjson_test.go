package rawjson

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestCheck: what two programs may read as two things is refused.
func TestCheck(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]error{
		`{"a":1,"b":[true,false,null,-0.5e+3,"x\u00e9\ud83d\ude00"]}`: nil,
		` [ ] `:                   nil,
		`"\ud83d"`:                nil, // half of an emoji
		`{"a":1,"\u0061":2}`:      ErrTwice,
		`{"x":[{"a":1,"a":1}]}`:   ErrTwice,
		`{"\ud83d":1,"\ud83e":2}`: ErrTwice, // both are U+FFFD
		`{"a":1,"A":2}`:           nil,
		`{"a":1} {}`:              ErrSyntax,
		`{"a":01}`:                ErrSyntax,
		`{"a":1,}`:                ErrSyntax,
		`[1,]`:                    ErrSyntax,
		`{'a':1}`:                 ErrSyntax,
		`{"a" 1}`:                 ErrSyntax,
		`{"a":+1}`:                ErrSyntax,
		`{"a":.5}`:                ErrSyntax,
		`{"a":1.}`:                ErrSyntax,
		`{"a":1e}`:                ErrSyntax,
		`{"a":NaN}`:               ErrSyntax,
		`{"a":truE}`:              ErrSyntax,
		"\"\x00\"":                ErrSyntax,
		"\"\n\"":                  ErrSyntax,
		`"\x"`:                    ErrSyntax,
		`"\u12g4"`:                ErrSyntax,
		`"\u12`:                   ErrSyntax,
		`"`:                       ErrSyntax,
		``:                        ErrSyntax,
		"\"\xff\"":                ErrSyntax,
		"\ufeff{}":                ErrSyntax,
		"{}\x00":                  ErrSyntax,
		strings.Repeat("[", 128) + strings.Repeat("]", 128): nil,
		strings.Repeat("[", 129) + strings.Repeat("]", 129): ErrDeep,
	} {
		_, err := Check([]byte(text))
		assert.Equal(t, want, err, "%.60q", text)
	}
	var many bytes.Buffer
	for i := range maxMembers + 1 {
		b, _ := json.Marshal(string(rune(i + 0x10000)))
		many.WriteString("," + string(b) + ":0")
	}
	_, err := Check([]byte("{" + many.String()[1:] + "}"))
	assert.Equal(t, ErrMembers, err)
}

// TestValue reads a text, and writes it again with something changed.
func TestValue(t *testing.T) {
	t.Parallel()
	const text = ` { "a" : [ 1 , "b,]}" , {"c":"\"x\\"} ] ,"\u0064":1.0, "e" : "\ud83d" , "f":"\ud83d\ude00" } `
	v, err := Check([]byte(text))
	require.NoError(t, err)
	assert.Equal(t, Object, v.Kind())
	var list []string
	for e := range v.Get("a").Elements() {
		list = append(list, string(e.Raw()))
	}
	assert.Equal(t, []string{"1", `"b,]}"`, `{"c":"\"x\\"}`}, list)
	assert.Equal(t, "1.0", string(v.Get("d").Raw()))
	assert.Equal(t, Missing, v.Get("D").Kind())
	assert.True(t, v.Get("e").Halves() && v.Get("e").Text() == "\ufffd")
	assert.True(t, !v.Get("f").Halves() && v.Get("f").Text() == "😀")
	same := v.Edit(func(m Member) []byte { return m.Value.Raw() })
	assert.Equal(t, strings.TrimSpace(text), string(same.Raw()), "nothing was changed")
	other := v.Edit(func(m Member) []byte {
		switch m.Name {
		case "a":
			return nil
		case "d":
			return []byte(`2`)
		}
		return m.Value.Raw()
	}, []byte(`"helm":{}`))
	assert.Equal(t, `{"\u0064":2,"e":"\ud83d","f":"\ud83d\ude00","helm":{}}`, string(other.Raw()))
	assert.Equal(t, `[1,2]`, string(List([][]byte{[]byte("1"), []byte("2")}).Raw()))
}

// FuzzCheck: what is accepted is what encoding/json takes, its parts are, and it reads the same.
func FuzzCheck(f *testing.F) {
	f.Add([]byte(`{"a":[1,"b",{"c":null}],"\u0064":true}`))
	f.Add([]byte(`["\ud83d\ud83d\ude00", -0e0]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := Check(b)
		if err != nil {
			if err == ErrSyntax && json.Valid(b) && bytes.ToValidUTF8(b, nil) != nil && len(bytes.ToValidUTF8(b,
				nil)) == len(b) {
				t.Fatalf("%q is refused: %v", b, err)
			}
			return
		}
		if !json.Valid(b) {
			t.Fatalf("%q is no JSON", b)
		}
		var want any
		d := json.NewDecoder(bytes.NewReader(b))
		d.UseNumber()
		if err := d.Decode(&want); err != nil {
			t.Fatal(err)
		}
		assert.Equal(t, want, read(t, v))
	})
}

func read(t *testing.T, v Value) any {
	switch v.Kind() {
	case Object:
		m := map[string]any{}
		for x := range v.Members() {
			m[x.Name] = read(t, x.Value)
		}
		return m
	case Array:
		list := []any{}
		for x := range v.Elements() {
			list = append(list, read(t, x))
		}
		return list
	case String:
		return v.Text()
	case Number:
		return json.Number(v.Raw())
	case Bool:
		return v.Is("true")
	case Null:
		return nil
	}
	t.Fatal("missing")
	return nil
}
