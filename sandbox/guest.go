package sandbox

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	randv2 "math/rand/v2"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/contain"
	"github.com/helmkernel/helm/internal/meter"
	"github.com/helmkernel/helm/sandbox/internal/wasi"
)

// A job is one call: what a guest is run with.
type job struct {
	code   *code
	grants *contracts.Sandbox // filled in
	setup  wasi.Setup

	// decided returns the decision's hash and time. It is called once, if the guest asks for what
	// follows from them.
	decided func() (contracts.Digest, contracts.Time, error)
}

// An ending is how a guest ended. Reason is ALLOW, TOOL_ERROR, or that of a limit. It is "" if the
// context of the call was over, or the host failed, as err says.
type ending struct {
	output []byte
	gas    uint64
	reason contracts.ReasonCode
	err    error
}

// A guest is one run of one module, and the [wasi.Host] of its world. One goroutine uses it.
type guest struct {
	ctx    context.Context // of the call; the engine never sees it
	job    *job
	slice  uint64
	world  *wasi.World
	module api.Module
	gas    api.MutableGlobal
	given  int64 // gas

	random  interface{ Read(p []byte) (int, error) }
	decided bool
	hash    contracts.Digest
	at      uint64 // of the decision, in nanoseconds
}

var _ wasi.Host = (*guest)(nil)

// These are the panics by which the host ends a guest.
var (
	errGas     = errors.New("the gas is used up")
	errContext = errors.New("the context is over")
)

// A failure is the panic of a host that cannot do what it must.
type failure struct{ err error }

func (f failure) Error() string { return f.err.Error() }

type guestKey struct{}

func guestOf(ctx context.Context) *guest { return ctx.Value(guestKey{}).(*guest) }

// run waits for a slot and runs a guest to its end.
func (r *Runtime) run(ctx context.Context, j *job) ending {
	if err := r.enter(); err != nil {
		return ending{err: contain.Fault(err.Error())}
	}
	defer r.leave()
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return over(ctx, 0)
	}
	g := &guest{ctx: ctx, job: j, slice: r.slice}
	return g.run(r.engine)
}

// over is the ending of a guest that its context ended.
func over(ctx context.Context, gas uint64) ending {
	err := ctx.Err()
	if errors.Is(err, context.DeadlineExceeded) {
		return ending{gas: gas, reason: contracts.ReasonTimeExhausted}
	}
	return ending{gas: gas, err: err}
}

func (g *guest) run(engine wazero.Runtime) (end ending) {
	defer func() {
		if x := recover(); x != nil { // a fault of the engine or of this library
			end = ending{err: contain.Fault(contain.Describe("sandbox: the engine", x).Error())}
		}
	}()
	var err error
	if g.world, err = wasi.New(g, g.job.setup); err != nil {
		return ending{err: contain.Fault("sandbox: " + err.Error())}
	}
	defer g.world.Close()
	ctx := context.WithValue(context.Background(), guestKey{}, g) // nothing of the caller's reaches the engine
	// Nobody reads the engine's own random numbers. Without this it seeds a source for each
	// instance, which takes half the time of a small guest.
	config := wazero.NewModuleConfig().WithName("").WithStartFunctions().WithRandSource(strings.NewReader(""))
	if g.module, err = engine.InstantiateModule(ctx, g.job.code.compiled, config); err != nil {
		if strings.HasSuffix(err.Error(), outOfBounds) { // a segment of data: so it is wherever the module runs
			return ending{reason: contracts.ReasonToolError, err: g.says("trap: " + outOfBounds)}
		}
		return ending{err: errEngine}
	}
	defer g.module.Close(ctx)
	g.gas = g.global(meter.Gas)
	g.global(meter.Args).Set(g.world.Args())
	g.global(meter.Environ).Set(g.world.Environ())
	_, err = g.module.ExportedFunction("_start").Call(ctx)
	return g.ending(err)
}

const (
	errEngine   = contain.Fault("sandbox: the engine failed")
	outOfBounds = "out of bounds memory access"
)

func (g *guest) global(name string) api.MutableGlobal {
	return g.module.ExportedGlobal(name).(api.MutableGlobal)
}

