package meter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// A trial runs a module as it was given, metered, and naively counted, each in a runtime of its
// own.
type trial struct {
	given, metered, counted *side
	most                    int // calls of one module; 0: all
	apart                   int // results that differ from the given module's, and are no NaNs: the bits of one
}

// A side is a runtime with what the specification's modules import.
type side struct {
	rt     wazero.Runtime
	module wazero.CompiledModule
	i      api.Module
}

// newTrial returns a trial on an engine. Its memory is small, whatever modules ask for, and it is
// the engine that refuses more: for all sides alike.
func newTrial(t testing.TB, config wazero.RuntimeConfig) *trial {
	var sides [3]*side
	spectest, err := os.ReadFile(filepath.Join(engineDir(), "internal", "integration_test", "spectest", "testdata", "spectest.wasm"))
	require.NoError(t, err)
	for i := range sides {
		rt := wazero.NewRuntimeWithConfig(context.Background(), config.WithCoreFeatures(everyFeature).WithMemoryLimitPages(64))
		_, err := rt.InstantiateWithConfig(context.Background(), spectest, wazero.NewModuleConfig().WithName("spectest"))
		require.NoError(t, err)
		yield(rt)
		sides[i] = &side{rt: rt}
	}
	return &trial{given: sides[0], metered: sides[1], counted: sides[2]}
}

func (s *side) close(ctx context.Context) {
	if s.i != nil {
		s.i.Close(ctx)
	}
	if s.module != nil {
		s.module.Close(ctx)
	}
	s.i, s.module = nil, nil
}

// bare returns a module that decodes without its custom sections. The engine reads names before it
// validates, and makes as many as their section says there are: ten bytes are gigabytes, seconds.
func bare(b []byte) []byte {
	out := bytes.Clone(b[:len(preamble)])
	for r := (reader{b: b, at: len(preamble)}); r.more(); {
		from := r.at
		id := r.byte()
		if r.bytes(r.u32()); id != sectionCustom {
			out = append(out, b[from:r.at]...)
		}
	}
	return out
}

// validate compiles a module as it was given. The engine's validator panics for some modules.
func (s *side) validate(ctx context.Context, b []byte) (err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("the engine panicked")
		}
	}()
	s.module, err = s.rt.CompileModule(ctx, b)
	return err
}

