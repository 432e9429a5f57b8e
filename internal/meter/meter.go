// Package meter rewrites a WebAssembly module so that it pays for what it does: section "Metering"
// of docs/SANDBOX.md is its specification, and Version names it.
//
// Call [Rewrite] with a module and the pages of memory that it is granted. What it returns counts
// gas in a global that the guest cannot name, asks an imported function of the host when the gas
// is used up, ends the guest that uses too much of the stack or of the memory, and computes the
// same bits on all machines. Instantiate it with [YieldModule] and [WASIModule], set [Args] and
// [Environ], and call its _start.
//
// Rewrite refuses, by name, what cannot be metered and what makes an engine work out of all
// proportion to the module's size; its errors are of the type [*Error]. It does not check types:
// let the engine validate the module as it was given too, since a rewriter may mend one that is
// invalid. Any bytes will do as input. Time and memory are linear in their number, and in the
// number of labels and locals that they declare, within the limits.
//
// The package knows the binary format, and no engine.
package meter

// Version is the version of the rules by which gas is counted. A change of what a guest is charged
// is a new version, since an auditor runs the module again.
const Version = 1

// The host's side of a module that was rewritten.
const (
	// Gas is an exported i64 that begins as 0: what the host has given, less what was charged.
	Gas = "helm.gas"
	// End is an exported i32: [EndStack] or [EndMemory] if the guest was ended by the code that was
	// added to it, which the engine reports as a trap; else 0.
	End = "helm.end"
	// Args is an exported i64 that the host sets: the bytes that args_get writes.
	Args = "helm.args"
	// Environ is an exported i64 that the host sets: the bytes that environ_get writes.
	Environ = "helm.environ"
	// YieldModule and YieldName name the import that is added, a function without parameters or
	// results. It is called when the gas is below zero. It adds to it, or ends the guest.
	YieldModule, YieldName = "helm", "yield"
	// WASIModule is the only module from which a guest may import.
	WASIModule = "wasi_snapshot_preview1"
)

// Why a guest was ended.
const (
	EndStack  = 1 // the functions that were running weighed too much
	EndMemory = 2 // the memory would have grown beyond what is granted
)

// Rewrite returns a module that does what the given one does, and pays for it. The guest may have
// as many pages of memory.
func Rewrite(given []byte, pages uint64) ([]byte, error) {
	m, err := decode(given)
	if err == nil {
		err = m.admit(pages)
	}
	if err != nil {
		return nil, err
	}
	out, err := m.rewrite(pages)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// rewrite rewrites a module that need not be one of WASI.
func (m *module) rewrite(pages uint64) ([]byte, *Error) {
	a := m.place(pages)
	code, err := m.code(a)
	if err != nil {
		return nil, err
	}
	out := m.encode(a, code)
	if len(out) > maxRewritten {
		return nil, refuse(Rewritten)
	}
	return out, nil
}

// code returns the code section's contents.
func (m *module) code(a *added) ([]byte, *Error) {
	own, led := uint32(len(m.funcs)), a.imports
	out := appendU32(nil, own+led+1)
	w := rewriter{module: m, added: a, globals: uint64(a.gas)}
	for i, body := range m.bodies {
		t := m.typeAt(m.funcs[i])
		if t == nil {
			return nil, refuse(Malformed)
		}
		var err *Error
		if out, err = w.body(out, body, t); err != nil {
			return nil, refuseAt(err.What, "function %d", led+uint32(i))
		}
		if len(out) > maxRewritten {
			return nil, refuse(Rewritten)
		}
	}
	c := &w.code
	index := uint32(0)
	for i := range m.imports {
		if imp := &m.imports[i]; imp.kind == kindFunction {
			t := m.typeAt(imp.function)
			if t == nil {
				return nil, refuse(Malformed)
			}
			c.b = c.b[:0]
			c.led(a, imp, t, index, len(m.memories) > 0)
			out = appendBytes(out, c.b)
			index++
		}
	}
	c.b = c.b[:0]
	c.entered(a)
	return appendBytes(out, c.b), nil
}
