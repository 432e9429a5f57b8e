package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/policy"
)

// A mode is the sources that are left in the policy. A from that has none left is false.
type mode struct {
	name string
	keep func(source string, text bool) bool // text: it is a fact that is declared as text
}

var modes = []mode{
	{"as written", func(string, bool) bool { return true }},
	{"user alone", func(source string, _ bool) bool { return source == "user" }},
	{"facts alone", func(source string, _ bool) bool { return source != "user" }},
	{"without text facts", func(_ string, text bool) bool { return !text }},
}

// document reads the policy of a suite: SUITE.json or SUITE.yaml.
func document(dir, suite string) (contracts.Document, error) {
	if !filepath.IsLocal(suite) || filepath.Base(suite) != suite {
		return contracts.Document{}, fmt.Errorf("suite %q: no file can have its name", suite)
	}
	var found []string
	var text []byte
	for _, ending := range []string{".json", ".yaml"} {
		name := filepath.Join(dir, suite+ending)
		switch b, err := os.ReadFile(name); {
		case err == nil:
			found, text = append(found, name), b
		case !errors.Is(err, fs.ErrNotExist):
			return contracts.Document{}, err
		}
	}
	if len(found) != 1 {
		return contracts.Document{}, fmt.Errorf("suite %s: %d policies in %s, not one: %s.json or %s.yaml", suite,
			len(found), dir, suite, suite)
	}
	d, err := policy.Parse(found[0], text)
	if err == nil && !bytes.Contains(d.Canonical, []byte(`"layer":"P1"`)) {
		err = fmt.Errorf("%s: the policy of a suite is one bundle: layer P1", found[0])
	}
	return d, err
}

// in returns a document with the sources of the mode alone.
func (m mode) in(d contracts.Document) (contracts.Document, error) {
	var root map[string]any
	decode := json.NewDecoder(bytes.NewReader(d.Canonical))
	decode.UseNumber()
	if err := decode.Decode(&root); err != nil {
		return d, err
	}
	w := rewriter{mode: m, text: textFacts(root)}
	for _, key := range []string{"rules", "requires", "budgets"} { // elsewhere a from is something else
		w.walk(root[key])
	}
	if w.changed == 0 {
		return d, nil
	}
	b, err := json.Marshal(root)
	if err != nil {
		return d, err
	}
	return policy.Parse(d.Name+", "+m.name, b)
}

// textFacts returns the sources that are declared with text: true.
func textFacts(root map[string]any) map[string]bool {
	text := make(map[string]bool)
	tools, _ := root["tools"].(map[string]any)
	for tool, entry := range tools {
		entry, _ := entry.(map[string]any)
		facts, _ := entry["facts"].(map[string]any)
		for name, fact := range facts {
			fact, _ := fact.(map[string]any)
			text[tool+"#"+name] = fact["text"] == true
		}
	}
	return text
}

// A rewriter changes the predicates of a document in place.
type rewriter struct {
	mode
	text    map[string]bool
	changed int
}

func (w *rewriter) walk(v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			w.walk(e)
		}
	case map[string]any:
		for _, e := range v {
			w.walk(e)
		}
		if sources, ok := v["from"].([]any); ok {
			w.from(v, sources)
		}
	}
}

// from takes sources out of a predicate. Without any left it says what a from of no source does:
// that a value is not found, and that a missing one is as absent says. No caller has the id that is
// asked for. It is another each time, since two rules of equal text would be refused.
func (w *rewriter) from(p map[string]any, sources []any) {
	left := slices.DeleteFunc(slices.Clone(sources), func(s any) bool {
		name, _ := s.(string)
		return !w.keep(name, w.text[name])
	})
	if len(left) == len(sources) {
		return
	}
	w.changed++
	switch {
	case len(left) > 0:
		p["from"] = left
	case p["absent"] == true:
		delete(p, "from")
		delete(p, "absent")
		p["exists"] = false
	default:
		clear(p)
		p["caller"], p["eq"], p["absent"] = "id", "nobody-"+strconv.Itoa(w.changed), false
	}
}
