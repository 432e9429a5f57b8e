package evidence

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence/internal/forge"
	"github.com/helmkernel/helm/receipts"
)

// manyTools is a bundle of that many tools, each of its own input, and one that writes.
func manyTools(n int) string {
	var tools []string
	for i := range n {
		tools = append(tools, fmt.Sprintf(`"t%05d":{"effect":"read","input":{"properties":{"n":{"maximum":%d,`+
			`"type":"integer"},"path":{"type":"string"}},"type":"object"}}`, i, i))
	}
	return `{"bundle":{"name":"many","version":1},"helm":"policy/v1","layer":"P1","rules":[{"allow":"edit",` +
		`"id":"all","when":{"caller":"roles","has":"writer"}}],"tools":{"edit":{"effect":"write","input":{"properties":` +
		`{"path":{"type":"string"},"text":{"type":"string"}},"required":["path","text"],"type":"object"}},` +
		strings.Join(tools, ",") + `}}`
}

// taskOverlay is an overlay for the call of that number.
func taskOverlay(i int) string {
	return fmt.Sprintf(`{"for":{"session":"chat-%d"},"helm":"policy/v1","layer":"P2","name":"task-%d","only":["edit"],`+
		`"rules":[{"deny":"edit","id":"where","unless":{"arg":"/path","eq":"/srv/work/%d"}}]}`, i%64, i, i)
}

// narrowedLog is a log of so many calls over a stack of so many tools, each under an overlay of its
// own, or none.
func narrowedLog(t testing.TB, calls, tools int, overlays bool) *forge.Maker {
	m := forge.NewMaker(t)
	m.Use(manyTools(tools))
	base := m.Policy()
	text := strings.Repeat(`if err != nil {\n\treturn err\n}\n`, 24)
	for i := range calls {
		if overlays {
			m.Judge(base)
			m.Narrow(taskOverlay(i))
		}
		m.Allowed(forge.Ask{Session: fmt.Sprint("chat-", i%64), Tool: "edit",
			Args: fmt.Sprintf(`{"path":"/srv/work/%d","text":"%s"}`, i, text), Who: forge.Writer}).
			End(receipts.Result{Reason: contracts.ReasonAllow, Output: []byte("null"), Form: "jcs"}, false)
	}
	m.Checkpoint()
	return m
}

// Policies that differ by their overlays share the rest, which is held, and counts, once. No more
// are held than may be.
func TestSharedStacks(t *testing.T) {
	t.Parallel()
	m := narrowedLog(t, 150, 20, true)
	pack := m.Pack(Write)
	v := newVerifier(t.Context(), Options{Trust: m.Trust})
	require.NoError(t, v.inPack(bytes.NewReader(pack), int64(len(pack))))
	r := &v.replay
	assert.Equal(t, uint64(150), r.report.Replayed)
	assert.Len(t, r.stacks, maxStacks)
	size := 0
	for _, x := range r.stacks {
		assert.Same(t, r.stacks[0].base, x.base)
		size += x.bytes
	}
	assert.Equal(t, maxStacks, r.stacks[0].base.held)
	assert.Equal(t, len(manyTools(20)), r.stacks[0].base.bytes)
	assert.Equal(t, size+r.stacks[0].base.bytes, r.stackBytes)
	for len(r.stacks) > 0 {
		r.dropFirst()
	}
	assert.Zero(t, r.stackBytes)

	size64, err := m.Store.Size(t.Context())
	require.NoError(t, err)
	for _, report := range []func() (Report, error){
		func() (Report, error) { return VerifyStore(t.Context(), m.Store, Options{Trust: m.Trust}) },
		func() (Report, error) { return verifyBytes(t, pack, Options{Trust: m.Trust}) },
	} {
		r, err := report()
		require.NoError(t, err)
		assert.True(t, r.Success(Logged) && r.Replay.Replayed == 150 && r.Size == size64, "%+v", r.Replay)
	}
}

// Two floors in turn, each under overlays: what is shared is counted once for each, and forgotten
// with the last policy that shares it.
func TestSharedStacksInTurn(t *testing.T) {
	t.Parallel()
	m := forge.NewMaker(t)
	for i := range 2*maxStacks + 10 {
		if i%40 == 0 {
			m.Use(manyTools(10 + i/40))
		}
		base := m.Policy()
		m.Narrow(taskOverlay(i))
		m.Allowed(forge.Ask{Session: fmt.Sprint("chat-", i%64), Tool: "edit",
			Args: fmt.Sprintf(`{"path":"/srv/work/%d","text":""}`, i), Who: forge.Writer})
		m.Judge(base)
	}
	m.Checkpoint()
	pack := m.Pack(Write)
	v := newVerifier(t.Context(), Options{Trust: m.Trust})
	require.NoError(t, v.inPack(bytes.NewReader(pack), int64(len(pack))))
	r, seen, size := &v.replay, map[*base]int{}, 0
	for _, x := range r.stacks {
		if seen[x.base] == 0 {
			size += x.base.bytes
		}
		seen[x.base]++
		size += x.bytes
	}
	assert.Equal(t, size, r.stackBytes)
	assert.Len(t, seen, 3)
	for b, n := range seen {
		assert.Equal(t, n, b.held)
	}
}

// A stack may load for what an overlay says that was compiled with the rest: its log verifies.
func TestVerifyCompiledWithOverlay(t *testing.T) {
	t.Parallel()
	m := forge.NewMaker(t)
	m.Use(manyTools(2),
		`{"helm":"policy/v1","layer":"P0","name":"f","requires":[{"all":[{"receipt":"t00000"}],"id":"q","tools":"edit"}],"version":1}`,
		`{"helm":"policy/v1","layer":"P2","name":"o","only":["t00001"]}`)
	m.Denied(contracts.ReasonMissingRequirement, forge.Ask{Session: "s", Tool: "edit", Args: `{"path":"/a","text":""}`,
		Who: forge.Writer})
	m.Checkpoint()
	r, err := verifyBytes(t, m.Pack(Write), Options{Trust: m.Trust})
	require.NoError(t, err)
	assert.True(t, r.Success(Logged) && r.Replay.Replayed == 1, "%+v", r.Replay)
}

// BenchmarkVerifyNarrowed is a log over 1,000 tools in which every call has an overlay of its own,
// compared with the same calls without: by call, and by entry, since each overlay is an entry, too.
func BenchmarkVerifyNarrowed(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const calls = 1000
	logs := [2]*forge.Maker{narrowedLog(b, calls, 1000, false), narrowedLog(b, calls, 1000, true)}
	var packs [2][]byte
	for i, m := range logs {
		packs[i] = m.Pack(Write)
	}
	verify := func(i int) float64 {
		from := processor(b)
		r, err := Verify(b.Context(), bytes.NewReader(packs[i]), int64(len(packs[i])), Options{Trust: logs[i].Trust})
		if err != nil || !r.Success(Logged) || r.Replay.Replayed != calls {
			b.Fatal(r, err)
		}
		return (processor(b) - from).Seconds()
	}
	var without, with, ratios []float64
	for b.Loop() {
		x, y := verify(0), verify(1)
		without, with, ratios = append(without, x), append(with, y), append(ratios, y/x)
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "x/without")
	b.ReportMetric(ratios[len(ratios)/2]*(2*calls+2)/(3*calls+2), "x/entry")
	b.ReportMetric(slices.Min(without)/calls*1e6, "µs/call-without")
	b.ReportMetric(slices.Min(with)/calls*1e6, "µs/call")
}
