package guardian

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// goodSandboxes are of the bundle and the floor below. Each case of sandbox_refusals.txt spoils one
// thing of them, in both.
const goodSandboxes = `"sandboxes": {
		"none": {},
		"wide": {
			"args": ["-n", "x"],
			"clock": "real",
			"env": ["LANG", "HOME"],
			"files": {"/in": "read", "/out": "write", "/lib": "sha256:` + pin + `"},
			"gas": 5000000,
			"memory": "64MiB",
			"modules": ["` + pin + `"],
			"output": "2MiB",
			"random": "real"
		}
	}`

const goodBoxes = `{
	"bundle": {"name": "b", "version": 1}, "helm": "policy/v1", "layer": "P1",
	"rules": [{"id": "all", "allow": ["t", "u", "v", "w"]}],
	` + goodSandboxes + `,
	"tools": {
		"t": {"effect": "read", "input": {"type": "object"}, "sandbox": "wide"},
		"u": {"effect": "read", "input": {"type": "object"}, "sandbox": "none"},
		"v": {"effect": "read", "input": {"type": "object"}, "sandbox": "pure"},
		"w": {"effect": "write", "input": {"type": "object"}, "sandbox": "reported"}
	}
}`

const goodBoxFloor = `{
	"helm": "policy/v1", "layer": "P0", "name": "f", "version": 1,
	` + goodSandboxes + `,
	"profile": {"sandbox": {"read": "wide", "write": "reported", "destructive": "pure"}}
}`

// variables returns the names of n variables of 128 bytes.
func variables(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`"V%0127d"`, i))
	}
	return strings.Join(list, ",")
}

// longSandboxRefusals are those that are too long for sandbox_refusals.txt.
func longSandboxRefusals() []refusal {
	const wide = "/sandboxes/wide"
	spoil := func(old, new, at, says string) refusal { return refusal{old, new, wide + at, says} }
	var digests, paths []string
	for i := range 65 {
		digests = append(digests, `"`+crypto.Sum([]byte{byte(i)}).String()+`"`)
	}
	for i := range 17 {
		paths = append(paths, fmt.Sprintf(`"/p%d":"read"`, i))
	}
	return []refusal{
		spoil(`"args": ["-n", "x"]`, `"args": ["`+strings.Repeat("a", 257)+`"]`, "/args/0", "1 to 256 bytes"),
		spoil(`"env": ["LANG", "HOME"]`, `"env": ["`+strings.Repeat("A", 129)+`"]`, "/env/0", "1 to 128 of"),
		spoil(`"/in": "read"`, `"/`+strings.Repeat("a", 256)+`": "read"`, "/files/~1"+strings.Repeat("a", 256),
			"is no path of a guest"),
		spoil(`"/in": "read"`, strings.Join(paths, ","), "/files", "more than 16 paths"),
		spoil(`["`+pin+`"]`, `[`+strings.Join(digests, ",")+`]`, "/modules", "a list of 65"),
		spoil(`"env": ["LANG", "HOME"]`, `"env": [`+variables(64)+`]`, "", "more than 8 KiB in canonical form"),
	}
}

func TestSandboxRefusals(t *testing.T) {
	t.Parallel()
	bare := document(t, "bare.json", bundle("bare", toolText("x", ``), `{"id":"all","allow":"x"}`))
	cases := append(readRefusals(t, "sandbox_refusals", 105), longSandboxRefusals()...)
	for _, layer := range []string{goodBoxes, goodBoxFloor} {
		docs := func(text string) []contracts.Document {
			return []contracts.Document{document(t, "layer.yaml", text), bare}
		}
		_, err := Compile(docs(layer)...)
		require.NoError(t, err, "or the refusals would prove nothing")
		for _, c := range cases {
			require.Equal(t, 1, strings.Count(layer, c.old), "%q is not once in the good document", c.old)
			_, err := Compile(docs(strings.Replace(layer, c.old, c.new, 1))...)
			var e *LoadError
			require.ErrorAs(t, err, &e, "%s\n\tgives %v", c.new, err)
			require.True(t, err == error(e), "%s\n\tgives more than one error: %v", c.new, err)
			assert.True(t, e.Pointer == c.at && e.Document == "layer.yaml" && e.Remedy != "",
				"%s\n\tgives %v\n\twant it at %q of layer.yaml", c.new, e, c.at)
			contains(t, e.Error(), strings.Split(c.says, "|")...)
		}
	}
}

