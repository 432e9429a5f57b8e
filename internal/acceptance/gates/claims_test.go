package gates

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/cell"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What a driver claims of a sandbox. The tool put demands the sandbox wasi, look demands none.

var claimsFloor = surfaceFloorOf("{env: [LANG]}")

var claimsBundle = strings.Replace(surfaceBundle, " definition: DEFINITION,", "", 1)

// eachStore runs f with a world over a store in memory, and one on disk.
func eachStore(t *testing.T, f func(t *testing.T, w *kerneltest.World), change ...func(*helm.Options)) {
	t.Helper()
	for _, on := range []string{"memory", "files"} {
		t.Run(on, func(t *testing.T) {
			f(t, kerneltest.New(t, append([]func(*helm.Options){func(o *helm.Options) {
				o.Policy, o.Drivers = kerneltest.Compile(t, claimsFloor, claimsBundle), nil
				if on == "files" {
					kerneltest.OnFiles(t, kerneltest.Faulty(o.Store))
				}
			}}, change...)...))
		})
	}
}

// judgedOf returns the inputs of a judgement.
func judgedOf(t *testing.T, w *kerneltest.World, d helm.Decision) *contracts.Inputs {
	t.Helper()
	b, err := w.Store.Blob(t.Context(), d.Record.InputsHash)
	require.NoError(t, err)
	in, err := contracts.ParseInputs(b)
	require.NoError(t, err)
	return in
}

// An embedding driver has all that another has, and a Run of its own.
type embedding struct {
	*kerneltest.Sandboxed
	w *kerneltest.World
}

func (e embedding) Run(ctx context.Context, c contracts.Call) (executor.Result, error) {
	return e.w.Run(ctx, c)
}

// A holder names no type of a cell, as code of another module cannot.
type holder[C any] struct {
	*kerneltest.World
	cell C
}

func (h *holder[C]) Cell() C { return h.cell }

func hold[C any](w *kerneltest.World, c C) *holder[C] { return &holder[C]{w, c} }

// A driver that has another's cell, however it came by it, or one that runs nothing, counts as no
// driver: nothing runs, each call has its receipt, and the reason says what to do.
func TestCellOfAnotherIsNoDriver(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, w *kerneltest.World) {
		m := w.Sandboxed(kerneltest.Boxed("wasi"), kerneltest.Returns("1", nil))
		none := w.Sandboxed(contracts.SandboxInfo{Profile: "wasi", Meter: 1}, nil)
		owner := hold[*cell.Cell](w, nil)
		drivers := map[string]executor.Driver{
			"embeds it":                    struct{ *kerneltest.Sandboxed }{m},
			"embeds it by pointer":         &struct{ *kerneltest.Sandboxed }{m},
			"embeds it, with its own Run":  embedding{m, w},
			"embeds the interface":         struct{ executor.Sandboxed }{m},
			"holds its cell":               hold(w, m.Cell()),
			"is a copy of it":              func() executor.Driver { c := *m; return &c }(),
			"holds a copy of its cell":     func() executor.Driver { c := *m.Cell(); return hold(w, &c) }(),
			"has no cell":                  hold[*cell.Cell](w, nil),
			"has a zero cell":              hold(w, new(cell.Cell)),
			"has no cell by embedding nil": w.Sandboxed(contracts.SandboxInfo{}, nil),
			"has a cell without grants":    none,
			"has a cell without a function": func() executor.Driver {
				owner.cell = cell.New(owner, kerneltest.Boxed("wasi"), nil, nil)
				return owner
			}(),
			"has a zero cell, by reflection": func() executor.Driver {
				h := hold(w, m.Cell())
				field := reflect.ValueOf(&h.cell).Elem()
				field.Set(reflect.New(field.Type().Elem()))
				return h
			}(),
			"was overwritten by zero, by reflection": func() executor.Driver {
				x := w.Sandboxed(kerneltest.Boxed("wasi"), nil)
				reflect.ValueOf(x.Cell()).Elem().SetZero()
				return x
			}(),
			"was overwritten by another's": func() executor.Driver {
				x := w.Sandboxed(kerneltest.Boxed("wasi"), nil)
				*x.Cell() = *m.Cell()
				return x
			}(),
		}
		for name, d := range drivers {
			for tool, reason := range map[string]contracts.ReasonCode{
				"look": contracts.ReasonDriverNotBound, "put": contracts.ReasonSandboxViolation,
			} {
				said, r := w.MustCall(kerneltest.Denied(reason), tool, `{}`, kerneltest.WithDriver(d))
				assert.Equal(t, "wraps a sandboxed driver: bind the module itself", said.Why, "%s, %s", name, tool)
				in := judgedOf(t, w, said)
				assert.True(t, in.Drivers == 0 && in.Sandbox == nil, "%s, %s: %+v", name, tool, in)
				assert.Equal(t, contracts.Denied, r.Record.Outcome)
			}
		}
		said, _ := w.MustCall(kerneltest.Denied(contracts.ReasonDriverNotBound), "look", `{}`)
		assert.NotContains(t, said.Why, "wraps", "there is none")
		for _, tool := range []string{"look", "put"} {
			w.MustCall(kerneltest.Executed("1"), tool, `{}`, kerneltest.WithDriver(m)) // or it would prove nothing
		}
		report := w.MustVerify()
		assert.Zero(t, report.Replay.KernelsOwn)
		w.MustAgree(report)
	})
}

