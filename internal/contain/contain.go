// Package contain turns a panic in code of the host (a store, a signer, a driver, a context) into a
// value or an error.
//
// Its functions are called by defer, directly, in the function that calls such code:
//
//	func (s *stored) size(ctx context.Context) (n uint64, err error) {
//		defer contain.Error(&err, "the store")
//		return s.store.Size(ctx)
//	}
//
// They allocate nothing unless there is a panic. A call of runtime.Goexit is no panic and is not
// stopped: a caller that must know of it sets a variable at the end of the function.
package contain

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
)

// Error recovers from a panic and stores in *err the error that [Describe] returns for it.
func Error(err *error, what string) {
	if x := recover(); x != nil {
		*err = Describe(what, x)
	}
}

// Value recovers from a panic and stores v in *result. The value of the panic is dropped.
func Value[T any](result *T, v T) {
	if recover() != nil {
		*result = v
	}
}

// Drop recovers from a panic and drops its value.
func Drop() {
	_ = recover()
}

// Describe returns an error that says that what panicked with x. It wraps an error of the Go
// runtime. Of any other value it shows the type alone, because the value may hold a secret, and
// because its methods may panic. That includes a type of the host's that implements runtime.Error.
func Describe(what string, x any) error {
	if err, ok := x.(runtime.Error); ok {
		t := reflect.TypeOf(x)
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if path := t.PkgPath(); path == "runtime" || strings.HasPrefix(path, "internal/runtime/") {
			return fmt.Errorf("%s panicked: %w", what, err)
		}
	}
	return fmt.Errorf("%s panicked with a %T", what, x)
}

// A Fault is an error that a driver of this module returns in place of a panic: its tool ran and
// did not say that it failed, and yet has no output.
type Fault string

func (f Fault) Error() string { return string(f) }
