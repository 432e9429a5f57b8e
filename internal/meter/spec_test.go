package meter

import (
	"crypto/sha256"
	"flag"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"

	"github.com/helmkernel/helm/internal/race"
)

// specModules is how many valid modules without SIMD the engine's specification tests have at
// least.
const specModules = 1902

// engineDir returns where the engine's source is: its specification tests are in its module.
var engineDir = sync.OnceValue(func() string {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/tetratelabs/wazero").Output()
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(out))
})

// specification returns the modules of the engine's specification tests, by file.
func specification() (map[string][]byte, error) {
	all := map[string][]byte{}
	for _, version := range []string{"v1", "v2"} {
		files, err := filepath.Glob(filepath.Join(engineDir(), "internal", "integration_test", "spectest", version, "testdata", "*.wasm"))
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			if strings.HasPrefix(filepath.Base(f), "simd_") {
				continue
			}
			if all[version+"/"+filepath.Base(f)], err = os.ReadFile(f); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// TestSpecification checks the promises on all modules of the engine's specification tests.
func TestSpecification(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	files, err := specification()
	require.NoError(t, err)
	all := newTrial(t, wazero.NewRuntimeConfigInterpreter())
	type result struct {
		valid bool
		calls int
	}
	seen := map[[32]byte]result{}
	valid, ran, calls := 0, 0, 0
	for i, name := range slices.Sorted(maps.Keys(files)) {
		if testing.Short() && i%10 != 0 {
			continue
		}
		sum := sha256.Sum256(files[name])
		r, ok := seen[sum]
		if !ok {
			t.Run(name, func(t *testing.T) { r.valid, r.calls = all.same(t, files[name]) })
			seen[sum] = r
		}
		if r.valid {
			valid++
		}
		if r.calls > 0 {
			ran++
		}
		calls += r.calls
	}
	t.Logf("%d files, %d of them valid, %d with calls, %d calls compared", len(files), valid, ran, calls)
	if testing.Short() {
		assert.Greater(t, valid, specModules/20, "or the tests of the engine were not found")
		return
	}
	assert.GreaterOrEqual(t, valid, specModules, "or the tests of the engine were not found")
	assert.Greater(t, calls, 10_000)
	assert.Positive(t, all.apart, "the tests compute bits of NaNs")
	assert.Less(t, all.apart, 20)
}

// FuzzRewrite checks the promises on any bytes. Its seeds are the modules of the specification
// tests, which TestSpecification runs when nobody fuzzes.
func FuzzRewrite(f *testing.F) {
	f.Add(everything().bytes())
	if flag.Lookup("test.fuzz").Value.String() != "" {
		files, err := specification()
		require.NoError(f, err)
		require.GreaterOrEqual(f, len(files), specModules, "or there is nothing to begin with")
		for _, b := range files {
			f.Add(b)
		}
	}
	all := newTrial(f, wazero.NewRuntimeConfigInterpreter())
	all.most = 8
	f.Fuzz(func(t *testing.T, b []byte) {
		all.same(t, b)
		if out, err := Rewrite(b, 16); (out == nil) != (err != nil) {
			t.Fatal("neither a module nor an error, or both")
		}
	})
}
