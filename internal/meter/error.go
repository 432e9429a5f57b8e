package meter

import "fmt"

// What a module is refused for.
const (
	SIMD              = "SIMD"
	Threads           = "threads"
	TailCalls         = "tail calls"
	Exceptions        = "exceptions"
	TypedReferences   = "typed references"
	ExtendedConstants = "extended constants"
	Memory64          = "memory64"
	Memories          = "more than one memory"

	Import      = "import outside wasi_snapshot_preview1"
	ImportType  = "import of another type than WASI's"
	Start       = "a start section"
	NoStart     = "no export _start, a function () -> ()"
	NoMemory    = "no export memory"
	ExportName  = "export that begins with helm."
	Size        = "over 32 MiB"
	Rewritten   = "over 128 MiB when metered"
	Count       = "over 100,000 functions, types, exports or segments"
	Elements    = "over 1,000,000 elements in segments"
	Locals      = "over 2,000 parameters and locals"
	Nesting     = "over 4,096 nested constructs"
	Labels      = "over 65,536 labels of one br_table"
	Globals     = "over 10,000 globals"
	Tables      = "over 8 tables"
	Product     = "locals x constructs over 250,000"
	Products    = "locals x constructs of all functions over 8,000,000"
	Constructs  = "constructs and 4 x loops of a function over 10,000"
	Squares     = "their squares, of all functions, over 1,000,000,000"
	Values      = "over 250,000 values passed, or globals x calls, in a function"
	AllValues   = "over 32,000,000 of them in all functions"
	TableSize   = "a table of over 65,536 elements at first"
	MemorySize  = "a memory larger at first than is granted"
	Malformed   = "not a module in the binary format"
	Instruction = "unknown instruction"
)

// Error says why a module is refused.
type Error struct {
	What  string // a constant of this package
	Where string // "function 17" or the like; empty for the module as a whole
}

func (e *Error) Error() string {
	if e.Where == "" {
		return "meter: " + e.What
	}
	return "meter: " + e.Where + ": " + e.What
}

func refuse(what string) *Error { return &Error{What: what} }

func refuseAt(what, format string, args ...any) *Error {
	return &Error{What: what, Where: fmt.Sprintf(format, args...)}
}
