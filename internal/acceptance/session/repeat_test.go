package session

import (
	"context"
	"errors"
	"iter"
	"reflect"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/stretchr/testify/assert"
)

// Whatever entries the store returns for an old call, a repeat of it has the first output or none:
// entries of other calls, which are signed too, are not its own.
func TestRepeatTrustsNoStore(t *testing.T) {
	t.Parallel()
	errRead := errors.New("read error")
	shifted := func(s proofgraph.Store, by uint64) kerneltest.ReadStore {
		return kerneltest.ReadStore{Store: s,
			OnEntries: func(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
				return s.Entries(ctx, from+by, to+by)
			}}
	}
	sequence := func(s proofgraph.Store, yields func(yield func(contracts.Entry, error) bool)) kerneltest.ReadStore {
		return kerneltest.ReadStore{Store: s,
			OnEntries: func(context.Context, uint64, uint64) iter.Seq2[contracts.Entry, error] { return yields }}
	}
	for name, lie := range map[string]func(s proofgraph.Store) proofgraph.Store{
		"the next call's entries": func(s proofgraph.Store) proofgraph.Store { return shifted(s, 2) },
		"other entries":           func(s proofgraph.Store) proofgraph.Store { return shifted(s, 1) },
		"no entry": func(s proofgraph.Store) proofgraph.Store {
			return sequence(s, func(func(contracts.Entry, error) bool) {})
		},
		"empty entry": func(s proofgraph.Store) proofgraph.Store {
			return sequence(s, func(y func(contracts.Entry, error) bool) { y(nil, nil) })
		},
		"entry and error": func(s proofgraph.Store) proofgraph.Store {
			return sequence(s, func(y func(contracts.Entry, error) bool) { y(contracts.Entry("{}"), errRead) })
		},
		"goes on after the end": func(s proofgraph.Store) proofgraph.Store {
			return sequence(s, func(y func(contracts.Entry, error) bool) {
				for range 2 {
					y(nil, errRead)
				}
			})
		},
		"no iterator": func(s proofgraph.Store) proofgraph.Store { return sequence(s, nil) },
		"panic": func(s proofgraph.Store) proofgraph.Store {
			return sequence(s, func(func(contracts.Entry, error) bool) { panic("disk") })
		},
		"another blob": func(s proofgraph.Store) proofgraph.Store {
			return kerneltest.ReadStore{Store: s,
				OnBlob: func(contracts.Digest) ([]byte, error) { return []byte(`"forged"`), nil }}
		},
		"no blob": func(s proofgraph.Store) proofgraph.Store {
			return kerneltest.ReadStore{Store: s, OnBlob: func(contracts.Digest) ([]byte, error) { return nil, nil }}
		},
		"failing blob": func(s proofgraph.Store) proofgraph.Store {
			return kerneltest.ReadStore{Store: s,
				OnBlob: func(contracts.Digest) ([]byte, error) { return nil, errRead }}
		},
		"panic for the blob": func(s proofgraph.Store) proofgraph.Store {
			return kerneltest.ReadStore{Store: s, OnBlob: func(contracts.Digest) ([]byte, error) { panic("disk") }}
		},
		"blob with its own nil": func(s proofgraph.Store) proofgraph.Store {
			return kerneltest.ReadStore{Store: s,
				OnBlob: func(contracts.Digest) ([]byte, error) { return []byte{}, nil }}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := kerneltest.New(t, func(o *helm.Options) { o.Keep.Outputs = true })
			key := func(k string) func(in *helm.Intent) { return kerneltest.WithKey(k) }
			w.Call("echo", `{"text":"first"}`, key("k"))
			w.Call("echo", `{"text":"other"}`, key("l"))
			w.Runs.Store(0)
			honest := w.Store.Store
			w.MustCall(kerneltest.Repeated(`{"n":1,"text":"first"}`), "echo", `{"text":"first"}`, key("k"))
			w.Store.Store = lie(honest)
			d, r := w.Call("echo", `{"text":"first"}`, key("k"))
			assert.Equal(t, contracts.ReasonOutputNotKept, d.Reason)
			assert.Nil(t, r.Output)
			assert.ErrorIs(t, d.Err(), helm.ErrWithheld)
			assert.Zero(t, w.Runs.Load())
			w.Store.Store = honest
			w.MustVerify()
		})
	}
}

