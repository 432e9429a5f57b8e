package meter

import (
	"slices"
	"strings"
)

// admit refuses a module that is no guest: one that wants other things of the host than WASI, or
// has not the two exports that WASI asks for.
func (m *module) admit(pages uint64) *Error {
	for i := range m.imports {
		if err := m.admitImport(&m.imports[i]); err != nil {
			return err
		}
	}
	if m.start != nil {
		return refuse(Start)
	}
	for i := range m.tables {
		l := &m.tables[i].limits
		if l.min > maxTable {
			return refuseAt(TableSize, "table %d", i)
		}
		if !l.bounded || l.max > maxTable {
			l.max, l.bounded = maxTable, true
		}
	}
	for _, l := range m.memories {
		if uint64(l.min) > pages {
			return refuse(MemorySize)
		}
	}
	return m.admitExports()
}

func (m *module) admitImport(i *imported) *Error {
	f, ok := functions[string(i.name)]
	switch {
	case i.kind != kindFunction || string(i.module) != WASIModule || !ok:
		return refuseAt(Import, "import %.64q %.64q", i.module, i.name)
	case !m.typeAt(i.function).is(f.params(), f.results(string(i.name))):
		return refuseAt(ImportType, "import %.64q", i.name)
	}
	return nil
}

func (m *module) admitExports() *Error {
	var start, memory bool
	for _, e := range m.exports {
		switch name := string(e.name); {
		case strings.HasPrefix(name, "helm."):
			return refuseAt(ExportName, "export %.64q", name)
		case name == "_start":
			start = e.kind == kindFunction && m.function(e.index).is(nil, nil)
		case name == "memory":
			memory = e.kind == kindMemory
		}
	}
	switch {
	case !start:
		return refuse(NoStart)
	case !memory:
		return refuse(NoMemory)
	}
	return nil
}

// is reports whether a type is there and is this one.
func (t *funcType) is(params, results []byte) bool {
	return t != nil && slices.Equal(t.params, params) && slices.Equal(t.results, results)
}
