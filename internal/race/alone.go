// Package race reports to tests whether the race detector is on, which makes them several times
// slower.
package race

import "testing"

// Alone skips a test under the race detector that has nothing for it to detect: one of a single
// goroutine, or of goroutines that other tests race. The run without the detector covers the rest.
func Alone(t testing.TB) {
	t.Helper()
	if Enabled {
		t.Skip("nothing is raced here that is not raced elsewhere: it runs without the race detector")
	}
}
