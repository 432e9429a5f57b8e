package meter

// encode writes the module with what is added to it. Custom sections are left out: what they say of
// functions and addresses is no longer so.
func (m *module) encode(a *added, code []byte) []byte {
	out := make([]byte, 0, len(code)+len(m.data)+1<<16)
	out = append(out, preamble...)
	out = section(out, sectionType, m.encodeTypes(a))
	out = section(out, sectionImport, m.encodeImports(a))
	out = section(out, sectionFunction, m.encodeFunctions(a))
	if len(m.tables) > 0 {
		out = section(out, sectionTable, vector(nil, m.tables, appendTable))
	}
	if len(m.memories) > 0 {
		out = section(out, sectionMemory, vector(nil, m.memories, appendLimits))
	}
	out = section(out, sectionGlobal, m.encodeGlobals(a))
	out = section(out, sectionExport, m.encodeExports(a))
	if m.start != nil {
		out = section(out, sectionStart, appendU32(nil, a.function(*m.start)))
	}
	if len(m.elements) > 0 {
		out = section(out, sectionElement, m.encodeElements(a))
	}
	if m.counted {
		out = section(out, sectionCount, appendU32(nil, m.dataCount))
	}
	out = section(out, sectionCode, code)
	if m.data != nil {
		out = section(out, sectionData, m.data)
	}
	return out
}

func section(out []byte, id byte, contents []byte) []byte {
	return appendBytes(append(out, id), contents)
}

// vector appends a vector.
func vector[T any](b []byte, all []T, add func([]byte, *T) []byte) []byte {
	b = appendU32(b, uint32(len(all)))
	for i := range all {
		b = add(b, &all[i])
	}
	return b
}

func (m *module) encodeTypes(a *added) []byte {
	return vector(nil, a.types.all, func(b []byte, t *funcType) []byte {
		return appendBytes(appendBytes(append(b, 0x60), t.params), t.results)
	})
}

func (m *module) encodeImports(a *added) []byte {
	// The order of functions decides their indices. So the one that is added is the last.
	all := append(m.imports[:len(m.imports):len(m.imports)], imported{
		module: []byte(YieldModule), name: []byte(YieldName), kind: kindFunction, function: a.nothing,
	})
	return vector(nil, all, func(b []byte, i *imported) []byte {
		b = append(appendBytes(appendBytes(b, i.module), i.name), i.kind)
		switch i.kind {
		case kindFunction:
			b = appendU32(b, i.function)
		case kindTable:
			b = appendTable(b, &i.table)
		case kindMemory:
			b = appendLimits(b, &i.memory)
		case kindGlobal:
			b = appendGlobalType(b, &i.global)
		}
		return b
	})
}

func (m *module) encodeFunctions(a *added) []byte {
	all := m.funcs[:len(m.funcs):len(m.funcs)]
	for i := range m.imports {
		if m.imports[i].kind == kindFunction {
			all = append(all, m.imports[i].function)
		}
	}
	all = append(all, a.nothing)
	return vector(nil, all, func(b []byte, t *uint32) []byte { return appendU32(b, *t) })
}

func appendTable(b []byte, t *table) []byte { return appendLimits(append(b, t.element), &t.limits) }

func appendLimits(b []byte, l *limits) []byte {
	if !l.bounded {
		return appendU32(append(b, 0), l.min)
	}
	return appendU32(appendU32(append(b, 1), l.min), l.max)
}

func appendGlobalType(b []byte, g *global) []byte {
	if g.mutable {
		return append(b, g.value, 1)
	}
	return append(b, g.value, 0)
}

func (m *module) encodeGlobals(a *added) []byte {
	i64 := func(v int64) global {
		return global{typeI64, true, constant{code: appendSigned([]byte{opI64Const}, v)}}
	}
	all := append(m.globals[:len(m.globals):len(m.globals)], // gas, end, args, environ, stack
		i64(0), global{typeI32, true, constant{code: []byte{opI32Const, 0}}}, i64(0), i64(0), i64(maxStack))
	return vector(nil, all, func(b []byte, g *global) []byte {
		return a.constant(appendGlobalType(b, g), &g.init)
	})
}

// constant appends an expression. A function in it moves.
func (a *added) constant(b []byte, c *constant) []byte {
	if c.code != nil {
		return append(append(b, c.code...), opEnd)
	}
	return append(appendU32(append(b, opRefFunc), a.function(c.index)), opEnd)
}

func (m *module) encodeExports(a *added) []byte {
	all := append(m.exports[:len(m.exports):len(m.exports)],
		export{[]byte(Gas), kindGlobal, a.gas}, export{[]byte(End), kindGlobal, a.end},
		export{[]byte(Args), kindGlobal, a.args}, export{[]byte(Environ), kindGlobal, a.environ})
	return vector(nil, all, func(b []byte, e *export) []byte {
		index := e.index
		if e.kind == kindFunction {
			index = a.function(index)
		}
		return appendU32(append(appendBytes(b, e.name), e.kind), index)
	})
}

func (m *module) encodeElements(a *added) []byte {
	return vector(nil, m.elements, func(b []byte, s *segment) []byte {
		b = appendU32(b, s.form)
		if s.form&3 == 2 {
			b = appendU32(b, s.table)
		}
		if s.form&1 == 0 {
			b = a.constant(b, &s.offset)
		}
		if s.form&3 != 0 {
			b = append(b, s.kind)
		}
		if s.form&4 != 0 {
			return vector(b, s.exprs, a.constant)
		}
		return vector(b, s.indices, func(b []byte, f *uint32) []byte { return appendU32(b, a.function(*f)) })
	})
}
