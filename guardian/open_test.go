package guardian

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/table"
)

// httpTool has a map of headers, maps in a list and in a map, and a body that is open.
const httpTool = `"http.send":{"effect":"read","open":["/body","/parts/*/meta"],"input":{"type":"object","required":["url"],"properties":{
	"url":{"type":"string"},
	"headers":{"type":"object","maxProperties":4,"propertyNames":{"pattern":"^[a-z-]+$"},"additionalProperties":{"type":"string"}},
	"parts":{"type":"array","items":{"type":"object","required":["tags"],"properties":{"meta":{},"tags":{"type":"object","properties":{"n":{"type":"string"}},"additionalProperties":{"type":"string"}}}}},
	"groups":{"type":"object","additionalProperties":{"type":"array","items":{"type":"string"}}},
	"either":{"anyOf":[{"type":"array","items":{"type":"string"}},{"type":"object","additionalProperties":{"type":"string"}}]},
	"plain":{"type":"object","properties":{"a":{"type":"string"}}},
	"mixed":{"anyOf":[{"type":"array","items":{"type":"string"}},{"type":"object","properties":{"a":{"type":"string"}}}]},
	"body":{"type":["object","null"],"properties":{"kind":{"type":"string"}}}}}}`

// TestMaps: every, some, count and scope go through the members of a map as through elements.
func TestMaps(t *testing.T) {
	t.Parallel()
	for _, c := range table.Read[struct{ When, Args, Want string }](t, "maps", 24) {
		p := mustCompile(t, bundle("b", httpTool, `{"id":"r","allow":"http.send","when":`+c.When+`}`))
		reason := map[string]contracts.ReasonCode{
			"yes": contracts.ReasonAllow, "no": contracts.ReasonNoPolicyDefined,
			"error": contracts.ReasonFailClosedError,
		}[c.Want]
		r, why := p.judged(inputs(t, "http.send", c.Args), nil)
		assert.Equal(t, reason, r.Reason, "%s of %s: %s", c.When, c.Args, why)
	}
}

// TestMapScope: scope covers the members of a map, also those that nobody foresaw.
func TestMapScope(t *testing.T) {
	t.Parallel()
	scoped := strings.Replace(httpTool, `"input"`,
		`"scope":[{"arg":"/headers/*","host":["example.com"],"absent":true},{"arg":"/parts/*/tags/*","in":["a","b"],"absent":true}],"input"`, 1)
	p := mustCompile(t, bundle("b", scoped, `{"id":"r","allow":"http.send"}`))
	allow := want{contracts.ReasonAllow, 8, "P1:b:r"}
	outside := want{contracts.ReasonDestinationNotAllowed, 2, "P1:b:scope"}
	for args, w := range map[string]want{
		`{"url":"x"}`:              allow,
		`{"url":"x","headers":{}}`: allow,
		`{"url":"x","headers":{"a":"example.com","b":"EXAMPLE.com"}}`:                          allow,
		`{"url":"x","headers":{"a":"example.com","x-forwarded-host":"evil.example"}}`:          outside,
		`{"url":"x","headers":{"a":"example.com/"}}`:                                           outside,
		`{"url":"x","parts":[{"tags":{"n":"a"}},{"tags":{"z":"b"}}]}`:                          allow,
		`{"url":"x","parts":[{"tags":{"n":"a"}},{"tags":{"z":"c"}}]}`:                          outside,
		`{"url":"x","parts":[{"tags":{"n":"c"}}]}`:                                             outside,
		`{"url":"x","headers":{"A":"example.com"}}`:                                            {contracts.ReasonSchemaViolation, 2, ""},
		`{"url":"x","headers":{"a":"","b":"","c":"","d":"","e":""}}`:                           {contracts.ReasonSchemaViolation, 2, ""},
		`{"url":"x","headers":{"a":["example.com"]}}`:                                          {contracts.ReasonSchemaViolation, 2, ""},
		`{"url":"x","body":{"kind":"k","x":[{"y":1}]},"parts":[{"tags":{},"meta":{"z":[1]}}]}`: allow,
		`{"url":"x","body":{"kind":1}}`:                                                        {contracts.ReasonSchemaViolation, 2, ""},
		`{"url":"x","other":{}}`:                                                               {contracts.ReasonSchemaViolation, 2, ""},
	} {
		w.check(t, p, inputs(t, "http.send", args))
	}
}

