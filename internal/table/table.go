// Package table reads the tables of tests, which are text files in testdata.
//
// A case begins at the margin. Its fields are separated by tabs; a line that begins with a tab has
// more fields of the same case. The first case names the fields, if the rows are structs. Empty
// lines and lines that begin with # say nothing.
//
// A field is its own text, except for two kinds: ="a\n" is a string as Go writes it, which is the
// only way to write an empty one, and :name is a text with a name. Such a text is defined before,
// by a line :name= and its own lines, each after a tab. A list of texts is one field: one | two.
package table

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Read returns the n cases of testdata/name.txt. The test fails if the file has more cases or
// fewer, or a case has more fields or fewer. T is a struct, whose fields are exported, or the type
// of the only field.
func Read[T any](t testing.TB, name string, n int) []T {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name + ".txt")
	require.NoError(t, err)
	rows, err := decode[T](string(text))
	require.NoError(t, err, "%s.txt", name)
	require.True(t, n > 0 && len(rows) == n, "%s.txt: %d cases, want %d", name, len(rows), n)
	return rows
}

// Map returns the n cases of testdata/name.txt, which have the fields key and value. No key is
// there twice.
func Map[K comparable, V any](t testing.TB, name string, n int) map[K]V {
	t.Helper()
	m := make(map[K]V, n)
	for _, row := range Read[struct {
		Key   K
		Value V
	}](t, name, n) {
		require.NotContains(t, m, row.Key, "%s.txt: twice", name)
		m[row.Key] = row.Value
	}
	return m
}

func decode[T any](text string) ([]T, error) {
	cases, err := parse(text)
	if err != nil {
		return nil, err
	}
	row := reflect.TypeFor[T]()
	var names []string
	if row.Kind() == reflect.Struct {
		for i := range row.NumField() {
			names = append(names, row.Field(i).Name)
		}
		if len(cases) == 0 || !strings.EqualFold(strings.Join(cases[0], "\t"), strings.Join(names, "\t")) {
			return nil, fmt.Errorf("the first case does not name the fields %q", names)
		}
		cases = cases[1:]
	}
	rows := make([]T, len(cases))
	for i, fields := range cases {
		if len(fields) != max(len(names), 1) {
			return nil, fmt.Errorf("case %d has %d fields: %q", i+1, len(fields), fields)
		}
		v := reflect.ValueOf(&rows[i]).Elem()
		for j, field := range fields {
			to := v
			if names != nil {
				to = v.Field(j)
			}
			if err := set(to, field); err != nil {
				return nil, fmt.Errorf("case %d: %q: %w", i+1, field, err)
			}
		}
	}
	return rows, nil
}

func set(v reflect.Value, text string) error {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Slice:
		if text != "" {
			v.Set(reflect.ValueOf(strings.Split(text, " | ")))
		}
	default: // a number or a truth
		return json.Unmarshal([]byte(text), v.Addr().Interface())
	}
	return nil
}

// parse returns the fields of each case.
func parse(text string) (cases [][]string, err error) {
	texts, used := make(map[string][]string), make(map[string]bool)
	defined := "" // the text whose lines may follow
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		more, indented := strings.CutPrefix(line, "\t")
		name, defines := strings.CutSuffix(line, "=")
		switch {
		case indented && defined != "":
			texts[defined] = append(texts[defined], more)
			continue
		case indented && len(cases) == 0:
			return nil, fmt.Errorf("more fields of no case: %q", line)
		case !indented && (line == "" || line[0] == '#'):
			defined = ""
			continue
		case defines && line[0] == ':':
			if texts[name[1:]] != nil {
				return nil, fmt.Errorf("defined twice: %q", line)
			}
			defined = name[1:]
			continue
		case !indented:
			cases = append(cases, nil)
		}
		defined = ""
		last := &cases[len(cases)-1]
		for field := range strings.SplitSeq(more, "\t") {
			switch {
			case field == "":
				return nil, fmt.Errorf("an empty field: %q", line)
			case field[0] == '=':
				if field, err = strconv.Unquote(field[1:]); err != nil {
					return nil, fmt.Errorf("%q: %w", line, err)
				}
			case field[0] == ':':
				named := texts[field[1:]]
				if named == nil {
					return nil, fmt.Errorf("not defined: %q", field)
				}
				used[field[1:]] = true
				field = strings.Join(named, "\n")
			}
			*last = append(*last, field)
		}
	}
	if len(used) < len(texts) {
		return nil, fmt.Errorf("of %q only %q are used", slices.Sorted(maps.Keys(texts)),
			slices.Sorted(maps.Keys(used)))
	}
	return cases, nil
}
