package meter

// Limits of a module as given. Compiling what is beyond them costs out of all proportion to the
// module's size: 2^27 locals are seven bytes of code and 3.8 GiB of the compiler's memory; 8,000
// loops one after the other take it 2 s, and twice as many four times as long; after each call it
// loads each global, so 10,000 of both are 24 GiB.
const (
	maxSize      = 32 << 20 // bytes
	maxCount     = 100_000  // functions with the imported ones; types; exports; segments
	maxElements  = 1_000_000
	maxGlobals   = 10_000
	maxTables    = 8
	maxTable     = 65_536 // elements
	maxLocals    = 2_000  // with the parameters
	maxNesting   = 4_096
	maxLabels    = 65_536
	maxProduct   = 250_000
	maxProducts  = 8_000_000
	maxConstruct = 10_000 // of a function, a loop counting as five
	maxSquares   = 1_000_000_000
	maxValues    = 250_000 // of a function: passed by blocks, branches and calls; and globals x calls
	maxAllValues = 32_000_000
	maxRewritten = 128 << 20 // bytes: loops grow twentyfold, and nothing but loops is no tool
)

// Limits at run time.
const (
	maxStack = 4_194_304 // sum of the weights of the functions that are running
	maxPages = 65_536    // of a memory, by the format
)
