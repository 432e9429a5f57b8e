package sandbox

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"

	"github.com/helmkernel/helm/internal/vectorfile"
)

var update = flag.Bool("update", false, "rewrite the vectors of modules in package conformance")

// TestVectorMeter keeps the folder meter of the vectors of package conformance: what modules
// printed, their gas and their reason, of which compiler and interpreter must say the same.
func TestVectorMeter(t *testing.T) {
	t.Parallel()
	made, err := newRuntime(Options{}, wazero.NewRuntimeConfigInterpreter(), 1_000_000)
	require.NoError(t, err)
	fast, slow := newRoom(t), &room{T: t, Runtime: made}
	guests := same()
	var cases []vectorfile.Case
	for _, name := range slices.Sorted(maps.Keys(guests)) {
		g := guests[name]
		got := fast.runs(g.wasm, g.grants)
		assert.Equal(t, got, slow.runs(g.wasm, g.grants), name)
		f := g.grants.Filled()
		call, err := json.Marshal(map[string]any{
			"decision": theDecision, "meter": 1, "time": theTime.String(), "tool": "tool",
			"grants": map[string]any{"args": append([]string{}, f.Args...), "clock": f.Clock, "env": append([]string{}, f.Env...), "gas": f.Gas, "memory": f.Memory,
				"output": f.Output, "random": f.Random, "files": map[string]string{}},
		})
		require.NoError(t, err)
		cases = append(cases, vectorfile.Case{About: "a guest that " + name, Files: map[string][]byte{
			"module.wasm": g.wasm, "args": []byte("{}"), "call.json": append(call, '\n'),
			vectorfile.Want: fmt.Appendf(nil, `{"gas":%d,"output":"%s","reason":"%s"}`+"\n", got.gas,
				base64.StdEncoding.EncodeToString([]byte(got.output)), got.reason),
		}})
	}
	require.NoError(t, made.Close(context.Background()))
	vectorfile.Keep(t, "../conformance/vectors/meter", cases, *update)
}
