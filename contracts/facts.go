package contracts

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/helmkernel/helm/crypto"
)

// Limits of a facts document and of a text of the user. docs/FORMATS.md sections 3 and 4. Lengths
// are in bytes.
const (
	MaxFacts      = 512 << 10 // length of a facts document
	MaxFactKeys   = 32        // facts of one tool
	MaxFactValues = 1000      // values of one fact
	MaxFactText   = 64 << 10  // length of a value of a fact
	MaxMessage    = 256 << 10 // length of a message, and of all messages of a session together
)

// CountPrefix is the part of a key in a facts document before the pointer, if the fact is a count.
const CountPrefix = "count:"

// IsMessage reports whether s may be the text of a message: 1 to [MaxMessage] bytes of UTF-8.
func IsMessage(s string) bool { return s != "" && len(s) <= MaxMessage && utf8.ValidString(s) }

// ParseFacts reads a facts document: the values that the facts of a tool have in an output, by
// their pointers. The root is an object of null, for a fact that is over a limit, or of an array of
// strings, numbers and booleans. ParseFacts refuses a document that is not canonical, and one that
// is over a limit that it shows by itself. Whether the facts are those that the tool declares, and
// whether the output has the values, it cannot know. The Value refers to b, which must not change.
func ParseFacts(b []byte) (crypto.Value, error) {
	var tree crypto.Tree
	if err := tree.Parse(b, crypto.Limits{Bytes: MaxFacts, Depth: MaxRecordDepth, Object: true}); err != nil {
		return crypto.Value{}, &FormatError{Record, "facts", err.Error()}
	}
	if !tree.Canonical() {
		return crypto.Value{}, &FormatError{Record, "facts", "not canonical"}
	}
	if what := checkFacts(tree.Root(), true); what != "" {
		return crypto.Value{}, &FormatError{Record, "facts", what}
	}
	return tree.Root(), nil
}

// checkRead returns what is wrong with the members of a facts document that a judgement has read,
// as inputs hold them.
func checkRead(facts crypto.Value) string {
	switch {
	case facts.Len() == 0:
		return "empty: left out if none was read"
	case len(facts.Append(nil)) > MaxFacts:
		return "more than 512 KiB"
	}
	return checkFacts(facts, false)
}

// checkFacts returns what is wrong with the members of an object that holds facts by their
// pointers, some of which may be null.
func checkFacts(facts crypto.Value, null bool) string {
	if facts.Len() > MaxFactKeys {
		return "more than " + strconv.Itoa(MaxFactKeys) + " facts"
	}
	for it := facts.Iter(); it.Next(); {
		if null && it.Value().Kind() == crypto.Null {
			if _, _, what := readFactKey(string(it.Key())); what != "" {
				return what
			}
			continue
		}
		if what := checkFact(string(it.Key()), it.Value()); what != "" {
			return what
		}
	}
	return ""
}

func checkFact(key string, values crypto.Value) string {
	count, many, what := readFactKey(key)
	switch {
	case what != "":
		return what
	case values.Kind() != crypto.Array:
		return "values that are no array"
	case values.Len() > MaxFactValues:
		return "more than " + strconv.Itoa(MaxFactValues) + " values"
	case !many && values.Len() > 1:
		return "more than one value, without a * in the pointer"
	}
	for v := range values.Elements() {
		switch _, whole := v.Uint(); {
		case count && !whole:
			return "a count that is not an integer from 0 to 9007199254740991"
		case v.Kind() == crypto.String && len(v.Bytes()) > MaxFactText:
			return "a text of more than 64 KiB"
		case v.Kind() != crypto.String && v.Kind() != crypto.Number && v.Kind() != crypto.Bool:
			return "a value that is not a string, number or boolean"
		}
	}
	return ""
}

// readFactKey reads a key of a facts document: the pointer of a fact, which has many values if
// there is a * in it, or a count's.
func readFactKey(key string) (count, many bool, what string) {
	pointer, count := strings.CutPrefix(key, CountPrefix)
	if pointer != "" && pointer[0] != '/' {
		return count, false, "a key that is no JSON Pointer"
	}
	for rest := pointer; ; {
		_, after, ok := strings.Cut(rest, "~")
		if !ok {
			break
		}
		if after == "" || after[0] != '0' && after[0] != '1' {
			return count, false, "a key that is no JSON Pointer"
		}
		rest = after
	}
	many = slices.Contains(strings.Split(pointer, "/"), "*")
	if count && many {
		return count, many, "a * in the pointer of a count"
	}
	return count, many, ""
}
