package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/faces/auth"
)

// A spec is openapi.json.
type spec struct {
	Paths      map[string]map[string]operation
	Components struct {
		Parameters map[string]parameter
		Responses  map[string]response
		Schemas    map[string]any
	}
}

type operation struct {
	Scopes      []auth.Scope `json:"x-scopes"`
	Acts        bool         `json:"x-acts"`
	Parameters  []parameter
	RequestBody *struct {
		Content map[string]struct{ Schema any }
	}
	Responses map[string]response
}

type parameter struct {
	Ref      string `json:"$ref"`
	Name, In string
	Required bool
	Schema   any
}

type response struct {
	Ref     string `json:"$ref"`
	Content map[string]struct{ Schema any }
}

var readSpec = sync.OnceValue(func() (s spec) {
	if err := json.Unmarshal(document, &s); err != nil {
		panic(err)
	}
	return s
})

// A check validates a value by a schema: by the keywords that openapi.json uses, and no others.
type check struct{ s *spec }

func (c check) value(schema, v any, at string) error {
	members, ok := schema.(map[string]any)
	if !ok {
		return fmt.Errorf("%s: the schema is no object", at)
	}
	for _, keyword := range slices.Sorted(maps.Keys(members)) {
		if err := c.keyword(members, keyword, v, at); err != nil {
			return err
		}
	}
	return nil
}

func (c check) keyword(schema map[string]any, keyword string, v any, at string) error {
	is := schema[keyword]
	bad := func() error { return fmt.Errorf("%s: %s: %v", at, keyword, v) }
	switch keyword {
	case "description", "example":
		return nil
	case "$ref":
		name := strings.TrimPrefix(is.(string), "#/components/schemas/")
		if c.s.Components.Schemas[name] == nil {
			return fmt.Errorf("%s: no schema %s", at, name)
		}
		return c.value(c.s.Components.Schemas[name], v, at)
	case "type":
		list, ok := is.([]any)
		if !ok {
			list = []any{is}
		}
		if !slices.ContainsFunc(list, func(t any) bool { return typed(t.(string), v) }) {
			return bad()
		}
	case "const":
		if is != v {
			return bad()
		}
	case "enum":
		if !slices.Contains(is.([]any), v) {
			return bad()
		}
	case "pattern":
		if s, ok := v.(string); ok && !compiled(is.(string)).MatchString(s) {
			return bad()
		}
	case "maxLength":
		if s, ok := v.(string); ok && float64(utf8.RuneCountInString(s)) > is.(float64) {
			return bad()
		}
	case "minimum", "maximum":
		n, ok := v.(json.Number)
		if !ok {
			return nil
		}
		if f, _ := n.Float64(); keyword == "minimum" && f < is.(float64) || keyword == "maximum" && f > is.(float64) {
			return bad()
		}
	case "items":
		list, _ := v.([]any)
		for i, x := range list {
			if err := c.value(is, x, fmt.Sprintf("%s/%d", at, i)); err != nil {
				return err
			}
		}
	case "oneOf":
		n := 0
		var last error
		for _, s := range is.([]any) {
			if err := c.value(s, v, at); err == nil {
				n++
			} else {
				last = err
			}
		}
		if n != 1 {
			return fmt.Errorf("%s: %d schemas of oneOf hold; %w", at, n, last)
		}
	case "properties", "required":
		return c.member(schema, keyword, v, at)
	default:
		return fmt.Errorf("%s: this test does not know the keyword %s", at, keyword)
	}
	return nil
}

var patterns sync.Map // by their text

func compiled(pattern string) *regexp.Regexp {
	p, ok := patterns.Load(pattern)
	if !ok {
		p, _ = patterns.LoadOrStore(pattern, regexp.MustCompile(pattern))
	}
	return p.(*regexp.Regexp)
}

// member checks a keyword of objects.
func (c check) member(schema map[string]any, keyword string, v any, at string) error {
	object, ok := v.(map[string]any)
	if !ok {
		return nil
	}
	properties, _ := schema["properties"].(map[string]any)
	switch keyword {
	case "required":
		for _, name := range schema[keyword].([]any) {
			if _, ok := object[name.(string)]; !ok {
				return fmt.Errorf("%s: lacks %s", at, name)
			}
		}
	case "properties":
		for name, x := range object {
			s, ok := properties[name]
			if !ok { // clients pass over it, and this document is to have it
				return fmt.Errorf("%s: the schema has no member %s", at, name)
			}
			if err := c.value(s, x, at+"/"+name); err != nil {
				return err
			}
		}
	}
	return nil
}

func typed(name string, v any) bool {
	switch x := v.(type) {
	case nil:
		return name == "null"
	case bool:
		return name == "boolean"
	case string:
		return name == "string"
	case []any:
		return name == "array"
	case map[string]any:
		return name == "object"
	case json.Number:
		return name == "number" || name == "integer" && !strings.ContainsAny(x.String(), ".eE")
	}
	return false
}

// seen are the operations and statuses that answers were validated for.
var seen struct {
	sync.Mutex
	of map[string]bool
}

// valid requires that an answer is one that openapi.json has.
func valid(t testing.TB, r *http.Request, status int, media string, body []byte) {
	t.Helper()
	require.NoError(t, conforms(r, status, media, body), "%s %s: %d", r.Method, r.URL, status)
}

func conforms(r *http.Request, status int, media string, body []byte) error {
	s := readSpec()
	answer := s.Components.Responses["error"] // of a path or method that there is none of
	if op, name, ok := s.find(r); ok {
		code := fmt.Sprint(status)
		if answer, ok = op.Responses[code]; !ok {
			if status < 400 {
				return fmt.Errorf("openapi.json has no answer %d there", status)
			}
			answer = op.Responses["default"]
		}
		seen.Lock()
		if seen.of == nil {
			seen.of = map[string]bool{}
		}
		seen.of[name+" "+code] = true
		seen.Unlock()
	} else if status < 400 {
		return fmt.Errorf("openapi.json has no such path")
	}
	if answer.Ref != "" {
		answer = s.Components.Responses[strings.TrimPrefix(answer.Ref, "#/components/responses/")]
	}
	media, _, _ = strings.Cut(media, ";")
	content, ok := answer.Content[media]
	if !ok && (len(answer.Content) > 0 || len(body) > 0) {
		return fmt.Errorf("openapi.json has no %q there", media)
	}
	if media != "application/json" {
		return nil
	}
	var v any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return err
	}
	return check{&s}.value(content.Schema, v, "")
}

// find returns the operation that a request is for.
func (s *spec) find(r *http.Request) (operation, string, bool) {
	parts, err := segments(r.URL)
	if err != nil {
		return operation{}, "", false
	}
	for name, methods := range s.Paths {
		p := path{path: name}
		if op, ok := methods[strings.ToLower(r.Method)]; ok && p.match(parts, r.Clone(r.Context())) {
			return op, r.Method + " " + name, true
		}
	}
	return operation{}, "", false
}
