// Package recorder notes which functions are entered. TestTrace builds it into every package.
package recorder

import "sync"

var (
	mu      sync.Mutex // protects what follows
	on      bool
	entered [][2]string
)

// Enter notes that a function of a file is entered, if the recorder is on.
func Enter(file, function string) {
	mu.Lock()
	defer mu.Unlock()
	if on {
		entered = append(entered, [2]string{file, function})
	}
}

// Record returns the files and functions that are entered while f runs, in order.
func Record(f func()) [][2]string {
	set := func(to bool) {
		mu.Lock()
		defer mu.Unlock()
		on = to
	}
	set(true)
	f()
	set(false)
	return entered
}
