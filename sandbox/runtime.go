package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"golang.org/x/sys/cpu"

	"github.com/helmkernel/helm/internal/contain"
	"github.com/helmkernel/helm/internal/meter"
)

// Options are the options of a [Runtime].
type Options struct {
	// Instances is how many guests run at once. A call that finds so many waits, and its time limit
	// runs on. Zero means twice GOMAXPROCS.
	Instances int
}

// A Runtime holds compiled modules, and runs them. It is safe for concurrent use.
type Runtime struct {
	engine wazero.Runtime
	slice  uint64 // gas that a guest is given at a time
	slots  chan struct{}
	codes  cache

	mu     sync.Mutex // protects the rest
	calls  int        // that have begun
	closed bool
	idle   chan struct{} // closed when closed and calls is 0
	roots  []*os.Root    // of the modules
}

// features are those of WebAssembly 2.0 without SIMD.
const features = api.CoreFeaturesV2 &^ api.CoreFeatureSIMD

// slice is in gas. A context that ends is heard after at most so much.
const slice = 1_000_000

var errClosed = errors.New("sandbox: the runtime is closed")

// New returns a Runtime. It is an error on processors for which the engine has no compiler.
func New(o Options) (*Runtime, error) {
	const why = "sandbox: the engine has no compiler for this processor: amd64 with SSE4.1, or arm64, is needed"
	if runtime.GOARCH != "arm64" && (runtime.GOARCH != "amd64" || !cpu.X86.HasSSE41) {
		return nil, errors.New(why)
	}
	if o.Instances < 0 {
		return nil, errors.New("sandbox: the number of instances is negative")
	}
	return newRuntime(o, wazero.NewRuntimeConfigCompiler(), slice)
}

func newRuntime(o Options, config wazero.RuntimeConfig, slice uint64) (r *Runtime, err error) {
	defer contain.Error(&err, "sandbox: the engine")
	if o.Instances == 0 {
		o.Instances = 2 * runtime.GOMAXPROCS(0)
	}
	ctx := context.Background()
	r = &Runtime{
		engine: wazero.NewRuntimeWithConfig(ctx, config.WithCoreFeatures(features).WithDebugInfoEnabled(false)),
		slice:  slice, slots: make(chan struct{}, o.Instances), idle: make(chan struct{}),
	}
	r.codes.engine = r.engine
	if err := r.bind(ctx); err != nil {
		return nil, fmt.Errorf("sandbox: the engine: %w", err)
	}
	return r, nil
}

// bind makes the functions of the host.
func (r *Runtime) bind(ctx context.Context) error {
	wasi := r.engine.NewHostModuleBuilder(meter.WASIModule)
	for _, f := range functions() {
		wasi.NewFunctionBuilder().WithGoModuleFunction(f.call, f.params, f.results).Export(f.name)
	}
	if _, err := wasi.Instantiate(ctx); err != nil {
		return err
	}
	yield := api.GoModuleFunc(func(ctx context.Context, _ api.Module, _ []uint64) { guestOf(ctx).yield() })
	own := r.engine.NewHostModuleBuilder(meter.YieldModule)
	own.NewFunctionBuilder().WithGoModuleFunction(yield, nil, nil).Export(meter.YieldName)
	_, err := own.Instantiate(ctx)
	return err
}

// Close waits for the calls that have begun, and frees all modules. From its beginning on, every
// other call fails. If ctx ends first it returns the context's error, and may be called again.
func (r *Runtime) Close(ctx context.Context) error {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		r.leaveLocked(0)
	}
	r.mu.Unlock()
	select {
	case <-r.idle:
	case <-ctx.Done():
		return ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, root := range r.roots {
		root.Close()
	}
	r.roots = nil
	return r.engine.Close(context.Background())
}

// enter begins a call, or a Load.
func (r *Runtime) enter() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return errClosed
	}
	r.calls++
	return nil
}

func (r *Runtime) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leaveLocked(1)
}

func (r *Runtime) leaveLocked(n int) {
	r.calls -= n
	if r.closed && r.calls == 0 {
		close(r.idle)
	}
}
