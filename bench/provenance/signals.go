package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/threat"
)

// levels has the signals of each level alone: high, medium, low.
var levels = [...]threat.Set{
	threat.High.Signals(),
	threat.Medium.Signals() &^ threat.High.Signals(),
	threat.Low.Signals() &^ threat.Medium.Signals(),
}

// seen is how many calls, or strings, there are, and how many of them have a signal of each level.
type seen struct {
	all  int
	with [len(levels)]int
}

func (s *seen) add(found threat.Set) {
	s.all++
	for i, level := range levels {
		if found&level != 0 {
			s.with[i]++
		}
	}
}

// scan adds every string of a value, keys included, and returns the signals of all of them.
func (s *seen) scan(v crypto.Value) (found threat.Set) {
	if v.Kind() == crypto.String {
		found = threat.Scan(v.Bytes())
		s.add(found)
	}
	for it := v.Iter(); it.Next(); {
		if v.Kind() == crypto.Object {
			key := threat.Scan(it.Key())
			s.add(key)
			found |= key
		}
		found |= s.scan(it.Value())
	}
	return found
}

// signals prints how many benign calls have threat signals in their arguments.
func signals(w io.Writer, suites []suite, list bool) error {
	var b strings.Builder
	b.WriteString("| suite | benign calls | high | medium | low | strings | high | medium | low |\n" +
		"|---|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	row := func(name string, calls, texts seen) {
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %d | %d | %d | %d |\n", name, calls.all, calls.with[0],
			calls.with[1], calls.with[2], texts.all, texts.with[0], texts.with[1], texts.with[2])
	}
	var allCalls, allTexts seen
	var notable []string
	for _, s := range suites {
		var calls, texts seen
		for _, t := range s.tasks {
			for _, c := range t.calls {
				found := texts.scan(c.args)
				calls.add(found)
				for id := range found.IDs() {
					notable = append(notable, c.where+": "+id)
				}
			}
		}
		row(s.name, calls, texts)
		allCalls.sum(calls)
		allTexts.sum(texts)
	}
	row("all", allCalls, allTexts)
	if list {
		b.WriteString("\n" + strings.Join(append(notable, ""), "\n"))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (s *seen) sum(t seen) {
	s.all += t.all
	for i, n := range t.with {
		s.with[i] += n
	}
}
