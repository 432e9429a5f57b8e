package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/policy"
)

// renew prints what a draft says of the tools of a bundle that exists, as a diff of its file.
func renew(a *app, bundle string, files []string, draft []byte, notes []policy.Note) error {
	old, err := a.load(files)
	if err != nil {
		return err
	}
	file, b, err := fileOf(bundle, files)
	if err != nil {
		return err
	}
	r, err := newRenewal(file, b, draft)
	if err != nil {
		return err
	}
	if err := r.keeps(old, files); err != nil {
		return err
	}
	notes = slices.DeleteFunc(slices.Clone(notes), func(n policy.Note) bool { return !slices.Contains(r.New, n.Tool) })
	r.Notes, r.Diff = append([]policy.Note{}, notes...), r.diff()
	r.tell(a)
	tell(a, notes)
	if err := a.document([]byte(r.Diff), r); err != nil {
		return err
	}
	if len(r.New)+len(r.Changed)+len(r.Vanished) > 0 {
		return errNo
	}
	return nil
}

// tell writes what became of each tool to stderr; with --json it is in the result.
func (r *renewal) tell(a *app) {
	if a.json {
		return
	}
	for _, x := range []struct {
		what  string
		tools []string
	}{
		{"new", r.New}, {"changed", r.Changed}, {"vanished", r.Vanished},
		{"no definition is pinned, so it is not known whether it changed", r.Unpinned},
	} {
		for _, tool := range x.tools {
			fmt.Fprintf(a.errs, "%s: %s\n", ascii(tool), x.what)
		}
	}
}

// fileOf returns the file of the bundle with that name, and its text.
func fileOf(bundle string, files []string) (string, []byte, error) {
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return "", nil, err
		}
		d, err := parse(file, b)
		if err != nil {
			return "", nil, err
		}
		if d.Layer == "P1" && d.Bundle.Name == bundle {
			return file, b, nil
		}
	}
	return "", nil, fmt.Errorf("none of the files is the bundle %s: without files a new one is drafted", bundle)
}

// A bundle is as much of a document as is compared.
type bundle struct {
	Layer  string `json:"layer"`
	Bundle struct {
		Name string `json:"name"`
	} `json:"bundle"`
	Tools map[string]struct {
		Definition string `json:"definition"`
	} `json:"tools"`
	lines map[string]contracts.Pos
	whole map[string]any
}

func parse(name string, b []byte) (d bundle, err error) {
	doc, err := policy.Parse(name, b)
	if err != nil {
		return d, err
	}
	if err := json.Unmarshal(doc.Canonical, &d); err != nil {
		return d, err
	}
	d.lines = doc.Lines
	return d, json.Unmarshal(doc.Canonical, &d.whole)
}

