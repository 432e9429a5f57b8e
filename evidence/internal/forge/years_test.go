package forge

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/race"
)

// TestStubsFold: whichever entries of a log's sets have stubs in their place, all else is as it is
// with the entries, whose blobs were erased.
func TestStubsFold(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	ranges, stubs, unseen, keys, nested := 0, 0, uint64(0), 0, 0
	logs := 24 / Sample(4)
	for seed := uint64(0); seed < 24; seed += uint64(Sample(4)) {
		made := RandomLog(t, seed, 140)
		m := made.Model()
		pack := m.Build()
		r := rand.New(rand.NewPCG(seed, 10))
		root := func(size int) []byte { return LastOf(m, size, rootOf(m, size), Origin) }
		o := evidence.Options{Trust: made.Trust, Origin: Origin}
		whole, err := verifyBytes(t, pack, o)
		require.True(t, err == nil && whole.Success(0) && len(whole.Condensed) > 0, "log %d: %+v, %v", seed, whole, err)
		ranges += len(whole.Condensed)
		set := m.sets()
		for variant := range 4 {
			for _, n := range m.Nodes {
				m.whole(n)
			}
			gone, decisions := map[*Node]bool{}, uint64(0)
			for _, n := range set {
				if variant > 0 && r.IntN(2) == 0 {
					continue
				}
				gone[n] = true
				if n.D() != nil && m.Blobs[n.D()["inputsHash"].(string)] != nil {
					decisions++
				}
			}
			for n := range gone {
				n.gone = true
			}
			m.forget()
			stubbed := m.Build()
			for n := range gone {
				n.gone = false
				stubs++
				if n.D() != nil && n.D()["idempotency"] != nil {
					keys++
				}
				if slices.ContainsFunc(m.Nodes, func(x *Node) bool { return slices.Contains(x.parents, n) && !gone[x] }) {
					nested++
				}
			}
			erased, err := verifyBytes(t, m.Build(), o)
			require.NoError(t, err)
			o := o
			o.Last = root(1 + r.IntN(len(m.Nodes)))
			got, err := verifyBytes(t, stubbed, o)
			require.NoError(t, err, "log %d, variant %d", seed, variant)
			assert.Equal(t, evidence.Fresh, got.History, "log %d, variant %d: root", seed, variant)
			if variant == 1 && seed%8 == 0 { // and the root is the same at every size
				for size := range len(m.Nodes) {
					o := o
					o.Last = root(1 + size)
					at, err := verifyBytes(t, stubbed, o)
					require.NoError(t, err)
					assert.Equal(t, evidence.Fresh, at.History, "log %d, the root of size %d", seed, 1+size)
				}
			}
			was := whole
			was.History, was.Condensed = got.History, nil
			for _, x := range whole.Condensed {
				for _, n := range m.Nodes[x.Index].members {
					if gone[n] {
						x.Stubs++
					}
				}
				was.Condensed = append(was.Condensed, x)
			}
			was.Erased, was.Replay = got.Erased, erased.Replay
			was.Replay.NotReplayable, was.Replay.Entries = got.Replay.NotReplayable, got.Replay.Entries
			assert.Equal(t, was, got, "log %d, variant %d", seed, variant)
			assert.Equal(t, whole.Replay.Replayed-decisions, got.Replay.Replayed, "log %d, variant %d: replayed", seed,
				variant)
			unseen += got.Replay.Unseen
		}
	}
	t.Logf("%d ranges, %d stubs, %d sources not seen, %d keys, %d named by others", ranges, stubs, unseen, keys, nested)
	assert.True(t, ranges >= 2*logs && stubs >= 60*logs && unseen >= 10 && keys >= logs && nested >= 10*logs,
		"too few of something")
}

