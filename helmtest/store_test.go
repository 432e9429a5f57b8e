package helmtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/proofgraph"
)

// A recorder records the suite's complaints, and from which line each came.
type recorder struct {
	mu         sync.Mutex // protects the fields below: many goroutines complain
	complaints []string
	lines      []string // file:line in the suite
	panicked   any
	skipped    bool
	cleanups   []func()
}

func (r *recorder) Helper()          {}
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.complaints = append(r.complaints, fmt.Sprintf(format, args...))
	var stack [32]uintptr
	frames := runtime.CallersFrames(stack[:runtime.Callers(2, stack[:])])
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		r.lines = append(r.lines, fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line))
	}
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Skipf(string, ...any) {
	r.skipped = true
	runtime.Goexit()
}

// try tests one promise.
func try(test func(t *trial), open func() proofgraph.Store, short bool) *recorder {
	return record(func(r reporter) { test(begin(r, open, short)) })
}

// record records what a test says.
func record(test func(r reporter)) *recorder {
	r := new(recorder)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			r.panicked = recover()
			for _, f := range r.cleanups {
				f()
			}
		}()
		test(r)
	}()
	<-done
	return r
}

func TestStore(t *testing.T) {
	places := 0
	Store(t, func(t *testing.T) func() proofgraph.Store {
		places++
		return honest["in memory"]()
	})
	if places != len(promises) || places < 20 {
		t.Errorf("%d places for %d promises", places, len(promises))
	}
}

// The suite requires no more than is promised.
func TestHonestStores(t *testing.T) {
	tested := map[string]bool{}
	for name, place := range honest {
		for _, p := range promises {
			r := try(p.test, place(), true)
			if r.panicked != nil || len(r.complaints) > 0 {
				t.Errorf("%s: a store %s: %q (panic: %v)", p.name, name, r.complaints, r.panicked)
			}
			tested[p.name] = tested[p.name] || !r.skipped
		}
	}
	for _, p := range promises {
		assert.True(t, tested[p.name], "%s: every store was skipped", p.name)
	}
}

// Every broken store is caught by the promise that it breaks, every promise catches one, and every
// complaint is made at least once.
func TestBrokenStores(t *testing.T) {
	tests := map[string]func(*trial){}
	for _, p := range promises {
		assert.Nil(t, tests[p.name], "two promises are called %q", p.name)
		tests[p.name] = p.test
	}
	c := catches{t, map[string]int{}, map[string]bool{}}
	for _, group := range broken {
		for _, b := range group.stores {
			test := tests[group.promise]
			require.NotNil(t, test, "there is no promise %q", group.promise)
			r := try(test, b.place(), true)
			c.add(group.promise, b.name, r)
		}
	}
	for promise := range tests {
		assert.NotZero(t, c.caught[promise], "no store breaks the promise %q: nobody knows whether it is tested",
			promise)
	}
	c.mustHaveMade("store*.go")
}

// catches are the broken stores that were caught.
type catches struct {
	*testing.T
	caught map[string]int  // by promises
	made   map[string]bool // complaints, by their lines
}

// add notes what was said of a store that breaks a promise. Nothing, or a panic, fails the test.
func (c catches) add(promise, store string, r *recorder) {
	c.Helper()
	if r.panicked != nil || len(r.complaints) == 0 {
		c.Errorf("%s: a store that %s was not caught (panic: %v)", promise, store, r.panicked)
		return
	}
	c.Logf("%s: a store that %s\n\t%s", promise, store, r.complaints[0])
	c.caught[promise]++
	for _, line := range r.lines {
		c.made[line] = true
	}
}

// mustHaveMade fails the test if a complaint of the suite, in such files, was not made.
func (c catches) mustHaveMade(pattern string) {
	c.Helper()
	all := complaints(c.T, pattern)
	if len(all) < 30 {
		c.Fatalf("only %d complaints were found in the suite", len(all))
	}
	for _, line := range all {
		assert.True(c, c.made[line], "%s: no store is so broken that this is said", line)
	}
}

// complaints lists the lines of the suite, in such files, that call Errorf or Fatalf.
func complaints(t *testing.T, pattern string) (lines []string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	require.NoError(t, err)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, file, nil, 0)
		require.NoError(t, err)
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && slices.Contains([]string{"Errorf", "Fatalf"}, s.Sel.Name) {
				if x, ok := s.X.(*ast.Ident); ok && (x.Name == "t" || x.Name == "r") {
					lines = append(lines, fmt.Sprintf("%s:%d", file, set.Position(s.Pos()).Line))
				}
			}
			return true
		})
	}
	return lines
}
