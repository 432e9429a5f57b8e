package sandbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/tetratelabs/wazero"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/contain"
	"github.com/helmkernel/helm/internal/meter"
)

// A cache holds compiled modules, in memory: a process that could write to a cache on disk would
// run code of its own in this one. Modules that were loaded stay. Of those that were only run again
// for an auditor, the last few stay.
type cache struct {
	engine wazero.Runtime

	mu    sync.Mutex // protects the rest
	codes map[codeKey]*code
	turn  uint64
}

// A codeKey names compiled code: the meter is this library's, and the most memory is in the code.
type codeKey struct {
	module contracts.Digest
	memory uint64 // pages
}

// maxReruns is how many modules stay that were not loaded.
const maxReruns = 8

// A code is a module that is compiled once.
type code struct {
	once     sync.Once
	compiled wazero.CompiledModule
	err      error

	// Protected by the cache's lock.
	loaded bool
	users  int
	used   uint64 // the last turn
}

// errOther is of bytes that are another module than they are said to be.
var errOther = errors.New("sandbox: bytes of another module")

// get returns the code of a module, which the caller returns by put unless it is to stay. It looks
// at the bytes only if they must be compiled: to hash a large module takes as long as to run it.
func (c *cache) get(module contracts.Digest, bytes []byte, memory uint64, stay bool) (*code, error) {
	key := codeKey{module, memory}
	c.mu.Lock()
	if c.codes == nil {
		c.codes = map[codeKey]*code{}
	}
	found := c.codes[key]
	if found == nil {
		found = new(code)
		c.codes[key] = found
	}
	found.loaded = found.loaded || stay
	found.users++
	c.turn++
	found.used = c.turn
	c.mu.Unlock()
	found.once.Do(func() {
		if found.err = errOther; crypto.Sum(bytes) == module {
			found.compiled, found.err = compile(c.engine, bytes, memory)
		}
	})
	if found.err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.codes[key] == found {
			delete(c.codes, key) // another try may find more memory
		}
		return nil, found.err
	}
	return found, nil
}

// put returns code to the cache, and frees what is too much.
func (c *cache) put(used *code) {
	c.mu.Lock()
	defer c.mu.Unlock()
	used.users--
	var oldest *code
	var oldestKey codeKey
	reruns := 0
	for key, other := range c.codes {
		if other.loaded {
			continue
		}
		if reruns++; other.users == 0 && (oldest == nil || other.used < oldest.used) {
			oldest, oldestKey = other, key
		}
	}
	if reruns > maxReruns && oldest != nil {
		delete(c.codes, oldestKey)
		oldest.compiled.Close(context.Background())
	}
}

// compile rewrites a module and compiles it. The limits of the meter are first: without them, few
// bytes make a validator or a compiler work for minutes. The engine then validates the module as it
// was given, because a rewriter mends some that are invalid.
func compile(engine wazero.Runtime, module []byte, memory uint64) (compiled wazero.CompiledModule, err error) {
	defer contain.Error(&err, "sandbox: the engine")
	metered, err := meter.Rewrite(module, memory)
	if err != nil {
		return nil, fmt.Errorf("sandbox: the module is refused: %w", err)
	}
	ctx := context.Background()
	validator := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter().WithCoreFeatures(features))
	defer validator.Close(ctx)
	if _, err := validator.CompileModule(ctx, module); err != nil {
		return nil, errors.New("sandbox: the module is invalid: " + firstLine(err))
	}
	if compiled, err = engine.CompileModule(ctx, metered); err != nil {
		return nil, errors.New("sandbox: the metered module is invalid: " + firstLine(err))
	}
	return compiled, nil
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