// The cell that the kernel takes is what the call is judged by, and what runs, whatever the driver
// says or is overwritten with later. The kernel asks once.
func TestCellThatWasTakenRuns(t *testing.T) {
	t.Parallel()
	var between atomic.Pointer[func()]
	now := func() time.Time {
		if f := between.Swap(nil); f != nil {
			(*f)()
		}
		return time.Now()
	}
	eachStore(t, func(t *testing.T, w *kerneltest.World) {
		as := func(profile string) *kerneltest.Sandboxed {
			return w.Sandboxed(kerneltest.Boxed(profile), kerneltest.Returns(`"`+profile+`"`, nil))
		}
		runs := func(d executor.Driver, profile string) {
			t.Helper()
			said, r := w.MustCall(kerneltest.Executed(`"`+profile+`"`), "look", `{}`, kerneltest.WithDriver(d))
			assert.Equal(t, profile, judgedOf(t, w, said).Sandbox.Profile)
			assert.Equal(t, profile, r.Record.Sandbox.Profile)
		}
		m, other := as("wasi"), as("other")
		swap := func() { *m.Cell() = *other.Cell() }
		between.Store(&swap)
		runs(m, "wasi")
		require.Nil(t, between.Load(), "nothing was overwritten")
		w.MustCall(kerneltest.Denied(contracts.ReasonDriverNotBound), "look", `{}`, kerneltest.WithDriver(m))
		runs(other, "other")

		d := change(w)
		d.cells[0] = cell.New(d, kerneltest.Boxed("first"), nil, kerneltest.Returns(`"first"`, nil))
		d.cells[1] = other.Cell()
		asked := d.n
		said, r := w.Call("look", `{}`, kerneltest.WithDriver(d))
		require.NoError(t, said.Err())
		assert.Equal(t, asked+1, d.n, "it is asked once")
		assert.True(t, string(r.Output) == `"first"` && r.Record.Sandbox.Profile == "first")
		w.MustCall(kerneltest.Denied(contracts.ReasonDriverNotBound), "look", `{}`, kerneltest.WithDriver(d))
		assert.Equal(t, asked+2, d.n)
		w.MustAgree(w.MustVerify())
	}, func(o *helm.Options) { o.Now = now })
}

