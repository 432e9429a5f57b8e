// Package drivers asks drivers what they declare, and counts the goroutines of drivers that nothing
// waits for any longer: those of runs that ignored their limit, and those of questions that were
// not answered.
package drivers

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// MaxAbandoned is how many goroutines of one tool may have been abandoned and still run, before
// its calls are denied.
const MaxAbandoned = 64

var errAbandoned = fmt.Errorf("%d abandoned goroutines of the tool still run", MaxAbandoned)

// Abandoned counts the goroutines of drivers that nothing waits for any longer, and that have not
// ended. It is safe for concurrent use by multiple goroutines.
type Abandoned struct {
	all    atomic.Int64
	mu     sync.Mutex // protects byTool
	byTool map[string]int
}

// Add counts one in, and returns the function that counts it out.
func (a *Abandoned) Add(tool string) (end func()) {
	count := func(n int) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.byTool == nil {
			a.byTool = map[string]int{}
		}
		a.all.Add(int64(n))
		if a.byTool[tool] += n; a.byTool[tool] == 0 {
			delete(a.byTool, tool)
		}
	}
	count(1)
	return func() { count(-1) }
}

// Check returns an error if there are as many of the tool as there may be.
func (a *Abandoned) Check(tool string) error {
	if a.all.Load() < MaxAbandoned { // nearly always, and without the lock
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byTool[tool] < MaxAbandoned {
		return nil
	}
	return errAbandoned
}

// Err returns an error that says how many there are of each tool, or nil if there are none. The
// name "" is that of all tools that are not declared.
func (a *Abandoned) Err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.byTool) == 0 {
		return nil
	}
	var list []string
	for _, tool := range slices.Sorted(maps.Keys(a.byTool)) {
		list = append(list, fmt.Sprintf("%s: %d", cmp.Or(tool, "undeclared tools"), a.byTool[tool]))
	}
	return errors.New("goroutines that were abandoned still run: " + strings.Join(list, ", "))
}
