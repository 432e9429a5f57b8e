package conformance

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/executor"
)

// Gate 3: a tool in a sandbox has what it was granted and nothing else, and an auditor can run it
// again.

const sandboxPolicy = `{
	"helm": "policy/v1", "layer": "P1", "bundle": {"name": "test", "version": 1},
	"tools": {
		"look": {"effect": "read", "input": {"type": "object"}},
		"hurry": {"effect": "read", "input": {"type": "object"}, "limits": {"timeout": "1s"}},
		"put": {"effect": "write", "input": {"type": "object"}},
		"wipe": {"effect": "destructive", "input": {"type": "object"}}
	},
	"rules": [{"id": "all", "allow": ["look", "hurry", "put", "wipe"]}]
}`

const pureFloor = `{
	"helm": "policy/v1", "layer": "P0", "name": "acme", "version": 1,
	"profile": {"effects": ["read", "write", "destructive"],
		"sandbox": {"read": "pure", "write": "pure", "destructive": "pure"}}
}`

// module is a WASI command in bytes. It calls the function of that name, unless it is "", with
// numbers, runs code, and writes 64 bytes from address 64 on, in which the result comes first.
func module(imported, params string, args []int64, code ...byte) []byte {
	number := func(n uint32) []byte { return binary.AppendUvarint(nil, uint64(n)) }
	text := func(s string) []byte { return append(number(uint32(len(s))), s...) }
	section := func(id byte, items ...[]byte) []byte {
		body := append(number(uint32(len(items))), slices.Concat(items...)...)
		return slices.Concat([]byte{id}, number(uint32(len(body))), body)
	}
	kinds := map[rune]byte{'i': 0x7f, 'I': 0x7e}
	function := func(params, results string) []byte {
		b := append([]byte{0x60}, number(uint32(len(params)))...)
		for _, r := range params {
			b = append(b, kinds[r])
		}
		b = append(b, number(uint32(len(results)))...)
		for _, r := range results {
			b = append(b, kinds[r])
		}
		return b
	}
	imports := func(name string, kind byte) []byte {
		return slices.Concat(text("wasi_snapshot_preview1"), text(name), []byte{0, kind})
	}
	types := [][]byte{function("iiii", "i"), function("", "")}
	list, calls := [][]byte{imports("fd_write", 0)}, []byte(nil)
	if imported != "" {
		types, list = append(types, function(params, "i")), append(list, imports(imported, 2))
		calls = constant(calls, 'i', 64)
		for i, r := range params {
			calls = constant(calls, r, args[i])
		}
		calls = append(calls, 0x10, 1, 0x36, 2, 0) // call 1, i32.store
	}
	body := append([]byte{0}, calls...)
	body = append(body, code...)
	for _, x := range [][2]int64{{0, 64}, {4, 64}} { // the vector: 64 bytes from 64 on
		body = append(constant(constant(body, 'i', x[0]), 'i', x[1]), 0x36, 2, 0)
	}
	for _, n := range []int64{1, 0, 1, 8} {
		body = constant(body, 'i', n)
	}
	body = append(body, 0x10, 0, 0x1a, 0x0b) // call 0, drop, end
	start := uint32(len(list))
	return slices.Concat(
		[]byte("\x00asm\x01\x00\x00\x00"),
		section(1, types...),
		section(2, list...),
		section(3, []byte{1}),
		section(5, []byte{0, 1}),
		section(
			7,
			slices.Concat(text("memory"), []byte{2, 0}),
			slices.Concat(text("_start"), []byte{0}, number(start)),
		),
		section(10, slices.Concat(number(uint32(len(body))), body)),
	)
}