// What a host does with what it was told of a sandbox, or had told the driver, changes no record.
func TestSandboxIsNotShared(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, w *kerneltest.World) {
		info := kerneltest.Boxed("wasi")
		info.Grants.Env = []string{"LANG"}
		want := *info.GrantsHash()
		m := w.Sandboxed(info, kerneltest.Returns("1", nil))
		for range 3 {
			said, r := w.MustCall(kerneltest.Executed("1"), "look", `{}`, kerneltest.WithDriver(m))
			assert.Equal(t, want, *r.Record.Sandbox.Grants)
			assert.Equal(t, want, *judgedOf(t, w, said).Sandbox.GrantsHash())
			got := m.Cell().Info()
			got.Grants.Gas, got.Grants.Env[0] = 1, "HOME"
			info.Grants.Gas, info.Grants.Env[0] = 1, "HOME"
			*r.Record.Sandbox.Grants = contracts.Digest{}
			r.Record.Sandbox.Profile = "other"
		}
		w.MustVerify()
	})
}

// Only a cell with grants says that a limit of its sandbox ended the run. From any other driver,
// one that ran elsewhere included, it is the tool's own error.
func TestLimitIsThatOfGrants(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, w *kerneltest.World) {
		for _, reason := range []contracts.ReasonCode{contracts.ReasonGasExhausted, contracts.ReasonTimeExhausted,
			contracts.ReasonMemoryExhausted, contracts.ReasonOutputExhausted} {
			limit := func(context.Context, contracts.Call) (executor.Result, error) {
				return executor.Result{Gas: 9}, &executor.LimitError{Reason: reason}
			}
			failed := kerneltest.Want{Verdict: contracts.Allow, Reason: contracts.ReasonToolError,
				Outcome: contracts.Failed, Err: kerneltest.ErrTool, Runs: 1}
			for name, d := range map[string]executor.Driver{
				"plain": doing{w, limit}, "reported": w.Sandboxed(contracts.SandboxInfo{Profile: contracts.ProfileReported}, limit),
			} {
				said, r := w.Call("look", `{}`, kerneltest.WithDriver(d))
				assert.Equal(t, failed.Reason, said.Reason, name)
				assert.Equal(t, name == "reported", r.Record.Sandbox != nil)
			}
			said, r := w.Call("look", `{}`, kerneltest.WithDriver(w.Sandboxed(kerneltest.Boxed("wasi"), limit)))
			assert.Equal(t, reason, said.Reason)
			assert.NotNil(t, r.Record.Sandbox)
		}
		w.MustAgree(w.MustVerify())
	})
}