// ending returns how the guest ended, of which err is what the engine says. What was charged
// decides before how it ended, so that it does not matter when it was found out.
func (g *guest) ending(err error) ending {
	limit, used := g.job.grants.Gas, g.used()
	var exit wasi.Exit
	var failed failure
	switch why := uint32(g.module.ExportedGlobal(meter.End).Get()); {
	case errors.As(err, &failed):
		return ending{err: contain.Fault("sandbox: " + failed.Error())}
	case used > limit:
		return ending{gas: limit, reason: contracts.ReasonGasExhausted}
	case errors.Is(err, errContext):
		return over(g.ctx, used)
	case why == meter.EndStack || why == meter.EndMemory:
		return ending{gas: used, reason: contracts.ReasonMemoryExhausted}
	case errors.Is(err, wasi.ErrOutput):
		return ending{gas: used, reason: contracts.ReasonOutputExhausted}
	case err == nil, errors.As(err, &exit) && exit == 0:
		return ending{gas: used, reason: contracts.ReasonAllow, output: g.world.Stdout()}
	case errors.As(err, &exit):
		return ending{gas: used, reason: contracts.ReasonToolError, err: g.says(fmt.Sprintf("exit %d", uint32(exit)))}
	}
	if trap, ok := trapOf(err); ok {
		return ending{gas: used, reason: contracts.ReasonToolError, err: g.says("trap: " + trap)}
	}
	return ending{err: errEngine}
}

// says returns the tool's own error, with the end of what it wrote to stderr.
func (g *guest) says(what string) error {
	if stderr := g.world.Stderr(); len(stderr) > 0 {
		return fmt.Errorf("sandbox: %s: %q", what, stderr)
	}
	return errors.New("sandbox: " + what)
}

// traps are what the engine reports of a guest. Stack overflow is not one of them: it depends on
// the machine, and the meter ends a guest before.
var traps = map[string]bool{
	"invalid conversion to integer": true, "integer overflow": true, "integer divide by zero": true,
	"unreachable": true, outOfBounds: true, "invalid table access": true,
	"indirect call type mismatch": true,
}

func trapOf(err error) (string, bool) {
	trap, ok := strings.CutPrefix(firstLine(err), "wasm error: ")
	return trap, ok && traps[trap]
}

// used returns the gas that was charged.
func (g *guest) used() uint64 { return uint64(g.given - int64(g.gas.Get())) }

// yield is what a guest calls whose gas is below zero.
func (g *guest) yield() {
	if g.used() > g.job.grants.Gas {
		panic(errGas)
	}
	g.Check()
	debt := -int64(g.gas.Get())
	if debt <= 0 {
		return
	}
	slices := (uint64(debt) + g.slice - 1) / g.slice
	g.given += int64(slices * g.slice)
	g.gas.Set(uint64(-debt) + slices*g.slice)
}

// Check ends the guest if the call's context is over.
func (g *guest) Check() {
	if g.ctx.Err() != nil {
		panic(errContext)
	}
}

// Charge charges gas, and ends the guest if it has no more.
func (g *guest) Charge(gas uint64) {
	const most = 1 << 61 // over any grant, and far from the end of 64 bits
	g.gas.Set(g.gas.Get() - min(gas, most))
	if int64(g.gas.Get()) < 0 {
		g.yield()
	}
}

func (g *guest) decision() {
	if g.decided {
		return
	}
	hash, at, err := g.job.decided()
	if err != nil {
		panic(failure{errors.New("the call has no decision that can be read")})
	}
	g.decided, g.hash, g.at = true, hash, uint64(at)*uint64(time.Millisecond)
}

// Wall is the decision's time and a nanosecond for each gas used, or the host's time.
func (g *guest) Wall() uint64 {
	if g.job.grants.Clock == clockReal {
		return uint64(time.Now().UnixNano())
	}
	g.decision()
	return g.at + g.used()
}

var began = time.Now()

// Monotonic is the gas used, or the host's.
func (g *guest) Monotonic() uint64 {
	if g.job.grants.Clock == clockReal {
		return uint64(time.Since(began))
	}
	return g.used()
}

// Sleep costs as much gas as it has nanoseconds, and takes no time; with the host's clock it takes
// that time, or until the context is over.
func (g *guest) Sleep(ns uint64) {
	if g.job.grants.Clock != clockReal {
		g.Charge(ns)
		return
	}
	timer := time.NewTimer(time.Duration(min(ns, math.MaxInt64)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-g.ctx.Done():
		panic(errContext)
	}
}

const (
	clockReal  = "real"
	randomReal = "real"

	randomDomain = "helm sandbox random v1\n"
)

// Random is one stream over all calls, whose seed follows from the decision, or the host's.
func (g *guest) Random(p []byte) {
	if g.random == nil && g.job.grants.Random == randomReal {
		g.random = rand.Reader
	} else if g.random == nil {
		g.decision()
		g.random = randv2.NewChaCha8(sha256.Sum256(append([]byte(randomDomain), g.hash[:]...)))
	}
	if _, err := g.random.Read(p); err != nil {
		panic(failure{errors.New("random numbers cannot be read")})
	}
}
