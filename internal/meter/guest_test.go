package meter

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// A guest is a module for a test. Next to the bytes of a body stands its text form.
type guest struct {
	imports  []string   // "module name ii>i": i, l, f, d, r are i32, i64, f32, f64, funcref
	funcs    []function // the first is exported as _start, each under its own name too
	memory   []byte     // limits; nil is one page
	tables   [][]byte
	globals  [][]byte
	exports  [][]byte // more of them
	sections [][]byte // start, elements, count: in the order in which they stand
	datas    [][]byte
}

type function struct {
	name, signature string
	locals          string
	body            []byte // without the last end
}

var letters = map[rune]byte{'i': typeI32, 'l': typeI64, 'f': typeF32, 'd': typeF64, 'r': funcref, 'e': extern, 'v': typeV}

func valuesOf(s string) []byte {
	b := appendU32(nil, uint32(len(s)))
	for _, l := range s {
		b = append(b, letters[l])
	}
	return b
}

func (g *guest) bytes() []byte {
	var types [][]byte
	index := map[string]int{}
	typeOf := func(signature string) []byte {
		i, ok := index[signature]
		if !ok {
			i = len(types)
			index[signature] = i
			params, results, _ := strings.Cut(signature, ">")
			types = append(types, cat(0x60, valuesOf(params), valuesOf(results)))
		}
		return u(i)
	}
	var imports, funcs, codes, exports [][]byte
	for _, i := range g.imports {
		f := strings.Split(i, " ")
		imports = append(imports, cat(name(f[0]), name(f[1]), kindFunction, typeOf(f[2])))
	}
	for i, f := range g.funcs {
		funcs = append(funcs, typeOf(f.signature))
		var locals [][]byte
		for _, l := range f.locals {
			locals = append(locals, []byte{1, letters[l]})
		}
		codes = append(codes, sized(cat(vec(locals), f.body, opEnd)))
		if i == 0 {
			exports = append(exports, cat(name("_start"), kindFunction, u(len(imports))))
		}
		if f.name != "" {
			exports = append(exports, cat(name(f.name), kindFunction, u(len(imports)+i)))
		}
	}
	memory := g.memory
	if memory == nil {
		memory = []byte{0, 1}
	}
	exports = append(exports, cat(name("memory"), kindMemory, 0))
	exports = append(exports, g.exports...)
	b := cat(preamble, sect(sectionType, types), sect(sectionImport, imports), sect(sectionFunction, funcs),
		sect(sectionTable, g.tables), sect(sectionMemory, [][]byte{memory}), sect(sectionGlobal, g.globals),
		sect(sectionExport, exports))
	for _, s := range g.sections {
		b = append(b, s...)
	}
	return cat(b, sect(sectionCode, codes), sect(sectionData, g.datas))
}

// start returns a guest of one function, _start, and what else it calls.
func start(locals string, body []byte, more ...function) *guest {
	return &guest{funcs: append([]function{{signature: ">", locals: locals, body: body}}, more...)}
}

// cat puts bytes, and slices of them, one after the other.
func cat(parts ...any) []byte {
	var b []byte
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			b = append(b, byte(p))
		case byte:
			b = append(b, p)
		case []byte:
			b = append(b, p...)
		default:
			panic(p)
		}
	}
	return b
}

func u(v int) []byte                  { return appendU32(nil, uint32(v)) }
func name(s string) []byte            { return appendBytes(nil, []byte(s)) }
func sized(b []byte) []byte           { return appendBytes(nil, b) }
func i32(v int) []byte                { return appendSigned([]byte{opI32Const}, int64(v)) }
func i64(v int64) []byte              { return appendSigned([]byte{opI64Const}, v) }
func get(local int) []byte            { return cat(opLocalGet, u(local)) }
func set(local int) []byte            { return cat(opLocalSet, u(local)) }
func call(f int) []byte               { return cat(opCall, u(f)) }
func times(n int, part []byte) []byte { return []byte(strings.Repeat(string(part), n)) }

func vec(all [][]byte) []byte {
	b := u(len(all))
	for _, e := range all {
		b = append(b, e...)
	}
	return b
}

// sect is a section, or nothing if it would be empty.
func sect(id byte, all [][]byte) []byte {
	if len(all) == 0 {
		return nil
	}
	return section(nil, id, vec(all))
}

const everyFeature = api.CoreFeaturesV2 &^ api.CoreFeatureSIMD

// An engine runs modules.
type engine struct {
	rt wazero.Runtime
}

