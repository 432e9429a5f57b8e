package langchaingo

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/crypto"
)

// What a text is judged as, and what the tool gets of it.
func TestText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                        `{"input":""}`,
		"weather in Rome":         `{"input":"weather in Rome"}`,
		"1.10":                    `{"input":"1.10"}`,
		"9007199254740993":        `{"input":"9007199254740993"}`,
		"1e400":                   `{"input":"1e400"}`,
		"null":                    `{"input":"null"}`,
		`"quoted"`:                `{"input":"\"quoted\""}`,
		`[{"a":1,"a":2}]`:         `{"input":"[{\"a\":1,\"a\":2}]"}`,
		"a <b> & \u2028":          "{\"input\":\"a <b> & \u2028\"}",
		"line\nand \x00 and {}":   `{"input":"line\nand \u0000 and {}"}`,
		"```json\n{\"a\":1}\n```": "{\"input\":\"```json\\n{\\\"a\\\":1}\\n```\"}",
	} {
		args, err := canonical(arguments(in))
		require.NoError(t, err, in)
		assert.Equal(t, want, string(args), in)
		assert.Equal(t, in, text(args))
	}
}

// An object is judged as it is, and the tool gets what was judged.
func TestTextObject(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		`{}`, `{"a":1}`, ` {"input":1}`, "\n\t{\"input\":{\"a\":1}}", `{"input":"x","unit":"EUR"}`, `{"Input":"x"}`,
		`{"input":null}`, `{"input":"{\"amount\":1000000}"}`, `{"input":" {"}`, "{\"input\":\"\uFEFF{}\"}",
	} {
		require.Equal(t, in, string(arguments(in)))
		args, err := canonical([]byte(in))
		require.NoError(t, err, in)
		assert.Equal(t, string(args), text(args), "no text that a tool reads as an object that was not judged")
	}
	assert.Equal(t, "x", text(json.RawMessage(`{"input":"x"}`)), "the same arguments, the same run")
}

// What a lenient reader may take for an object is no text.
func TestTextMalformed(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		`{"a":1,"a":2}`, `{"a":1} {"a":2}`, `{a:1}`, `{`, "{\"a\":\"\\ud800\"}", `{"a":1e400}`, "\uFEFF{\"a\":1}",
		"\u00a0{\"a\":1}", "\x00{\"a\":1}", "not UTF-8 \xff",
	} {
		require.Equal(t, in, string(arguments(in)))
		_, err := canonical([]byte(in))
		assert.Error(t, err, "%q", in)
	}
}

// FuzzText: arguments and text are each other's reverse, and no text is both ways.
func FuzzText(f *testing.F) {
	for _, s := range []string{"", "x", `{"a":1}`, `{"input":"x"}`, `{"input":"{}"}`, "\xff", "\u2028", `"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		args, err := canonical(arguments(in))
		if err != nil {
			return // denied
		}
		out := text(args)
		if !isObject(in) && out != in {
			t.Fatalf("%q arrives as %q", in, out)
		}
		again, err := canonical(arguments(out))
		if err != nil || string(again) != string(args) {
			t.Fatalf("%q was judged as %s, and is %s when the tool gets it: %v", in, args, again, err)
		}
	})
}

// canonical is how Guard reads arguments.
func canonical(args []byte) (json.RawMessage, error) {
	var tree crypto.Tree
	err := tree.Parse(args, crypto.Limits{Bytes: 1 << 20, Depth: 64, Object: true})
	if err != nil {
		return nil, err
	}
	return tree.Root().Append(nil), nil
}