// constant appends the instruction that pushes a number of a type.
func constant(b []byte, kind rune, n int64) []byte {
	b = append(b, map[rune]byte{'i': 0x41, 'I': 0x42}[kind])
	for { // signed LEB128
		c := byte(n & 0x7f)
		n >>= 7
		if n == 0 && c&0x40 == 0 || n == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

// Modules that want more than they may have.
var (
	spins = module("", "", nil, 0x03, 0x40, 0x0c, 0, 0x0b)                         // loop br 0
	grows = module("", "", nil, 0x03, 0x40, 0x41, 1, 0x40, 0, 0x1a, 0x0c, 0, 0x0b) // loop memory.grow 1
)

// at100 is where the functions of the modules write: from the 36th byte of the output on.
const at100 = 100

// A sandboxHook is what gate 3 takes from its caller.
type sandboxHook struct {
	load  func(wasm []byte, name string, g contracts.Sandbox) (executor.Driver, error)
	rerun contracts.Rerun
}

// sandboxCases are the gate of the sandbox. It is not run without the hooks.
func sandboxCases(o Options) ([]gateCase, string) {
	if o.Sandbox == nil || o.Rerun == nil {
		return nil, "Options.Sandbox or Options.Rerun is missing: there is no sandbox to run"
	}
	h := sandboxHook{o.Sandbox, o.Rerun}
	list := append(h.demands(), h.limits()...)
	list = append(list, h.unasked()...)
	return append(list, vectorsOf(3, func(t *trial, v fs.FS, name string) ([]byte, error) {
		return answerMeter(t.ctx, v, name, h.rerun)
	})...), ""
}

// driver loads a module.
func (h sandboxHook) driver(t *trial, wasm []byte, name string, g contracts.Sandbox) executor.Driver {
	d, err := h.load(wasm, name, g)
	t.must(err, "loading a module")
	return d
}

func boxed(tool string, d executor.Driver) helm.Intent {
	return helm.Intent{Tool: tool, Args: raw(`{}`), Session: "s", Caller: helm.Caller{ID: "ann"}, Driver: d}
}

// unbound binds no tool: each call brings its driver.
func unbound(w *world) { w.options.Drivers = nil }

// ranInside makes a call that must be allowed, with a receipt of its sandbox.
func ranInside(w *world, in helm.Intent) answer {
	a := w.guard(in)
	w.check(a.Err() == nil && a.Verdict == contracts.Allow, "%s (%s), want ALLOW", a.Reason, a.Why)
	w.wantReceipt(a, contracts.Executed)
	use := a.receipt.Record.Sandbox
	w.check(use != nil && use.Gas > 0 && use.Grants != nil, "the receipt has no sandbox, or no gas")
	return a
}

func (h sandboxHook) demands() (list []gateCase) {
	add := func(name string, do func(t *trial)) { list = append(list, gateCase{name, do}) }
	prints := module("random_get", "ii", []int64{at100, 8})
	for _, tool := range []string{"look", "put", "wipe"} {
		add("a floor that demands pure, "+tool, func(t *trial) {
			w := t.newWorld([]string{pureFloor, sandboxPolicy}, unbound)
			ran := false
			function := helm.Func(func(context.Context, json.RawMessage) (json.RawMessage, error) {
				ran = true
				return nil, nil
			})
			w.wantDenied(contracts.ReasonSandboxViolation, boxed(tool, function))
			t.check(!ran, "the function ran")
			for _, wider := range []contracts.Sandbox{{Clock: "real"}, {Random: "real"}, {Gas: 2e9}, {Memory: 1025}} {
				d := h.driver(t, prints, "wider", wider)
				w.wantDenied(contracts.ReasonSandboxViolation, boxed(tool, d))
			}
			ranInside(w, boxed(tool, h.driver(t, prints, contracts.ProfilePure, contracts.Sandbox{})))
			w.verified()
		})
	}
	add("a run again gives the receipt's output", func(t *trial) {
		w := t.newWorld([]string{sandboxPolicy}, unbound, func(w *world) { w.options.Keep.Modules = true })
		d := h.driver(t, prints, contracts.ProfilePure, contracts.Sandbox{})
		for range 3 {
			ranInside(w, boxed("look", d))
		}
		o := evidence.Options{Trust: w.initial(), Origin: origin, Rerun: h.rerun}
		report, err := w.verify(w.pack(), o)
		t.must(err, "running again")
		t.check(report.Rerun.Same == 3 && report.Rerun.Differing == 0, "of 3 runs %d gave the same", report.Rerun.Same)
		o.Rerun = func(ctx context.Context, r contracts.Rerunnable) (contracts.RerunResult, error) {
			result, err := h.rerun(ctx, r)
			result.Output = []byte("another")
			return result, err
		}
		report, err = w.verify(w.pack(), o)
		t.check(errors.Is(err, evidence.ErrRerun) && report.Level == evidence.Invalid, "another output is not found")
	})
	add("the same gas twice", func(t *trial) {
		w := t.newWorld([]string{sandboxPolicy}, unbound)
		d := h.driver(t, prints, contracts.ProfilePure, contracts.Sandbox{})
		first, again := ranInside(w, boxed("look", d)), ranInside(w, boxed("look", d))
		t.check(
			first.receipt.Record.Sandbox.Gas == again.receipt.Record.Sandbox.Gas,
			"two runs used two amounts of gas",
		)
		w.verified()
	})
	return list
}

func (h sandboxHook) limits() (list []gateCase) {
	prints := module("", "", nil)
	for _, x := range []struct {
		name   string
		wasm   []byte
		grants contracts.Sandbox
		reason contracts.ReasonCode
	}{
		{"gas", spins, contracts.Sandbox{Gas: 1_000_000}, contracts.ReasonGasExhausted},
		{"memory", grows, contracts.Sandbox{Memory: 4}, contracts.ReasonMemoryExhausted},
		{"output", prints, contracts.Sandbox{Output: 63}, contracts.ReasonOutputExhausted},
		{"time", spins, contracts.Sandbox{Gas: 1e12}, contracts.ReasonTimeExhausted},
	} {
		list = append(list, gateCase{x.name + " is stopped", func(t *trial) {
			var w *world
			var a answer
			// On a busy machine the guest may not hear in time that its time is over.
			for try := 0; try < 5 && (w == nil || a.Reason == contracts.ReasonToolTimeout); try++ {
				w = t.newWorld([]string{sandboxPolicy}, unbound)
				a = w.guard(boxed(either(x.name == "time", "hurry", "look"), h.driver(t, x.wasm, "box", x.grants)))
			}
			t.check(a.Reason == x.reason && a.Verdict == contracts.Deny, "%s (%s), want %s", a.Reason, a.Why, x.reason)
			t.check(errors.Is(a.Err(), helm.ErrWithheld) && a.receipt.Output == nil, "an output was released")
			outcome, _ := x.reason.Ending()
			w.wantReceipt(a, outcome)
			use := a.receipt.Record.Sandbox
			t.check(use != nil, "the receipt has no sandbox")
			t.check(use.Gas <= x.grants.Filled().Gas, "more gas than was granted")
			t.check(x.name != "gas" || use.Gas == x.grants.Gas, "not all gas was used")
			w.verified()
		}})
	}
	return list
}

// unasked are functions of a world that was not granted. A call returns an error, or what does not
// come from the host.
func (h sandboxHook) unasked() (list []gateCase) {
	add := func(name string, wasm []byte, holds func(t *trial, errno uint32, wrote []byte)) {
		list = append(list, gateCase{"unasked: " + name, func(t *trial) {
			w := t.newWorld([]string{sandboxPolicy}, unbound)
			d, err := h.load(wasm, contracts.ProfilePure, contracts.Sandbox{})
			if err != nil { // a module that could ask is not loaded
				t.check(holds == nil, "the module is not loaded: %v", err)
				return
			}
			out := ranInside(w, boxed("look", d)).receipt.Output
			t.check(len(out) == 64, "%d bytes of output, want 64", len(out))
			errno := binary.LittleEndian.Uint32(out)
			if holds == nil {
				t.check(errno != 0, "it succeeded")
			} else {
				holds(t, errno, out[at100-64:])
			}
			w.verified()
		}})
	}
	add("an open file", module("path_open", "iiiiiIIii", []int64{3, 0, 200, 1, 0, -1, -1, 0, at100}), nil)
	add("a directory", module("fd_prestat_get", "ii", []int64{3, at100}), nil)
	add("a file that is removed", module("path_unlink_file", "iii", []int64{3, 200, 1}), nil)
	add("the network: a connection", module("sock_accept", "iii", []int64{3, 0, at100}), nil)
	add("the network: sending", module("sock_send", "iiiii", []int64{3, 0, 0, 0, at100}), nil)
	add("a function that nobody knows", module("sock_connect", "iii", []int64{3, 0, at100}), nil)
	add("the environment", module("environ_sizes_get", "ii", []int64{at100, at100 + 4}),
		func(t *trial, errno uint32, wrote []byte) {
			t.check(errno == 0 && binary.LittleEndian.Uint64(wrote) == 0, "there is an environment")
		})
	add("the clock", module("clock_time_get", "iIi", []int64{0, 1, at100}),
		func(t *trial, errno uint32, wrote []byte) {
			at := time.Unix(0, int64(binary.LittleEndian.Uint64(wrote)))
			t.check(errno == 0 && at.Sub(noon).Abs() < 10*time.Second, "not the time of the decision")
		})
	add("random numbers", module("random_get", "ii", []int64{at100, 8}),
		func(t *trial, errno uint32, wrote []byte) { // that they are seeded is seen by running again
			t.check(errno == 0 && binary.LittleEndian.Uint64(wrote) != 0, "there are none")
		})
	return list
}