// A receipt has the sandbox iff the inputs have it, whatever became of the run, with the module,
// the profile and the grants of the inputs, and gas of at most what was granted.
func TestReceiptHasTheSandboxOfTheInputs(t *testing.T) {
	kerneltest.OneWriter(t, "its stores are others")
	t.Parallel()
	const granted = 100
	pure := kerneltest.Boxed("box")
	pure.Grants.Gas = granted
	elsewhere := contracts.SandboxInfo{Profile: contracts.ProfileReported, Module: crypto.Sum([]byte("a definition"))}
	returns := func(gas uint64, output string, err error) kerneltest.Tool {
		return func(context.Context, contracts.Call) (executor.Result, error) {
			return executor.Result{Output: []byte(output), Gas: gas}, err
		}
	}
	limit := func(reason contracts.ReasonCode) error { return executor.LimitError{Reason: reason} }
	type row struct {
		name   string
		tool   kerneltest.Tool
		reason contracts.ReasonCode
		gas    uint64
	}
	rows := []row{
		{"ran", returns(7, `{"ok":true}`, nil), contracts.ReasonAllow, 7},
		{"ran, with more gas than there was", returns(granted+1, `{"ok":true}`, nil), contracts.ReasonAllow, granted},
		{"failed", returns(8, ``, errors.New("no")), contracts.ReasonToolError, 8},
		{"panicked", func(context.Context, contracts.Call) (executor.Result, error) { panic("guest") },
			contracts.ReasonToolPanic, 0},
		{"ended its goroutine", func(context.Context, contracts.Call) (executor.Result, error) {
			runtime.Goexit()
			return executor.Result{}, nil
		}, contracts.ReasonToolPanic, 0},
		{"drifted", returns(9, `{"ok":1}`, nil), contracts.ReasonContractDrift, 9},
		{"said too much", returns(10, `"`+strings.Repeat("x", 2048)+`"`, nil), contracts.ReasonOutputExhausted, 10},
		{"gas", returns(11, ``, limit(contracts.ReasonGasExhausted)), contracts.ReasonGasExhausted, granted},
		{"gas, much", returns(1<<63, ``, limit(contracts.ReasonGasExhausted)), contracts.ReasonGasExhausted, granted},
		{"time", returns(12, ``, limit(contracts.ReasonTimeExhausted)), contracts.ReasonTimeExhausted, 12},
		{"memory", returns(13, ``, limit(contracts.ReasonMemoryExhausted)), contracts.ReasonMemoryExhausted, 13},
		{"output", returns(14, ``, limit(contracts.ReasonOutputExhausted)), contracts.ReasonOutputExhausted, 14},
		{"heeded its limit", func(ctx context.Context, _ contracts.Call) (executor.Result, error) {
			<-ctx.Done()
			return executor.Result{Gas: 15}, ctx.Err()
		}, contracts.ReasonToolTimeout, 15},
		{"was abandoned", func(context.Context, contracts.Call) (executor.Result, error) {
			time.Sleep(time.Hour)
			return executor.Result{Gas: 16}, nil
		}, contracts.ReasonToolTimeout, 0},
	}
	try := func(t *testing.T, w *kerneltest.World) {
		check := func(name string, info contracts.SandboxInfo, gas uint64, said helm.Decision, r helm.Receipt) {
			t.Helper()
			in, use := judgedOf(t, w, said), r.Record.Sandbox
			require.True(t, in.Sandbox != nil && use != nil, name)
			assert.Equal(t, info.Module, use.Module, name)
			assert.Equal(t, info.Profile, use.Profile, name)
			assert.Equal(t, info.GrantsHash(), use.Grants, name)
			assert.Equal(t, in.Sandbox.GrantsHash(), use.Grants, name)
			assert.Equal(t, gas, use.Gas, name)
		}
		for _, x := range rows {
			said, r := w.Call("work", `{}`, kerneltest.WithDriver(w.Sandboxed(pure, x.tool)))
			assert.Equal(t, x.reason, said.Reason, x.name)
			check(x.name, pure, x.gas, said, r)
			said, r = w.Call("work", `{}`, kerneltest.WithDriver(w.Sandboxed(elsewhere, x.tool)))
			check(x.name+", elsewhere", elsewhere, 0, said, r)
			_, r = w.Call("work", `{}`, kerneltest.WithDriver(doing{w, x.tool}))
			assert.Nil(t, r.Record.Sandbox, "%s: of a driver without a cell", x.name)
		}
		ctx, cancel := context.WithCancel(t.Context())
		leaves := func(context.Context, contracts.Call) (executor.Result, error) {
			cancel()
			return executor.Result{Gas: 17}, context.Canceled
		}
		said, r := w.Kernel.Guard(ctx, helm.Intent{Tool: "work", Args: []byte(`{}`), Session: "s",
			Driver: w.Sandboxed(pure, leaves)})
		assert.Equal(t, contracts.ReasonToolCanceled, said.Reason)
		check("left", pure, 17, said, r)
		w.MustAgree(w.MustVerify())
		time.Sleep(2 * time.Hour) // until those that were abandoned have ended
	}
	for _, on := range []string{"memory", "files"} {
		t.Run(on, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				try(t, kerneltest.New(t, func(o *helm.Options) {
					o.Policy, o.Drivers = kerneltest.Compile(t, outcomeBundle), nil
					if on == "files" {
						files, err := filestore.Open(dir, filestore.Options{})
						require.NoError(t, err)
						t.Cleanup(func() { files.Close() })
						kerneltest.Faulty(o.Store).Store = files
					}
				}))
			})
		})
	}
}