// Callers of one key get the same answer, and none can change another's.
func TestRepeatsShareNothing(t *testing.T) {
	t.Parallel()
	w := kerneltest.New(t)
	started, release := make(chan struct{}), make(chan struct{})
	w.Tool = func(context.Context, contracts.Call) (executor.Result, error) {
		close(started)
		<-release
		return executor.Result{Output: []byte(`"out"`), Gas: 1}, nil
	}
	type answer struct {
		d helm.Decision
		r helm.Receipt
	}
	const callers = 8
	answers := make(chan answer, callers)
	call := func() {
		d, r := w.Call("unbound", `{}`, func(in *helm.Intent) {
			in.Idempotency, in.Caller, in.Driver = "k", helm.Caller{ID: "ada", Roles: []string{"a", "b"}}, w.Sandboxed(kerneltest.Boxed("wasi"), nil)
		})
		answers <- answer{d, r}
		overwrite(reflect.ValueOf(&d).Elem()) // while others still read theirs
		overwrite(reflect.ValueOf(&r).Elem())
	}
	go call()
	<-started
	for range callers - 1 {
		go call()
	}
	close(release)
	var all []answer
	kerneltest.Within(t, 10*time.Second, "the callers of one key", func() {
		for range callers {
			all = append(all, <-answers)
		}
	})
	seen := map[uintptr]int{}
	for i, a := range all {
		mine := map[uintptr]bool{}
		places(reflect.ValueOf(&a.d).Elem(), mine)
		places(reflect.ValueOf(&a.r).Elem(), mine)
		if a.d.Reason == contracts.ReasonAllow {
			assert.GreaterOrEqual(t, len(mine), 4, "places of memory")
		}
		for p := range mine {
			j, ok := seen[p]
			assert.False(t, ok, "answers %d and %d share memory", i, j)
			seen[p] = i
		}
	}
}

// places collects what the exported fields of v refer to.
func places(v reflect.Value, into map[uintptr]bool) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			into[v.Pointer()] = true
			places(v.Elem(), into)
		}
	case reflect.Slice:
		if v.Cap() > 0 && v.Type().Elem().Size() > 0 {
			into[v.Pointer()] = true
		}
		for i := range v.Len() {
			places(v.Index(i), into)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				places(v.Field(i), into)
			}
		}
	}
}

// overwrite changes everything that v refers to.
func overwrite(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			overwrite(v.Elem())
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			overwrite(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				overwrite(v.Field(i))
			}
		}
	case reflect.Uint8, reflect.Uint64:
		v.SetUint(7)
	case reflect.String:
		v.SetString("overwritten")
	}
}

// A key that a context has for whatever tool is called under it is nobody's: the second call would
// be a repeat of the first. One for a named tool is that tool's.
func TestKeyOfEveryTool(t *testing.T) {
	t.Parallel()
	w := kerneltest.New(t)
	guard := func(tool string) (helm.Decision, helm.Receipt) {
		ctx := helm.With(t.Context(), helm.Intent{Tool: tool, Idempotency: "k", Session: "s"})
		return w.Kernel.Guard(ctx, helm.Intent{Tool: "echo", Args: []byte(`{}`), Session: "s"})
	}
	d, r := guard("")
	w.MustBe(d, r, kerneltest.Denied(contracts.ReasonIntentMalformed))
	assert.Contains(t, d.Why, "a With without Tool")
	d, r = guard("echo")
	w.MustBe(d, r, kerneltest.Executed(`{"n":1}`))
	_, again := guard("echo")
	assert.Equal(t, r.Index, again.Index)
	// The context's key is not asked for if the call has its own.
	ctx := helm.With(t.Context(), helm.Intent{Idempotency: "k"})
	d, _ = w.Kernel.Guard(ctx, helm.Intent{Tool: "echo", Args: []byte(`{}`), Session: "s", Idempotency: "own"})
	assert.NoError(t, d.Err())
	w.MustVerify()
}