// instance makes a new instance.
func (s *side) instance(ctx context.Context) (err error) {
	if s.i != nil {
		s.i.Close(ctx)
	}
	s.i, err = s.rt.InstantiateModule(ctx, s.module, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	return err
}

func (s *side) call(ctx context.Context, function string, args []uint64) ([]uint64, error) {
	f := s.i.ExportedFunction(function)
	results, err := f.Call(ctx, args...)
	return resultsOf(f, results), err
}

const (
	slice    = 50_000
	maxAsked = 20 // slices until a call is given up as endless
)

// same checks the promises of the rewriting on a module, and returns how many calls it compared. A
// module that the engine refuses is only rewritten, for the rewriting must not panic.
func (all *trial) same(t testing.TB, b []byte) (valid bool, calls int) {
	ctx := context.WithValue(context.Background(), tallyKey{}, &tally{slice: slice, limit: slice * maxAsked})
	if all.most > 0 {
		called(ctx).limit = slice
	}
	m, refused := decode(b)
	var out []byte
	if refused == nil {
		out, refused = m.rewrite(maxPages)
	}
	defer func() {
		for _, s := range []*side{all.given, all.metered, all.counted} {
			s.close(ctx)
		}
	}()
	var err error
	if refused != nil {
		return false, 0
	}
	if err = all.given.validate(ctx, bare(b)); err != nil {
		return false, 0
	}
	if all.metered.module, err = all.metered.rt.CompileModule(ctx, out); err != nil {
		t.Fatalf("metered, a valid module is invalid: %v\n%x", err, b)
	}
	counted, refused := naive(b)
	if refused != nil {
		t.Fatal(refused)
	}
	if all.counted.module, err = all.counted.rt.CompileModule(ctx, counted); err != nil {
		t.Fatalf("the naive rewriting is wrong: %v\n%x", err, b)
	}
	if !runnable(m) {
		return true, 0
	}
	return true, all.calls(ctx, t, m)
}

// runnable reports whether a module can be run three times alone.
func runnable(m *module) bool {
	for _, i := range m.imports {
		if string(i.module) != "spectest" || i.kind == kindTable || i.kind == kindMemory {
			return false
		}
	}
	for _, table := range m.tables {
		if table.limits.min > maxTable {
			return false
		}
	}
	return true
}

// calls calls what the module exports, with a few arguments each.
func (all *trial) calls(ctx context.Context, t testing.TB, m *module) (n int) {
	float := false
	for _, body := range m.bodies {
		computes := func(b byte) bool { return floats(b) != 0 }
		float = float || slices.ContainsFunc(body, computes) // any bytes: too often is no harm
	}
	fresh := true
	for _, e := range m.exports {
		if e.kind != kindFunction {
			continue
		}
		for variant := range 4 {
			if all.most > 0 && n >= all.most {
				return n
			}
			if fresh {
				if !all.instances(ctx, t) {
					return n
				}
				fresh = false
			}
			var same bool
			same, fresh = all.once(ctx, t, string(e.name), arguments(m.function(e.index).params, variant), float)
			if same {
				n++
			}
		}
	}
	return n
}

// instances makes new instances, the metered one first: what it has no gas for is endless
// elsewhere.
func (all *trial) instances(ctx context.Context, t testing.TB) bool {
	called(ctx).given, called(ctx).yields = 0, 0
	if err := all.metered.instance(ctx); err != nil {
		if strings.Contains(err.Error(), errGas.Error()) || strings.Contains(err.Error(), "stack overflow") {
			return false
		}
		if all.given.instance(ctx) == nil {
			t.Fatalf("metered, it cannot be instantiated: %v", err)
		}
		return false
	}
	if err := all.given.instance(ctx); err != nil {
		t.Fatalf("metered, it can be instantiated: %v", err)
	}
	if err := all.counted.instance(ctx); err != nil {
		t.Fatal(err)
	}
	return true
}

// once compares one call. It reports whether it could, and whether new instances are needed.
func (all *trial) once(ctx context.Context, t testing.TB, function string, args []uint64, float bool) (same, fresh bool) {
	c := called(ctx)
	c.yields = 0
	gas := func() int64 { return c.given - int64(all.metered.i.ExportedGlobal(Gas).Get()) }
	count := func() int64 { return int64(all.counted.i.ExportedGlobal(spent).Get()) }
	gasBefore, countBefore := gas(), count()
	got, err := all.metered.call(ctx, function, args)
	if end := all.metered.i.ExportedGlobal(End).Get(); end != 0 || err != nil && strings.Contains(err.Error(), errGas.Error()) {
		return false, true
	}
	want, wantErr := all.given.call(ctx, function, args)
	exact, exactErr := all.counted.call(ctx, function, args)
	if trap(err) == "stack overflow" || trap(wantErr) == "stack overflow" {
		return false, true // an engine's own limit, which more code reaches elsewhere
	}
	at := fmt.Sprintf("%s(%x)", function, args)
	if trap(err) != trap(wantErr) || trap(err) != trap(exactErr) {
		t.Fatalf("%s: metered %v, given %v, counted %v", at, err, wantErr, exactErr)
	}
	types := all.given.i.ExportedFunction(function).Definition().ResultTypes()
	for i := range want {
		if got[i] != exact[i] && !isRef(types[i]) {
			t.Fatalf("%s: metered %x, counted %x", at, got, exact)
		}
		if got[i] != want[i] && !isRef(types[i]) && !bothNaN(types[i], got[i], want[i]) {
			if all.apart++; !float {
				t.Fatalf("%s: metered %x, given %x", at, got, want)
			}
		}
	}
	if g, n := gas()-gasBefore, count()-countBefore; g < n {
		t.Fatalf("%s: %d gas, %d for the instructions that ran", at, g, n)
	}
	if !bytes.Equal(memoryOf(all.metered.i), memoryOf(all.counted.i)) {
		t.Fatalf("%s: another memory than counted", at)
	}
	if !float && !bytes.Equal(memoryOf(all.metered.i), memoryOf(all.given.i)) {
		t.Fatalf("%s: another memory than given", at)
	}
	return true, err != nil // a guest that trapped is not used again: its weights stay on the stack
}

// trap returns what the engine says of a trap.
func trap(err error) string {
	if err == nil {
		return ""
	}
	first, _, _ := strings.Cut(err.Error(), "\n")
	return strings.TrimPrefix(first, "wasm error: ")
}

func isRef(t api.ValueType) bool { return t == funcref || t == api.ValueTypeExternref }

func bothNaN(t api.ValueType, a, b uint64) bool {
	switch t {
	case api.ValueTypeF32:
		return math.IsNaN(float64(api.DecodeF32(a))) && math.IsNaN(float64(api.DecodeF32(b)))
	case api.ValueTypeF64:
		return math.IsNaN(api.DecodeF64(a)) && math.IsNaN(api.DecodeF64(b))
	}
	return false
}

func memoryOf(m api.Module) []byte {
	if m.Memory() == nil || reflect.ValueOf(m.Memory()).IsNil() { // the engine's nil of a type of its own
		return nil
	}
	b, _ := m.Memory().Read(0, m.Memory().Size())
	return b
}

// arguments returns one of four lists of arguments.
func arguments(params []byte, variant int) []uint64 {
	values := map[byte][]uint64{
		typeI32: {0, 1, math.MaxUint32, 65_530},
		typeI64: {0, 1, math.MaxUint64, 1 << 40},
		typeF32: {0, 0x3fc00000, 0xffa0_0001, 0x7f800000}, // 0, 1.5, a NaN, infinity
		typeF64: {0, 0x3ff8 << 48, 0xfff4<<48 | 1, 0x7ff0 << 48},
	}
	var args []uint64
	for i, p := range params {
		if of := values[p]; of != nil {
			args = append(args, of[(variant+i*(variant/2))%4])
		} else {
			args = append(args, 0)
		}
	}
	return args
}
