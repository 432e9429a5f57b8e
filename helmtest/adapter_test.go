package helmtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAdapterSuite(t *testing.T) {
	AdapterSuite(t, honestToy().adapter())
}

// An adapter without interrupts is held to the same.
func TestAdapterSuiteWithoutInterrupts(t *testing.T) {
	t.Parallel()
	f := honestToy()
	f.resumes = false
	a := f.adapter()
	for _, c := range attacks {
		if c.name == "11-approval" || c.name == "story" {
			assert.Equal(t, result{outcome: outcomeHeld}, a.try(c, f.patience), "%s", c.name)
		}
	}
}

// Every broken toy is caught by the attack that it does not hold against, in the words that say
// what is wrong with it. Every attack catches one, and every complaint is made of one.
func TestBrokenToys(t *testing.T) {
	t.Parallel()
	byName := map[string]attackCase{}
	for _, c := range attacks {
		byName[c.name] = c
	}
	// A toy waits for time limits more than it computes, so they are tried at the same time.
	results := map[string]chan result{}
	slots := make(chan struct{}, 12)
	for _, group := range brokenToys {
		c, ok := byName[group.attack]
		require.True(t, ok, "there is no attack %s", group.attack)
		delete(byName, group.attack)
		for _, b := range group.toys {
			made := make(chan result, 1)
			results[group.attack+"/"+b.name] = made
			go func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				f := honestToy()
				b.plant(f)
				a := f.adapter()
				made <- a.try(c, f.patience)
			}()
		}
	}
	var said []string
	for _, group := range brokenToys {
		for _, b := range group.toys {
			name := group.attack + "/" + b.name
			t.Run(name, func(t *testing.T) {
				r := <-results[name]
				assert.Equal(t, outcomeBroken, r.outcome)
				assert.Contains(t, strings.Join(r.faults, "\n"), b.says)
				said = append(said, r.faults...)
			})
		}
	}
	assert.Empty(t, byName, "no toy is broken by these attacks: nobody knows whether they are tested")
	for _, format := range formats(t) {
		words := regexp.MustCompile(`%[a-z]`).Split(format, -1)
		for i := range words {
			words[i] = regexp.QuoteMeta(words[i])
		}
		of := regexp.MustCompile("(?s)" + strings.Join(words, ".*"))
		made := false
		for _, s := range said {
			made = made || of.MatchString(s)
		}
		assert.True(t, made != suiteAlone[format], "%q: made of a toy: %v", format, made)
	}
}

// suiteAlone are complaints about the kernel and the suite itself, which no adapter can cause.
var suiteAlone = map[string]bool{
	"%s has a receipt and no decision":                true,
	"%s, which a tool called, has no receipt":         true,
	"a tool made a call that its caller may not make": true,
	"a call ran that nobody approved":                 true,
	"the kernel asks for no approval: %s":             true,
}

// formats returns the complaints of the suite.
func formats(t *testing.T) (list []string) {
	files, err := filepath.Glob("adapter*.go")
	require.NoError(t, err)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			s, isMethod := call.Fun.(*ast.SelectorExpr)
			text, isText := call.Args[0].(*ast.BasicLit)
			if isMethod && isText && (s.Sel.Name == "fault" || s.Sel.Name == "breach") {
				format, err := strconv.Unquote(text.Value)
				require.NoError(t, err)
				if format != "%v" {
					list = append(list, format)
				}
			}
			return true
		})
	}
	require.Greater(t, len(list), 30)
	return list
}