// What is at each limit loads, and what loads can be granted to a driver.
func TestSandboxLimits(t *testing.T) {
	t.Parallel()
	var digests, paths, args []string
	for i := range 64 {
		digests = append(digests, `"`+crypto.Sum([]byte{byte(i)}).String()+`"`)
	}
	for i := range 16 {
		paths = append(paths, fmt.Sprintf(`"/p%d":"write"`, i))
		args = append(args, `"`+strings.Repeat("a", 256)+`"`)
	}
	for _, profile := range []string{
		``, `"args":[]`, `"env":[]`, `"files":{}`, `"args":[` + strings.Join(args, ",") + `]`, `"env":["_"]`,
		`"env":["` + strings.Repeat("A", 128) + `"]`, `"env":[` + variables(60) + `]`, `"env":["z","a","_9"]`,
		`"files":{` + strings.Join(paths, ",") + `}`, `"files":{"/":"read"}`, `"files":{"/a":"read","/ab":"read","/a-b":"read"}`,
		`"files":{"/..a":"read"}`, `"gas":1`, `"gas":1000000000000`, `"memory":"64KiB"`, `"memory":"1024MiB"`,
		`"memory":"192KiB"`, `"output":"1KiB"`, `"output":"16MiB"`, `"modules":[` + strings.Join(digests, ",") + `]`,
	} {
		p := mustCompile(t, demanding("f", "w", profile), bundle("b", toolText("x", ``)+`,"y":{"effect":"write",`+
			`"input":{"type":"object"}}`, `{"id":"all","allow":"x"}`))
		list := p.Sandboxes("y")
		require.Len(t, list, 1, "%s", profile)
		assert.NoError(t, list[0].Grants.Check(), "%s", profile)
	}
}

// A tool and a floor name profiles of their own documents. The remedy says which there are to name.
func TestSandboxNames(t *testing.T) {
	t.Parallel()
	const other = `{"helm":"policy/v1","layer":"P0","name":"g","version":1,"sandboxes":{"elsewhere":{}}}`
	for _, c := range []struct{ old, new, at, says string }{
		{`"sandbox": "wide"`, `"sandbox": "elsewhere"`, "/tools/t/sandbox",
			`no profile "elsewhere" in this document; declare it under sandboxes, or write pure or reported`},
		{`"sandbox": "wide"`, `"sandbox": "wied"`, "/tools/t/sandbox", `no profile "wied" in this document; did you mean wide?`},
		{`"sandbox": "pure"`, `"sandbox": "Pure"`, "/tools/v/sandbox", "did you mean pure?"},
		{`"sandbox": "reported"`, `"sandbox": "report"`, "/tools/w/sandbox", "declare it under sandboxes"},
		{`"sandbox": "wide"`, `"sandbox": ["wide"]`, "/tools/t/sandbox", "is an array, not a string"},
		{`"sandbox": "wide"`, `"sandbox": {}`, "/tools/t/sandbox", "is an object, not a string"},
		{`"read": "wide"`, `"read": "elsewhere"`, "/profile/sandbox/read", `no profile "elsewhere" in this document`},
		{`"write": "reported"`, `"write": "reportde"`, "/profile/sandbox/write", "did you mean reported?"},
		{`"destructive": "pure"`, `"destructive": null`, "/profile/sandbox/destructive", "is null, not a string"},
	} {
		texts := []string{goodBoxes, goodBoxFloor, other}
		changed := 0
		var docs []contracts.Document
		for _, text := range texts {
			changed += strings.Count(text, c.old)
			docs = append(docs, document(t, "f", strings.Replace(text, c.old, c.new, 1)))
		}
		require.Equal(t, 1, changed, "%s", c.old)
		e := mustRefuse(t, docs...)
		assert.Equal(t, c.at, e.Pointer, "%v", e)
		contains(t, e.Error(), c.says)
	}
}