// A run that nobody saw the end of has no sandbox in its receipt.
func TestUnknownOutcomeHasNoSandbox(t *testing.T) {
	t.Parallel()
	w := kerneltest.New(t, func(o *helm.Options) {
		o.Policy, o.Drivers = kerneltest.Compile(t, claimsFloor, claimsBundle), nil
	})
	w.Store.FailIn(2) // the receipt
	said, _ := w.Call("look", `{}`, kerneltest.WithDriver(w.Sandboxed(kerneltest.Boxed("wasi"), nil)))
	require.Equal(t, contracts.ReasonReceiptNotStored, said.Reason)
	w.Store.Heal()
	w.Open()
	found := false
	for _, st := range w.Statements() {
		if r := st.Receipt; r != nil && r.Reason == contracts.ReasonOutcomeUnknown {
			found = true
			assert.Nil(t, r.Sandbox)
		}
	}
	assert.True(t, found)
	w.MustAgree(w.MustVerify())
}

// A counting store counts the batches that bring a module.
type countingStore struct {
	proofgraph.Store
	n atomic.Int64
}

func (s *countingStore) Append(ctx context.Context, b proofgraph.Batch) error {
	for _, blob := range b.Blobs {
		if bytes.Equal(blob, kerneltest.Module) {
			s.n.Add(1)
		}
	}
	return s.Store.Append(ctx, b)
}

// With Keep.Modules the first receipt that names a module brings it to the store, at once with the
// receipt, and no later one does. Denials bring none, nor do tools that ran elsewhere.
func TestKeepModules(t *testing.T) {
	kerneltest.OneWriter(t, "its store looks at batches")
	t.Parallel()
	for _, keeps := range []bool{true, false} {
		var counted *countingStore
		eachStore(t, func(t *testing.T, w *kerneltest.World) {
			has := func() bool {
				_, err := w.Store.Blob(t.Context(), crypto.Sum(kerneltest.Module))
				assert.True(t, err == nil || errors.Is(err, proofgraph.ErrNoBlob), "%v", err)
				return err == nil
			}
			m := w.Sandboxed(kerneltest.Boxed("wasi"), kerneltest.Returns("1", nil))
			reports := kerneltest.Boxed(contracts.ProfileReported)
			reports.Grants = nil
			w.MustCall(kerneltest.Denied(contracts.ReasonToolNotFound), "gone", `{}`, kerneltest.WithDriver(m))
			w.MustCall(kerneltest.Executed("1"), "look", `{}`,
				kerneltest.WithDriver(w.Sandboxed(reports, kerneltest.Returns("1", nil))))
			require.False(t, has(), "before a receipt names it")
			kerneltest.AtOnce(8, func(i int) {
				w.Call("look", `{}`, kerneltest.WithDriver(m), kerneltest.InSession(fmt.Sprint("s", i)))
			})
			w.Runs.Store(0)
			w.MustCall(kerneltest.Executed("1"), "put", `{}`, kerneltest.WithDriver(m))
			assert.Equal(t, keeps, has())
			want := int64(0)
			if keeps {
				want = 1
			}
			assert.Equal(t, want, counted.n.Load(), "batches with the module")
			w.MustAgree(w.MustVerify())
			w.Reopen()
			w.MustCall(kerneltest.Executed("1"), "put", `{}`, kerneltest.WithDriver(m))
			assert.Equal(t, keeps, has())
			w.MustVerify()
		}, func(o *helm.Options) {
			o.Keep.Modules = keeps
			faulty := kerneltest.Faulty(o.Store)
			counted = &countingStore{Store: faulty.Store}
			faulty.Store = counted
		})
	}
}
