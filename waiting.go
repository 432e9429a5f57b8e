package helm

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// maxAbandoned is how many goroutines of one tool may have been abandoned and still run, before
// its calls are denied.
const maxAbandoned = 64

var errAbandoned = fmt.Errorf("%d abandoned goroutines of the tool still run", maxAbandoned)

// abandoned counts the goroutines of drivers that nothing waits for any longer, and that have not
// ended.
type abandoned struct {
	all    atomic.Int64
	mu     sync.Mutex // protects byTool
	byTool map[string]int
}

// add counts one in, and returns the function that counts it out.
func (a *abandoned) add(tool string) (end func()) {
	count := func(n int) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.all.Add(int64(n))
		if a.byTool[tool] += n; a.byTool[tool] == 0 {
			delete(a.byTool, tool)
		}
	}
	count(1)
	return func() { count(-1) }
}

// check returns an error if there are as many of the tool as there may be.
func (a *abandoned) check(tool string) error {
	if a.all.Load() < maxAbandoned { // nearly always, and without the lock
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byTool[tool] < maxAbandoned {
		return nil
	}
	return errAbandoned
}

// err returns an error that says how many there are, or nil if there are none.
func (a *abandoned) err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.byTool) == 0 {
		return nil
	}
	var list []string
	for _, tool := range slices.Sorted(maps.Keys(a.byTool)) {
		list = append(list, fmt.Sprintf("%s: %d", tool, a.byTool[tool]))
	}
	return errors.New("helm: close: goroutines that were abandoned still run: " + strings.Join(list, ", "))
}