// All that is wrong with profiles is said at once, and nothing that is right once it is mended: not
// that a profile is missing while those of its document cannot be read.
func TestSandboxFaultsAtOnce(t *testing.T) {
	t.Parallel()
	errs := func(texts ...string) (list []string) {
		var docs []contracts.Document
		for i, text := range texts {
			docs = append(docs, document(t, fmt.Sprint("d", i), text))
		}
		_, err := Compile(docs...)
		var many interface{ Unwrap() []error }
		if errors.As(err, &many) {
			for _, err := range many.Unwrap() {
				list = append(list, err.Error())
			}
		} else if err != nil {
			list = []string{err.Error()}
		}
		for i, text := range list {
			list[i], _, _ = strings.Cut(text, "; ")
		}
		return list
	}
	spoiled := strings.NewReplacer(`"none": {}`, `"pure": {}, "none": {"gas": 0, "clock": "x"}`,
		`"sandbox": "wide"`, `"sandbox": "nope"`, `"read": "wide"`, `"read": "nope"`, `"real",`, `"reel",`)
	assert.Equal(t, []string{
		"d1: /sandboxes/none/clock: \"x\" is not one of fixed, real",
		"d1: /sandboxes/none/gas: no amount of gas",
		"d1: /sandboxes/pure: pure is built in, and grants nothing but the defaults",
		"d1: /sandboxes/wide/clock: \"reel\" is not one of fixed, real",
		"d1: /profile/sandbox/read: no profile \"nope\" in this document",
		"d0: /sandboxes/none/clock: \"x\" is not one of fixed, real",
		"d0: /sandboxes/none/gas: no amount of gas",
		"d0: /sandboxes/pure: pure is built in, and grants nothing but the defaults",
		"d0: /sandboxes/wide/clock: \"reel\" is not one of fixed, real",
		"d0: /tools/t/sandbox: no profile \"nope\" in this document",
	}, errs(spoiled.Replace(goodBoxes), spoiled.Replace(goodBoxFloor)))

	assert.Equal(t, []string{
		`d0: /sandboxes/w/files/~1a: "/a" and "/": one is below the other`,
		`d0: /sandboxes/w/files/~1b: "/b" and "/": one is below the other`,
	}, errs(demanding("f", "w", `"files":{"/b":"read","/a":"read","/":"read"}`),
		bundle("bare", toolText("x", ``), `{"id":"all","allow":"x"}`)))

	for _, c := range []struct{ old, new, want string }{
		{goodSandboxes, `"sandboxes": []`, "/sandboxes: is an array, not an object"},
		{goodSandboxes, `"sandboxes": null`, "/sandboxes: is null, not an object"},
		{`"wide": {`, `"wide": {"x": 1,`, `/sandboxes/wide/x: unknown key "x"`},
	} {
		for _, text := range []string{goodBoxes, goodBoxFloor} {
			list := errs(strings.Replace(text, c.old, c.new, 1), bundle("bare", toolText("x", ``), `{"id":"all","allow":"x"}`))
			assert.Equal(t, []string{"d0: " + c.want}, list, "%s", c.new)
		}
	}
}

// An overlay has no profiles: what it may say of a stack in use is which calls to deny.
func TestSandboxesOfAnOverlay(t *testing.T) {
	t.Parallel()
	doc := document(t, "o.yaml", overlay("o", `,"sandboxes":{"none":{}}`))
	e := mustRefuse(t, document(t, "", house), document(t, "", floor("labels", labelled)), doc)
	assert.Equal(t, `o.yaml: /sandboxes: unknown key "sandboxes"; remove it: sandboxes is a key of P0 and P1`, e.Error())
	_, err := mustCompile(t, house, floor("labels", labelled)).Narrow(doc)
	require.ErrorAs(t, err, &e)
	assert.Equal(t, "/sandboxes", e.Pointer)
}
