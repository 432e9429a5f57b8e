package meter

import (
	"slices"
	"strings"
)

// Function is a function of WASI that a module may import.
type Function struct {
	Name            string
	Params, Results []byte // value types, as in the binary format
	Gas             uint64 // what a call of it costs, without the bytes that its arguments name
}

// Functions returns the functions of wasi_snapshot_preview1, sorted by name.
func Functions() []Function {
	all := make([]Function, 0, len(functions))
	for name, f := range functions {
		all = append(all, Function{Name: name, Params: f.params(), Results: f.results(name), Gas: uint64(f.cost(name))})
	}
	slices.SortFunc(all, func(a, b Function) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// A wasiFunction is a type, and which parameters name how much. A digit of types is the width of a
// parameter: 4 or 8 bytes. All but proc_exit return an i32.
type wasiFunction struct {
	types         string
	bytes         []uint32 // parameters that are the length of a buffer or a path
	vectors       int      // the parameter that is a list of vectors; the next is its length
	subscriptions int      // the parameter that is a number of subscriptions
	block         int      // what it writes: 1 the arguments, 2 the environment
}

var functions = map[string]wasiFunction{
	"args_get":                {types: "44", block: blockArgs},
	"args_sizes_get":          {types: "44"},
	"clock_res_get":           {types: "44"},
	"clock_time_get":          {types: "484"},
	"environ_get":             {types: "44", block: blockEnviron},
	"environ_sizes_get":       {types: "44"},
	"fd_advise":               {types: "4884"},
	"fd_allocate":             {types: "488"},
	"fd_close":                {types: "4"},
	"fd_datasync":             {types: "4"},
	"fd_fdstat_get":           {types: "44"},
	"fd_fdstat_set_flags":     {types: "44"},
	"fd_fdstat_set_rights":    {types: "488"},
	"fd_filestat_get":         {types: "44"},
	"fd_filestat_set_size":    {types: "48"},
	"fd_filestat_set_times":   {types: "4884"},
	"fd_pread":                {types: "44484", vectors: 1},
	"fd_prestat_dir_name":     {types: "444", bytes: []uint32{2}},
	"fd_prestat_get":          {types: "44"},
	"fd_pwrite":               {types: "44484", vectors: 1},
	"fd_read":                 {types: "4444", vectors: 1},
	"fd_readdir":              {types: "44484", bytes: []uint32{2}},
	"fd_renumber":             {types: "44"},
	"fd_seek":                 {types: "4844"},
	"fd_sync":                 {types: "4"},
	"fd_tell":                 {types: "44"},
	"fd_write":                {types: "4444", vectors: 1},
	"path_create_directory":   {types: "444", bytes: []uint32{2}},
	"path_filestat_get":       {types: "44444", bytes: []uint32{3}},
	"path_filestat_set_times": {types: "4444884", bytes: []uint32{3}},
	"path_link":               {types: "4444444", bytes: []uint32{3, 6}},
	"path_open":               {types: "444448844", bytes: []uint32{3}},
	"path_readlink":           {types: "444444", bytes: []uint32{2, 4}},
	"path_remove_directory":   {types: "444", bytes: []uint32{2}},
	"path_rename":             {types: "444444", bytes: []uint32{2, 5}},
	"path_symlink":            {types: "44444", bytes: []uint32{1, 4}},
	"path_unlink_file":        {types: "444", bytes: []uint32{2}},
	"poll_oneoff":             {types: "4444", subscriptions: 2},
	"proc_exit":               {types: "4"},
	"proc_raise":              {types: "4"},
	"random_get":              {types: "44", bytes: []uint32{1}},
	"sched_yield":             {types: ""},
	"sock_accept":             {types: "444"},
	"sock_recv":               {types: "444444", vectors: 1},
	"sock_send":               {types: "44444", vectors: 1},
	"sock_shutdown":           {types: "44"},
}

const (
	blockArgs    = 1
	blockEnviron = 2
)

func (f wasiFunction) params() []byte {
	types := make([]byte, len(f.types))
	for i := range types {
		if types[i] = typeI32; f.types[i] == '8' {
			types[i] = typeI64
		}
	}
	return types
}

func (wasiFunction) results(name string) []byte {
	if name == "proc_exit" {
		return nil
	}
	return []byte{typeI32}
}

func (wasiFunction) cost(name string) int64 {
	if strings.HasPrefix(name, "path_") {
		return costPath
	}
	return costWASI
}

// led writes the body of the function that stands for an import: it charges, checks and calls.
func (c *code) led(a *added, i *imported, t *funcType, index uint32, memory bool) {
	var f wasiFunction
	if string(i.module) == WASIModule {
		f = functions[string(i.name)]
	}
	params := uint32(len(t.params))
	lists := f.vectors > 0 && memory
	if lists {
		c.put(1, 2, typeI64) // two locals: the place of the walk, and its end
	} else {
		c.put(0)
	}
	c.index(opGlobalGet, a.gas)
	c.i64(f.cost(string(i.name)))
	c.put(opI64Sub)
	for _, p := range f.bytes {
		c.less(p, 1)
	}
	switch {
	case f.vectors > 0:
		c.less(uint32(f.vectors+1), costVector)
	case f.subscriptions > 0:
		c.less(uint32(f.subscriptions), costSubscr)
	case f.block == blockArgs:
		c.index(opGlobalGet, a.args)
		c.put(opI64Sub)
	case f.block == blockEnviron:
		c.index(opGlobalGet, a.environ)
		c.put(opI64Sub)
	}
	c.index(opGlobalSet, a.gas)
	c.check(a)
	if lists {
		c.walk(a, uint32(f.vectors), params)
		c.check(a)
	}
	for p := range params {
		c.index(opLocalGet, p)
	}
	c.index(opCall, index)
	c.put(opEnd)
}

// less subtracts an i32 parameter, unsigned, times a price.
func (c *code) less(param uint32, price int64) {
	c.index(opLocalGet, param)
	c.put(opI64ExtendU)
	if price > 1 {
		c.i64(price)
		c.put(opI64Mul)
	}
	c.put(opI64Sub)
}

// walk charges for the length of each vector of a list, unless the list is not within the memory:
// then the host will say so. Lengths have 32 bits and a list fewer than 2^29 of them, so 64 hold
// all.
func (c *code) walk(a *added, list, at uint32) {
	end := at + 1
	c.put(opBlock, noType)
	c.index(opLocalGet, list)
	c.put(opI64ExtendU)
	c.index(opLocalTee, at)
	c.index(opLocalGet, list+1)
	c.put(opI64ExtendU)
	c.i64(3)
	c.put(opI64Shl, opI64Add)
	c.index(opLocalTee, end)
	c.put(opMemorySize, 0, opI64ExtendU)
	c.i64(16)
	c.put(opI64Shl, opI64GtU)
	c.index(opBrIf, 0)
	c.put(opLoop, noType)
	c.index(opLocalGet, at)
	c.index(opLocalGet, end)
	c.put(opI64GeU)
	c.index(opBrIf, 1)
	c.index(opGlobalGet, a.gas)
	c.index(opLocalGet, at)
	c.put(opI32WrapI64, opI64Load32U, 0, 4) // of a vector's two words the second
	c.put(opI64Sub)
	c.index(opGlobalSet, a.gas)
	c.index(opLocalGet, at)
	c.i64(8)
	c.put(opI64Add)
	c.index(opLocalSet, at)
	c.index(opBr, 0)
	c.put(opEnd, opEnd)
}