// at returns the line on which a tool is declared. The first line of the file is 0.
func (d *bundle) at(tool string) int {
	return d.lines["/tools/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(tool)].Line - 1
}

// A renewal is what became of the tools of a bundle.
type renewal struct {
	New      []string      `json:"new"`
	Changed  []string      `json:"changed"`
	Vanished []string      `json:"vanished"`
	Unpinned []string      `json:"unpinned"` // by the bundle: no definition says whether they changed
	Notes    []policy.Note `json:"notes"`
	Diff     string        `json:"diff"`

	file  string
	old   bundle
	lines []string         // of the file, with their ends
	more  map[int][]string // lines that come before that one
}

var errStyle = errors.New("no diff can be made of how it is written: the tools have to stand below one another, " +
	"in YAML whose lines all end, each tool under its name")

func newRenewal(file string, text, draft []byte) (*renewal, error) {
	r := &renewal{New: []string{}, Changed: []string{}, Vanished: []string{}, Unpinned: []string{}, file: file,
		lines: slices.Collect(strings.Lines(string(text))), more: map[int][]string{}}
	var err error
	if r.old, err = parse(file, text); err != nil {
		return nil, err
	}
	now, err := parse("draft.yaml", draft)
	if err != nil {
		return nil, err
	}
	if !bytes.HasSuffix(text, []byte("\n")) {
		return nil, fmt.Errorf("%s: %w", file, errStyle)
	}
	blocks := blocksOf(draft, &now)
	for _, tool := range sorted(now.Tools) {
		was, known := r.old.Tools[tool]
		is := now.Tools[tool].Definition
		switch {
		case !known:
			r.New = append(r.New, tool)
		case was.Definition == "":
			r.Unpinned = append(r.Unpinned, tool)
		case was.Definition != is:
			r.Changed = append(r.Changed, tool)
			what := "# changed: its definition is another one now. If that is meant, take this over:"
			r.comment(tool, is, append([]string{what}, commented(blocks[tool])...))
		}
	}
	for _, tool := range sorted(r.old.Tools) {
		if _, there := now.Tools[tool]; !there {
			r.Vanished = append(r.Vanished, tool)
			what := "# vanished: the list of tools does not have " + tool + " any more"
			r.comment(tool, what, []string{what})
		}
	}
	if err := r.declare(blocks); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return r, nil
}

func sorted[T any](m map[string]T) (names []string) {
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// blocksOf returns the lines of each tool of a draft, without their indentation, the first being
// its name.
func blocksOf(draft []byte, d *bundle) map[string][]string {
	lines := strings.Split(strings.TrimSuffix(string(draft), "\n"), "\n")
	blocks := map[string][]string{}
	for tool := range d.Tools {
		from := d.at(tool)
		block := []string{lines[from][2:]}
		for _, l := range lines[from+1:] {
			if !strings.HasPrefix(l, "    ") {
				break
			}
			block = append(block, l[2:])
		}
		blocks[tool] = block
	}
	return blocks
}

// commented returns a block as comments, without its name and its effect, which a person says.
func commented(block []string) (list []string) {
	for _, l := range block[1:] {
		if !strings.HasPrefix(l, "  effect: ") {
			list = append(list, "# "+l)
		}
	}
	return list
}

// comment puts lines at a tool, unless a comment of the file says so already.
func (r *renewal) comment(tool, mark string, lines []string) {
	for _, l := range r.lines {
		if strings.HasPrefix(strings.TrimSpace(l), "#") && strings.Contains(l, mark) {
			return
		}
	}
	at := r.old.at(tool)
	r.insert(at, indentOf(r.lines[at]), lines)
}

func indentOf(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// insert puts lines before one.
func (r *renewal) insert(at, indent int, lines []string) {
	end := "\n"
	if strings.HasSuffix(r.lines[0], "\r\n") {
		end = "\r\n"
	}
	for _, l := range lines {
		r.more[at] = append(r.more[at], strings.Repeat(" ", indent)+l+end)
	}
}

// declare puts the new tools after the last one.
func (r *renewal) declare(blocks map[string][]string) error {
	if len(r.New) == 0 {
		return nil
	}
	pos, ok := r.old.lines["/tools"]
	if !ok || len(r.old.Tools) == 0 {
		return errStyle
	}
	end := pos.Line // below the word tools
	indent := indentOf(r.lines[r.old.at(sorted(r.old.Tools)[0])])
	said := func(i int) bool {
		l := strings.TrimSpace(r.lines[i])
		return l != "" && !strings.HasPrefix(l, "#")
	}
	for end < len(r.lines) && (!said(end) || indentOf(r.lines[end]) >= indent) {
		end++
	}
	for !said(end - 1) {
		end-- // comments above what follows are about that
	}
	for _, tool := range r.New {
		r.insert(end, indent, blocks[tool])
	}
	return nil
}

// text returns the file with the lines that are new.
func (r *renewal) text() string {
	var b strings.Builder
	for i := range len(r.lines) + 1 {
		for _, l := range r.more[i] {
			b.WriteString(l)
		}
		if i < len(r.lines) {
			b.WriteString(r.lines[i])
		}
	}
	return b.String()
}

// keeps returns an error unless the text with the new lines says what the old one says, and of the
// new tools that they are there, and the stack with it allows nothing more.
func (r *renewal) keeps(old *guardian.Policy, files []string) error {
	now, err := parse(r.file, []byte(r.text()))
	if err != nil {
		return fmt.Errorf("%s: %w (%w)", r.file, errStyle, err)
	}
	if tools, ok := now.whole["tools"].(map[string]any); ok {
		for _, tool := range r.New {
			delete(tools, tool)
		}
	}
	if !reflect.DeepEqual(now.whole, r.old.whole) {
		return fmt.Errorf("%s: %w", r.file, errStyle)
	}
	var docs []contracts.Document
	for _, file := range files {
		b := []byte(r.text())
		if file != r.file {
			if b, err = os.ReadFile(file); err != nil {
				return err
			}
		}
		doc, err := policy.Parse(file, b)
		if err != nil {
			return err
		}
		docs = append(docs, doc)
	}
	p, err := guardian.Compile(docs...)
	if err != nil {
		return fmt.Errorf("with the new tools the stack does not load: %w", err)
	}
	for _, c := range policy.Diff(old, p) {
		if c.Widens != "no" {
			return fmt.Errorf("with the new tools something may be allowed: %v", c)
		}
	}
	return nil
}

// diff returns the new lines as patch reads them; "" if there are none.
func (r *renewal) diff() string {
	const around = 3
	var b strings.Builder
	places := make([]int, 0, len(r.more))
	for at := range r.more {
		places = append(places, at)
	}
	slices.Sort(places)
	if len(places) > 0 {
		fmt.Fprintf(&b, "--- %s\n+++ %s\n", r.file, r.file)
	}
	added := 0
	for len(places) > 0 {
		n := 1
		for n < len(places) && places[n]-places[n-1] <= 2*around {
			n++
		}
		from, to := max(places[0]-around, 0), min(places[n-1]+around, len(r.lines))
		var hunk strings.Builder
		more := 0
		for i := from; i <= to; i++ {
			for _, l := range r.more[i] {
				hunk.WriteString("+" + l)
				more++
			}
			if i < to {
				hunk.WriteString(" " + r.lines[i])
			}
		}
		fmt.Fprintf(&b, "@@ -%d,%d +%d,%d @@\n%s", from+1, to-from, from+1+added, to-from+more, hunk.String())
		added += more
		places = places[n:]
	}
	return b.String()
}
