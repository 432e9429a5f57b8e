package threat

import "iter"

// Table is the number of the table of signals, which a log records as engine.threat.
const Table = 1

// A Level says how grave a signal is. The levels are in order, so they compare.
type Level uint8

// None is the level of no signal.
const (
	None Level = iota
	Low
	Medium
	High
)

// Signals returns the signals of level l and above, which are those that a gate of that level
// denies. A gate of level None denies none.
func (l Level) Signals() Set {
	var set Set
	for i, s := range signals {
		if l != None && s.level >= l {
			set |= 1 << i
		}
	}
	return set
}

// A Set is a set of signals. The zero Set is empty; sets join by |, meet by &, and s &^ t is s
// without t. The bits of a Set are no format: what is kept of it are the ids.
type Set uint32

// IDs returns an iterator over the ids of the signals in s, in the order of their bytes.
func (s Set) IDs() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i, t := range signals {
			if s&(1<<i) != 0 && !yield(t.id) {
				return
			}
		}
	}
}

// Lookup returns the set of the one signal with an id. It reports false if the table has none.
func Lookup(id string) (Set, bool) {
	for i, s := range signals {
		if s.id == id {
			return 1 << i, true
		}
	}
	return 0, false
}

// Scan returns the signals that are present in a text. It does not change the text, nor keep it: to
// scan a string, convert it in the call, Scan([]byte(s)), which does not copy it.
func Scan(text []byte) Set {
	s := scanner{seen: atStart(text)}
	s.scan(text)
	return s.seen
}
