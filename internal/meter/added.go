package meter

// added says where what is added stands, and how what was given moves. Imports stay where they are;
// the import that is added follows them, then the module's own functions, one place on; then one
// function for each import, to which calls, elements, exports and ref.func lead in its place; then
// the one that checks at entries. Globals are added after all others.
type added struct {
	imports  uint32 // functions that the module imports
	own      uint32
	yield    uint32 // functions
	enter    uint32
	nothing  uint32 // the type of both
	gas, end uint32 // globals
	args     uint32
	environ  uint32
	stack    uint32
	pages    int64
	types    *types
}

// types is the module's function types and those that are added.
type types struct {
	all   []funcType
	added map[string]uint32
}

// index returns the index of a type, which it adds the first time.
func (t *types) index(params, results []byte) uint32 {
	key := string(params) + ">" + string(results)
	i, ok := t.added[key]
	if !ok {
		i = uint32(len(t.all))
		t.all = append(t.all, funcType{params, results})
		t.added[key] = i
	}
	return i
}

// place decides where everything stands.
func (m *module) place(pages uint64) *added {
	imports, own := m.imported(kindFunction), uint32(len(m.funcs))
	a := &added{
		imports: imports, own: own, yield: imports, enter: imports + 1 + own + imports,
		pages: int64(min(pages, maxPages)),
		types: &types{m.types[:len(m.types):len(m.types)], map[string]uint32{}},
	}
	a.nothing = a.types.index(nil, nil)
	a.gas = m.imported(kindGlobal) + uint32(len(m.globals))
	a.end, a.args, a.environ, a.stack = a.gas+1, a.gas+2, a.gas+3, a.gas+4
	return a
}

// function returns where a function stands. An index that names none stays one that names none.
func (a *added) function(given uint32) uint32 {
	switch {
	case given < a.imports:
		return a.imports + 1 + a.own + given
	case given-a.imports < a.own:
		return given + 1
	}
	return ^uint32(0)
}

// entered writes the body of the function that is called at the entry of another if the gas or the
// stack is below zero.
func (c *code) entered(a *added) {
	c.put(0)
	c.index(opGlobalGet, a.stack)
	c.i64(0)
	c.put(opI64LtS, opIf, noType)
	c.end(a, EndStack)
	c.put(opEnd)
	c.check(a)
	c.put(opEnd)
}
