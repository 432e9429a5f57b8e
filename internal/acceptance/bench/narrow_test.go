//go:build unix

package bench

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/stretchr/testify/require"
)

// thousand is a stack of 1,000 tools, each of its own input, in a version.
func thousand(b testing.TB, version int) *guardian.Policy {
	var tools, names []string
	for i := range 1000 {
		tools = append(tools,
			fmt.Sprintf(`"t%d":{"effect":"read","input":{"type":"object","required":["path"],"properties":`+
				`{"path":{"type":"string","maxLength":%d},"n":{"type":"number"}}}}`, i, 1000+i))
		names = append(names, fmt.Sprintf("%q", fmt.Sprint("t", i)))
	}
	return kerneltest.Compile(b,
		fmt.Sprintf(`{"helm":"policy/v1","layer":"P1","bundle":{"name":"many","version":%d},"tools":{%s},`+
			`"rules":[{"id":"all","allow":[%s]}]}`, version, strings.Join(tools, ","), strings.Join(names, ",")))
}

// task is the overlay of one of many tasks.
func task(b testing.TB, i int) contracts.Document {
	return kerneltest.Document(b,
		fmt.Sprintf(`{"helm":"policy/v1","layer":"P2","name":"task-%d","for":{"session":"chat-%d"},`+
			`"only":["t1","t2"],"expires":"2099-01-01T00:00:00Z","rules":[{"id":"where","deny":"t1","unless":`+
			`{"arg":"/path","eq":"/srv/%d"}}],"budgets":[{"id":"once","tools":"t1","limit":3,"per":"session","window":"total","cost":1}]}`,
			i, i, i))
}

// BenchmarkNarrow narrows a kernel with 1,000 tools, for a task each, over a store in memory. An
// entry with two signatures is signed each time.
func BenchmarkNarrow(b *testing.B) {
	k, err := helm.New(helm.Options{Policy: thousand(b, 1), Key: kerneltest.SeedKey(b, 1),
		Store: proofgraph.NewMemory()})
	require.NoError(b, err)
	defer k.Close()
	tasks := make([]contracts.Document, 0, 4096)
	ratio(b, func() {
		if len(tasks) == 0 {
			b.StopTimer()
			for i := range cap(tasks) {
				tasks = append(tasks, task(b, b.N+i))
			}
			b.StartTimer()
		}
		n, err := k.Narrow(tasks[len(tasks)-1])
		if err != nil {
			b.Fatal(err)
		}
		tasks = tasks[:len(tasks)-1]
		if err := n.Close(); err != nil {
			b.Fatal(err)
		}
	})
}

// BenchmarkSwapNarrowed swaps the policy of a kernel with 1,000 tools, of which 1,000 tasks have
// one that is narrowed. Each of their policies has an entry.
func BenchmarkSwapNarrowed(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	k, err := helm.New(helm.Options{Policy: thousand(b, 1), Key: kerneltest.SeedKey(b, 1),
		Store: proofgraph.NewMemory()})
	require.NoError(b, err)
	defer k.Close()
	for i := range 1000 {
		_, err := k.Narrow(task(b, i))
		require.NoError(b, err)
	}
	least := time.Duration(1 << 62)
	for version := 2; b.Loop(); version++ {
		b.StopTimer()
		next := thousand(b, version)
		b.StartTimer()
		from := time.Now()
		if err := k.Swap(b.Context(), next); err != nil {
			b.Fatal(err)
		}
		least = min(least, time.Since(from))
	}
	b.ReportMetric(least.Seconds()*1e3, "min-ms/swap")
}
