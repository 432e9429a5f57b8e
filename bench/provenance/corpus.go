package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/helmkernel/helm/crypto"
)

// marker is the word that stands in an output where a stranger can write.
const marker = "ZZINJZZ"

// A suite is one set of tools, with tasks of users and goals of attackers.
type suite struct {
	name  string
	tasks []task
	goals []task // of which the text is what the stranger writes
}

// A task is a text, and the recorded calls that do what it asks.
type task struct {
	where string // in the file, for errors
	text  string
	calls []call
}

// A call is a recorded call and its output.
type call struct {
	where  string
	tool   string
	args   crypto.Value
	out    []byte // canonical JSON, null if none is recorded
	marked []byte // out with the marker; nil if there is none, so that no stranger can write in it
}

// exposed returns how many calls there are up to the last whose output a stranger can write in.
func (t *task) exposed() int {
	for i := len(t.calls); i > 0; i-- {
		if t.calls[i-1].marked != nil {
			return i
		}
	}
	return 0
}

// read reads a corpus, in the form of the package comment. Suites, tasks and goals are in the order
// of their names. An error names the file and, by JSON Pointer, the place.
func read(file string) ([]suite, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	tree := new(crypto.Tree)
	if err := tree.Parse(text, crypto.Limits{Bytes: 512 << 20, Depth: crypto.MaxDepth}); err != nil {
		var bad *crypto.SyntaxError
		if errors.As(err, &bad) {
			line := 1 + bytes.Count(text[:bad.Offset], []byte("\n"))
			column := bad.Offset - bytes.LastIndexByte(text[:bad.Offset], '\n')
			return nil, fmt.Errorf("%s:%d:%d: %s", file, line, column, bad.What)
		}
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	r := &reader{file: file}
	suites := r.corpus(tree.Root())
	return suites, r.err
}

// A reader keeps the first error.
type reader struct {
	file string
	err  error
}

// fail records what is wrong with a value.
func (r *reader) fail(where, format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%s: %s: %s", r.file, where, fmt.Sprintf(format, args...))
	}
}

func (r *reader) corpus(v crypto.Value) []suite {
	if r.object(v, `""`); v.Len() == 0 {
		r.fail(`""`, "no suites")
	}
	var suites []suite
	for it := v.Iter(); it.Next(); {
		where := below("", it.Key())
		r.object(it.Value(), where, "user", "goals")
		suites = append(suites, suite{string(it.Key()), r.tasks(it.Value(), where, "user", "prompt"),
			r.tasks(it.Value(), where, "goals", "goal")})
	}
	return suites
}

// tasks reads the tasks of a suite, or its goals.
func (r *reader) tasks(suite crypto.Value, where, key, text string) []task {
	v := suite.Get(key)
	if key == "goals" && v.Kind() == crypto.Missing {
		return nil // a corpus of benign calls
	}
	where += "/" + key
	r.object(v, where)
	var tasks []task
	for it := v.Iter(); it.Next(); {
		where, v := below(where, it.Key()), it.Value()
		r.object(v, where, text, "calls")
		if v.Get("calls").Kind() != crypto.Array {
			r.fail(where+"/calls", "is %v, not an array", v.Get("calls").Kind())
		}
		t := task{where: r.file + ": " + where, text: r.text(v, where, text)}
		for c := range v.Get("calls").Elements() {
			t.calls = append(t.calls, r.call(c, fmt.Sprintf("%s/calls/%d", where, len(t.calls))))
		}
		tasks = append(tasks, t)
	}
	return tasks
}

func (r *reader) call(v crypto.Value, where string) call {
	r.object(v, where, "tool", "args", "out", "marked")
	c := call{where: r.file + ": " + where, tool: r.text(v, where, "tool"), args: v.Get("args"),
		out: v.Get("out").Append(nil)}
	if !c.args.IsArgs() {
		r.fail(where+"/args", "is no object that a call may have as arguments (docs/FORMATS.md, section 1)")
	}
	if c.out == nil {
		c.out = []byte("null")
	}
	if marked := v.Get("marked").Append(nil); bytes.Contains(marked, []byte(marker)) {
		c.marked = marked
	}
	return c
}

// object refuses anything but an object with members of these names alone; of any names if there
// are none.
func (r *reader) object(v crypto.Value, where string, names ...string) {
	if v.Kind() != crypto.Object {
		r.fail(where, "is %v, not an object", v.Kind())
	}
next:
	for it := v.Iter(); len(names) > 0 && it.Next(); {
		for _, name := range names {
			if string(it.Key()) == name {
				continue next
			}
		}
		r.fail(below(where, it.Key()), "is none of %s", strings.Join(names, ", "))
	}
}

// text returns a member that is a string and not empty.
func (r *reader) text(v crypto.Value, where, name string) string {
	s := v.Get(name)
	if s.Kind() != crypto.String {
		r.fail(where+"/"+name, "is %v, not a string", s.Kind())
	} else if len(s.Bytes()) == 0 {
		r.fail(where+"/"+name, "is empty")
	}
	return s.Text()
}

// below returns the JSON Pointer of a member.
func below(where string, key []byte) string {
	return where + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(string(key))
}
