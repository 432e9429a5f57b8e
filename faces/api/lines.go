package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// An edge is one as package graph writes it.
type edge struct {
	To    uint64 `json:"to"`
	Kind  string `json:"kind"`
	Cause bool   `json:"cause"`
}

// A node is an entry as package graph writes it, with texts of some form.
type node[T string | json.RawMessage] struct {
	Index   uint64 `json:"index"`
	Kind    T      `json:"kind"`
	Stub    bool   `json:"stub,omitempty"`
	Session T      `json:"session"`
	Seq     uint64 `json:"seq"`
	Time    T      `json:"time"`
	Tool    T      `json:"tool,omitempty"`
	Verdict T      `json:"verdict,omitempty"`
	Outcome T      `json:"outcome,omitempty"`
	Reason  T      `json:"reason,omitempty"`
	Risk    T      `json:"risk,omitempty"`
	Hash    T      `json:"hash"`
	Edges   []edge `json:"edges"`
	Entry   string `json:"entry,omitempty"` // the bytes that stand in the log, in base64, if the caller wants them
}

// lines reads a graph as package graph writes it, an entry or an edge a line. It tells of each
// entry, or writes the graph again without those that are not kept.
type lines struct {
	each func(i uint64, edges []edge) // if it is nil the graph is written again

	to   io.Writer
	keep map[uint64]bool
	size uint64 // that it says instead of the log's
	dot  bool

	rest []byte
	some bool // an entry was written
}

var errLine = errors.New("api: a graph has a line that is not known here")

func (l *lines) Write(p []byte) (int, error) {
	n := len(p)
	for {
		line, rest, whole := bytes.Cut(p, []byte{'\n'})
		if !whole {
			l.rest = append(l.rest, p...)
			return n, nil
		}
		if len(l.rest) > 0 {
			line = append(l.rest, line...)
			l.rest = l.rest[:0]
		}
		var err error
		if l.dot {
			err = l.dotLine(line)
		} else {
			err = l.jsonLine(line)
		}
		if err != nil {
			return 0, err
		}
		p = rest
	}
}

// end returns the error of a graph that was written to l.
func (l *lines) end(err error) error {
	if err == nil && len(l.rest) > 0 {
		return errLine
	}
	return err
}

func (l *lines) jsonLine(line []byte) error {
	switch {
	case bytes.HasPrefix(line, []byte(`{"size":`)):
		if l.each == nil {
			return l.print(`{"size":%d,"entries":[`, l.size)
		}
		return nil
	case string(line) == "]}":
		if l.each == nil {
			return l.print("\n]}\n")
		}
		return nil
	}
	var x node[json.RawMessage] // which leaves the texts as they are
	if err := json.Unmarshal(bytes.TrimSuffix(line, []byte{','}), &x); err != nil {
		return errLine
	}
	if l.each != nil {
		l.each(x.Index, x.Edges)
		return nil
	}
	if !l.keep[x.Index] {
		return nil
	}
	x.Edges = slices.DeleteFunc(x.Edges, func(e edge) bool { return !l.keep[e.To] })
	b, err := json.Marshal(x)
	if err != nil {
		return err
	}
	between := "\n"
	if l.some {
		between = ",\n"
	}
	l.some = true
	return l.print("%s%s", between, b)
}

func (l *lines) dotLine(line []byte) error {
	var from, to uint64
	switch {
	case bytes.HasPrefix(line, []byte("// ")):
		return l.print("// %d of %d entries: solid edges lead to causes, dotted ones along the chain of a session\n",
			len(l.keep), l.size)
	case !bytes.HasPrefix(line, []byte("\te")):
		return l.print("%s\n", line)
	}
	if n, _ := fmt.Sscanf(string(line), "\te%d -> e%d [", &from, &to); n == 2 {
		if !l.keep[from] || !l.keep[to] {
			return nil
		}
		return l.print("%s\n", line)
	}
	if n, _ := fmt.Sscanf(string(line), "\te%d [", &from); n != 1 {
		return errLine
	}
	if !l.keep[from] {
		return nil
	}
	return l.print("%s\n", line)
}

func (l *lines) print(format string, args ...any) error {
	_, err := fmt.Fprintf(l.to, format, args...)
	return err
}