// TestOpenRefused: no pointer of a document goes below what is open, or names a member of a map,
// and what open lists must be there, and need it.
func TestOpenRefused(t *testing.T) {
	t.Parallel()
	for _, c := range table.Read[struct{ When, Pointer, What string }](t, "open_refusals", 21) {
		err := mustRefuse(t, document(t, "d", bundle("b", httpTool, `{"id":"r","deny":"http.send","when":`+c.When+`}`)))
		assert.Equal(t, "/rules/0/when"+c.Pointer, err.Pointer, c.When)
		assert.Contains(t, err.What, c.What, c.When)
		assert.NotEmpty(t, err.Remedy, c.When)
	}
	for list, what := range map[string]string{
		`["/nope"]`:            `no "/nope" in the input that could be open`,
		`["/headers/x"]`:       `no "/headers/x" in the input that could be open`,
		`["/plain/*"]`:         `no "/plain/*" in the input that could be open`,
		`["/parts/0/meta"]`:    `no "/parts/0/meta" in the input that could be open`,
		`["/url"]`:             `"/url" is string: there is nothing to open`,
		`["/body/kind"]`:       `"/body/kind" is string: there is nothing to open`,
		`["body"]`:             `"body" is no JSON Pointer`,
		`["/body","/body/x"]`:  `"/body/x" is below what is open already`,
		`["","/parts/*/meta"]`: `"/parts/*/meta" is below what is open already`,
		`["/body","/body"]`:    `"/body" twice`,
		`[]`:                   "a list of 0",
		`[` + strings.Repeat(`"/body",`, 256) + `"/body"]`: "a list of 257",
		`"/body"`: "is a string, not a list",
		`[1]`:     "is a number, not a string",
	} {
		text := strings.Replace(httpTool, `["/body","/parts/*/meta"]`, list, 1)
		text = strings.Replace(text, `"meta":{},`, `"meta":{"type":"object","additionalProperties":false},`, 1)
		text = strings.Replace(text, `["object","null"],"prop`, `"object","additionalProperties":false,"prop`, 1)
		err := mustRefuse(t, document(t, "d", bundle("b", text, `{"id":"r","deny":"http.send"}`)))
		assert.Contains(t, err.What, what, list)
		assert.True(t, strings.HasPrefix(err.Pointer, "/tools/http.send/open"), "%s: %s", list, err.Pointer)
	}
}

// TestOpenRoot: from the root down all may be there, and rules ask only whether.
func TestOpenRoot(t *testing.T) {
	t.Parallel()
	tool := `"t":{"effect":"read","open":[""],"input":{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}},"additionalProperties":true}}`
	p := mustCompile(t, bundle("b", tool, `{"id":"r","allow":"t"}`))
	want{contracts.ReasonAllow, 8, "P1:b:r"}.check(t, p, inputs(t, "t", `{"n":1,"x":{"y":[{}]}}`))
	want{contracts.ReasonSchemaViolation, 2, ""}.check(t, p, inputs(t, "t", `{"n":"1"}`))
	err := mustRefuse(t, document(t, "d", bundle("b", tool, `{"id":"r","allow":"t","when":{"arg":"/n","eq":1}}`)))
	assert.Contains(t, err.What, `"/n" is below what is open`)
}

// TestOpenIsNotShared: of two tools with one input, open is of the one that has it.
func TestOpenIsNotShared(t *testing.T) {
	t.Parallel()
	const input = `"input":{"type":"object","properties":{"o":{"type":"object","properties":{"a":{"type":"string"}}}}}`
	p := mustCompile(t, bundle("b", `"a":{"effect":"read","open":["/o"],`+input+`},"b":{"effect":"read",`+input+`}`,
		`{"id":"r","allow":["a","b"]}`))
	want{contracts.ReasonAllow, 8, "P1:b:r"}.check(t, p, inputs(t, "a", `{"o":{"x":1}}`))
	want{contracts.ReasonSchemaViolation, 2, ""}.check(t, p, inputs(t, "b", `{"o":{"x":1}}`))
	tools := p.Tools()
	assert.Equal(t, []string{"/o"}, tools[0].Open, "what the policy says of itself")
	assert.Empty(t, tools[1].Open)
	tools[0].Open[0] = "/x"
	assert.Equal(t, []string{"/o"}, p.Tools()[0].Open, "it is a copy")
}