// engines returns an interpreter and a compiler with a host that has helm.yield, and functions of
// WASI that return 0 and do nothing.
var engines = sync.OnceValue(func() map[string]*engine {
	all := map[string]*engine{}
	for name, config := range map[string]wazero.RuntimeConfig{
		"interpreter": wazero.NewRuntimeConfigInterpreter(),
		"compiler":    wazero.NewRuntimeConfigCompiler(),
	} {
		rt := wazero.NewRuntimeWithConfig(context.Background(), config.WithCoreFeatures(everyFeature).WithMemoryLimitPages(16384))
		yield(rt)
		wasi := rt.NewHostModuleBuilder(WASIModule)
		for _, f := range Functions() {
			wasi.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(ctx context.Context, m api.Module, stack []uint64) {
				if len(stack) > 0 {
					stack[0] = 0
				}
				called(ctx).imports++
			}), f.Params, f.Results).Export(f.Name)
		}
		if _, err := wasi.Instantiate(context.Background()); err != nil {
			panic(err)
		}
		all[name] = &engine{rt}
	}
	return all
})

// A tally is what the host keeps of a guest.
type tally struct {
	slice, limit int64
	given        int64
	yields       int
	imports      int
	before       func(api.Module) // called before the function
}

type tallyKey struct{}

func called(ctx context.Context) *tally { return ctx.Value(tallyKey{}).(*tally) }

var errGas = errors.New("gas")

// yield is the host's side: it adds slices until the limit.
func yield(rt wazero.Runtime) {
	_, err := rt.NewHostModuleBuilder(YieldModule).NewFunctionBuilder().
		WithGoModuleFunction(api.GoModuleFunc(func(ctx context.Context, m api.Module, _ []uint64) {
			c, gas := called(ctx), m.ExportedGlobal(Gas).(api.MutableGlobal)
			c.yields++
			v := int64(gas.Get())
			if v >= 0 {
				panic("asked without need")
			}
			if c.given-v > c.limit {
				panic(errGas)
			}
			n := (-v + c.slice - 1) / c.slice * c.slice
			c.given += n
			gas.Set(uint64(v + n))
		}), nil, nil).Export(YieldName).Instantiate(context.Background())
	if err != nil {
		panic(err)
	}
}

// An ending is what became of a call.
type ending struct {
	results []uint64
	err     error
	gas     int64
	end     uint64
	yields  int
	imports int
	memory  []byte
}

// run rewrites a module, and calls a function of a new instance.
func (e *engine) run(t testing.TB, module []byte, limit, slice int64, function string, args ...uint64) ending {
	t.Helper()
	m, refused := decode(module)
	require.Nil(t, refused)
	metered, refused := m.rewrite(16384)
	require.Nil(t, refused)
	return e.call(t, metered, &tally{limit: limit, slice: slice}, function, args...)
}

// call calls a function of a new instance of a module that was rewritten, and of one that was not
// if the tally is nil.
func (e *engine) call(t testing.TB, module []byte, c *tally, function string, args ...uint64) ending {
	t.Helper()
	ctx := context.WithValue(context.Background(), tallyKey{}, c)
	i, err := e.rt.InstantiateWithConfig(ctx, module, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	require.NoError(t, err)
	defer i.Close(ctx)
	var out ending
	if c != nil && c.before != nil {
		c.before(i)
	}
	f := i.ExportedFunction(function)
	results, err := f.Call(ctx, args...)
	out.results, out.err = resultsOf(f, results), err
	out.memory = append([]byte(nil), memoryOf(i)...)
	if c != nil && i.ExportedGlobal(Gas) != nil {
		out.gas = c.given - int64(i.ExportedGlobal(Gas).Get())
		out.end, out.yields, out.imports = i.ExportedGlobal(End).Get(), c.yields, c.imports
	}
	return out
}

const plenty = math.MaxInt64 / 4

// both runs a call on both engines, which must agree.
func both(t testing.TB, module []byte, limit int64, function string, args ...uint64) ending {
	t.Helper()
	a := engines()["interpreter"].run(t, module, limit, 1_000_000, function, args...)
	b := engines()["compiler"].run(t, module, limit, 1_000_000, function, args...)
	require.Equal(t, a.err == nil, b.err == nil, "interpreter: %v, compiler: %v", a.err, b.err)
	require.Equal(t, a.gas, b.gas)
	require.Equal(t, a.results, b.results)
	require.Equal(t, a.end, b.end)
	return b
}

func setGlobal(name string, v uint64) func(api.Module) {
	return func(m api.Module) { m.ExportedGlobal(name).(api.MutableGlobal).Set(v) }
}

// resultsOf copies results. Of a value of 32 bits the engine says nothing about the others.
func resultsOf(f api.Function, given []uint64) []uint64 {
	var results []uint64
	for i, r := range given {
		if t := f.Definition().ResultTypes()[i]; t == api.ValueTypeI32 || t == api.ValueTypeF32 {
			r = uint64(uint32(r))
		}
		results = append(results, r)
	}
	return results
}
