// Package race reports to tests whether the race detector is on, which makes them several times
// slower.
package race

import "testing"

// Alone skips a test of one goroutine under the race detector: it has nothing to detect there, and
// the run without the detector covers the rest.
func Alone(t testing.TB) {
	t.Helper()
	if Enabled {
		t.Skip("one goroutine alone: it runs without the race detector")
	}
}
