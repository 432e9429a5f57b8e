package contain

import (
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func fails(f func()) (err error) {
	defer Error(&err, "the store")
	f()
	return nil
}

func answers(f func() string) (s string) {
	defer Value(&s, "none")
	return f()
}

// A forged value passes for an error of the runtime.
type forged string

func (f forged) Error() string { return string(f) }
func (forged) RuntimeError()   {}
func (forged) Is(error) bool   { panic("Is") }

func TestErrorOfAPanic(t *testing.T) {
	t.Parallel()
	require.NoError(t, fails(func() {}))
	assert.EqualError(t, fails(func() { panic("hunter2") }), "the store panicked with a string")
	own := errors.New("hunter2")
	err := fails(func() { panic(own) })
	assert.EqualError(t, err, "the store panicked with a *errors.errorString")
	assert.NotErrorIs(t, err, own)
	var none []int
	err = fails(func() { none[len(own.Error())]++ })
	assert.EqualError(t, err, "the store panicked: runtime error: index out of range [7] with length 0")
	var runtimes runtime.Error
	assert.ErrorAs(t, err, &runtimes)
	assert.Error(t, fails(func() { panic(nil) }))
	assert.ErrorAs(t, fails(func() { _ = map[any]int{}[none] }), &runtimes)
	for _, x := range []any{forged("hunter2"), new(forged)} {
		err = fails(func() { panic(x) })
		assert.NotErrorIs(t, err, own)
		assert.EqualError(t, err, fmt.Sprintf("the store panicked with a %T", x))
	}
}

func TestValueOfAPanic(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "some", answers(func() string { return "some" }))
	assert.Equal(t, "none", answers(func() string { panic("hunter2") }))
	func() {
		defer Drop()
		panic("hunter2")
	}()
}

func TestContainingAllocatesNothing(t *testing.T) {
	n := testing.AllocsPerRun(100, func() {
		_ = fails(func() {})
		_ = answers(func() string { return "some" })
	})
	assert.Zero(t, n)
}

func BenchmarkValue(b *testing.B) {
	for b.Loop() {
		answers(func() string { return "some" })
	}
}

func BenchmarkByHand(b *testing.B) {
	for b.Loop() {
		func() (s string) {
			defer func() {
				if recover() != nil {
					s = "none"
				}
			}()
			return "some"
		}()
	}
}
