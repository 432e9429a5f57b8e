package proofgraph

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestTogether: each number is done once; what fails, panics or ends its goroutine is an error.
func TestTogether(t *testing.T) {
	for _, goroutines := range []int{1, 3, 40} {
		var done [20]atomic.Int64
		assert.NoError(t, together(20, goroutines, func(i int) error { done[i].Add(1); return nil }))
		for i := range done {
			assert.Equal(t, int64(1), done[i].Load(), "%d of %d goroutines", i, goroutines)
		}
		first := together(20, goroutines, func(i int) error {
			if i >= 7 {
				return errors.New(fmt.Sprint(i))
			}
			return nil
		})
		assert.EqualError(t, first, "7")
		assert.ErrorContains(t, together(20, goroutines, func(i int) error { panic("no") }), "signing")
		if goroutines == 1 { // the caller's would end
			continue
		}
		assert.ErrorIs(t, together(20, goroutines, func(i int) error { runtime.Goexit(); return nil }), errEnded)
	}
	assert.NoError(t, together(0, 1, func(int) error { return errors.New("called") }))
}