// TestLiesOverStubs: what the inputs of a call say of a past of which stubs are left is compared
// with the stubs.
func TestLiesOverStubs(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	lies := map[string]func(s Object) bool{
		"one call fewer": func(s Object) bool {
			for _, x := range listOf(s, "calls") {
				if n := intOf(x["count"]); n > 0 {
					x["count"] = n - 1
					return true
				}
			}
			return false
		},
		"one call more": func(s Object) bool {
			for _, x := range listOf(s, "calls") {
				x["count"] = intOf(x["count"]) + 1
				return true
			}
			return false
		},
		"no receipt": func(s Object) bool {
			for _, x := range listOf(s, "receipts") {
				if x["entry"] != nil && x["same"] == nil {
					delete(x, "entry")
					delete(x, "time")
					delete(x, "facts")
					return true
				}
			}
			return false
		},
		"a receipt of another time": func(s Object) bool {
			for _, x := range listOf(s, "receipts") {
				if x["entry"] != nil {
					x["time"] = "2026-01-01T00:00:00.000Z"
					return true
				}
			}
			return false
		},
		"another receipt": func(s Object) bool {
			for _, x := range listOf(s, "receipts") {
				if x["entry"] != nil {
					x["entry"] = ones64
					return true
				}
			}
			return false
		},
		"a source that said less": func(s Object) bool {
			for _, x := range listOf(s, "from") {
				if n := intOf(x["count"]); n > 0 {
					x["count"] = n - 1
					return true
				}
			}
			return false
		},
		"a source that said something else": func(s Object) bool {
			for _, x := range listOf(s, "from") {
				if intOf(x["count"]) > 0 && x["source"] != "user" {
					x["state"] = ones64
					return true
				}
			}
			return false
		},
		"tainted or not": func(s Object) bool {
			was, ok := s["tainted"].(bool)
			s["tainted"] = !was
			return ok
		},
		"a label less": func(s Object) bool {
			list, _ := s["labels"].([]any)
			if len(list) > 0 {
				s["labels"] = list[1:]
			}
			return len(list) > 0
		},
		"a balance of an ALLOW": func(s Object) bool {
			for _, x := range listOf(s, "budgets") {
				x["spent"] = intOf(x["spent"]) + 1
				return true
			}
			return false
		},
	}
	tried := map[string]int{}
	for seed := range uint64(12 / Sample(3)) {
		made := RandomLog(t, 100+seed, 140)
		whole := made.Model().Build()
		o := evidence.Options{Trust: made.Trust, Origin: Origin}
		apart := func() *Model {
			m := TakeApart(t, whole)
			m.by = made.By
			m.Build()
			m.letGo(m.sets()...)
			m.Build()
			return m
		}
		base := apart()
		past := map[string]bool{} // sessions that have stubs
		for i, n := range base.Nodes {
			session := n.Text("session")
			past[session] = past[session] || n.gone
			for _, x := range n.parents {
				past[session] = past[session] || x.gone
			}
			if n.gone || n.D() == nil || !past[session] || base.Blobs[n.D()["inputsHash"].(string)] == nil {
				continue
			}
			for _, name := range slices.Sorted(maps.Keys(lies)) {
				if tried[name] >= 12 || name == "a balance of an ALLOW" && n.D()["verdict"] != "ALLOW" {
					continue
				}
				s := parseObject(t, base.Blobs[n.D()["inputsHash"].(string)])["state"].(Object)
				if !lies[name](s) {
					continue
				}
				m := apart()
				m.inputs(m.Nodes[i], func(in Object) { lies[name](in["state"].(Object)) })
				lie := m.Nodes[i].D()["inputsHash"]
				m.followBut(m.Nodes[i])
				r, err := verifyBytes(t, m.Build(), o)
				require.Equal(t, lie, m.Nodes[i].D()["inputsHash"], "the lie was mended")
				mustRefuse(t, r, err, errReplay)
				if f := r.Fault; f != nil {
					assert.Equal(t, int64(i), f.Entry, "%s: %v", name, f)
				}
				tried[name]++
			}
		}
	}
	t.Log(tried)
	for name := range lies {
		assert.GreaterOrEqual(t, tried[name], 6/Sample(3), name)
	}
}

// TestBackTestOverStubs: calls of which stubs are left are not judged again, and all others are as
// if the inputs and outputs of those calls were erased.
func TestBackTestOverStubs(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	candidates := []*guardian.Policy{
		Compiled(t, YearsFloor, YearsBundle),
		Compiled(t, strings.Replace(YearsFloor, `"has":"web"`, `"has":"bank"`, 1),
			strings.NewReplacer(`"gt":4`, `"gt":1`, `"limit":40`, `"limit":3`, `"trusted":true},
 "note"`, `"trusted":false},
 "note"`).Replace(YearsBundle)),
	}
	judged, unjudged, changed := uint64(0), 0, 0
	for seed := range uint64(6 / Sample(2)) {
		made := RandomLog(t, 200+seed, 140)
		m := made.Model()
		m.Build()
		r := rand.New(rand.NewPCG(seed, 11))
		var gone []uint64
		for _, n := range m.sets() {
			if n.gone = r.IntN(3) > 0; n.gone && n.D() != nil {
				gone = append(gone, uint64(m.index(n)))
			}
		}
		m.forget()
		pack := m.Build()
		for _, n := range m.Nodes {
			n.gone = false
		}
		erased := m.Build()
		o := evidence.Options{Trust: made.Trust, Origin: Origin}
		for _, candidate := range candidates {
			d, changes := backTested(t, pack, o, candidate)
			was, same := backTested(t, erased, o, candidate)
			assert.Equal(t, same, changes)
			was.Report = d.Report
			assert.Equal(t, was, d)
			for _, at := range gone {
				assert.Contains(t, d.Unjudged, at)
			}
			judged, unjudged, changed = judged+d.Judged, unjudged+len(gone), changed+len(changes)
		}
	}
	t.Logf("%d judged, %d not, %d changes", judged, unjudged, changed)
	assert.True(t, judged >= uint64(200/Sample(2)) && unjudged >= 100/Sample(2) && changed >= 20/Sample(2),
		"too few of something")
}
