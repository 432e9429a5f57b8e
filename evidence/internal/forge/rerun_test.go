package forge

import (
	"bytes"
	"context"
	"encoding/hex"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/internal/race"
)

// A boxed is the pack of SandboxLog.
type boxed struct {
	*testing.T
	Sandboxes
	pack []byte
	o    evidence.Options
}

// ranAll is what RERUN says of SandboxLog. Two of its calls are of the tool that lists the module.
var ranAll = evidence.Rerun{Same: uint64(len(Ran)), Unpinned: uint64(len(Ran) - 2), Open: 1, Ended: 4, NotKept: 2, OtherMeter: 1}

func newBoxed(t *testing.T) *boxed {
	t.Helper()
	log := SandboxLog(t)
	b := &boxed{t, log, log.Pack(evidence.Write),
		evidence.Options{Trust: log.Trust, Origin: Origin, Rerun: Machine}}
	r, err := verifyBytes(t, b.pack, b.o)
	require.NoError(t, err)
	require.Equal(t, ranAll, r.Rerun)
	require.True(t, r.Success(evidence.Logged) && r.Replay.Differing == 0 && len(r.Erased) == 2, "%+v", r)
	return b
}

// TestRerun has each call run again that can be, and counts each receipt of a sandbox once. A pack,
// a store, an open pack and a back-test say the same, and nothing is run that nobody asked for.
func TestRerun(t *testing.T) {
	t.Parallel()
	b := newBoxed(t)
	want, err := verifyBytes(t, b.pack, b.o)
	require.NoError(t, err)
	m := TakeApart(t, b.pack)
	boxes := 0
	for _, n := range m.Nodes {
		if s, ok := n.P()["sandbox"].(Object); ok && s["profile"] != "reported" {
			boxes++
		}
	}
	x := want.Rerun
	assert.Equal(t, uint64(boxes), x.Same+x.Open+x.Ended+x.NotKept+x.OtherMeter, "each is counted once")

	stored, err := evidence.VerifyStore(t.Context(), b.Store, b.o)
	require.NoError(t, err)
	assert.Equal(t, want, stored)
	_, opened, err := evidence.OpenPack(t.Context(), bytes.NewReader(b.pack), int64(len(b.pack)), b.o)
	require.NoError(t, err)
	assert.Equal(t, want, opened)
	tested, _ := backTested(t, b.pack, b.o, Compiled(t, SandboxPolicy))
	assert.Equal(t, want, tested.Report)

	o := b.o
	o.Rerun = nil
	unasked, err := verifyBytes(t, b.pack, o)
	require.NoError(t, err)
	assert.Equal(t, evidence.Rerun{}, unasked.Rerun)
}

// sandbox changes the sandbox in the inputs of a call; what the receipt says of it follows.
func (l Sandboxes) sandbox(m *Model, name string, change func(s Object)) {
	n := l.Receipt(m, name)
	m.inputs(n.decision, func(in Object) {
		s := in["sandbox"].(Object)
		change(s)
		box := n.P()["sandbox"].(Object)
		box["module"], box["profile"] = s["module"], s["profile"]
		if s["grants"] != nil {
			box["grants"] = HexOf(s["grants"])
		}
	})
}

// args changes the arguments of a call, in all that says them.
func (l Sandboxes) args(m *Model, name string, args Object) {
	n := l.Receipt(m, name)
	digest := HexOf(args)
	m.inputs(n.decision, func(in Object) { in["args"], in["argsHash"] = args, digest })
	n.decision.D()["argsHash"], n.P()["argsHash"] = digest, digest
}

// output puts another output into the receipt of a call. It is kept.
func (l Sandboxes) output(m *Model, name, form, output string) {
	p := l.Receipt(m, name).P()
	if was, ok := p["outputHash"].(string); ok {
		delete(m.Blobs, was)
	}
	p["outputForm"], p["outputHash"] = form, m.blob([]byte(output))
}

// became makes another end of a call.
func became(p Object, outcome, reason, verdict string) {
	p["outcome"], p["reason"], p["verdict"] = outcome, reason, verdict
	if outcome != "EXECUTED" && reason != "ERR_CONNECTOR_CONTRACT_DRIFT" {
		delete(p, "outputForm")
		delete(p, "outputHash")
	}
}

func gasOf(p Object, gas any) { p["sandbox"].(Object)["gas"] = gas }

// A rewrite is a falsification by who holds the kernel's key: all else follows and is signed.
type rewrite struct {
	name  string
	call  string // whose receipt is at fault
	cut   func(l Sandboxes, m *Model, p Object)
	want  error
	field string
}

var rewrites = []rewrite{
	{"another output", "ok", func(l Sandboxes, m *Model, _ Object) { l.output(m, "ok", "jcs", `{"sum":"0"}`) },
		errRerun, "predicate.outputHash"},
	{"one byte of a text", "text", func(l Sandboxes, m *Model, p Object) {
		b := m.Blobs[p["outputHash"].(string)]
		l.output(m, "text", "raw", string(b[:len(b)-1])+" ")
	}, errRerun, "predicate.outputHash"},
	{"another output, which is not kept", "ok", func(_ Sandboxes, m *Model, p Object) {
		delete(m.Blobs, p["outputHash"].(string))
		p["outputHash"] = ones64
	}, errRerun, "predicate.outputHash"},
	{"JSON as text", "ok", func(_ Sandboxes, _ *Model, p Object) { p["outputForm"] = "raw" },
		errRerun, "predicate.outputForm"},
	{"an output that conforms", "drift", func(l Sandboxes, m *Model, p Object) {
		became(p, "EXECUTED", "ALLOW", "ALLOW")
		l.output(m, "drift", "jcs", `{"sum":"0"}`)
	}, errRerun, "predicate.reason"},
	{"an output that does not conform", "pinned", func(l Sandboxes, m *Model, p Object) {
		became(p, "WITHHELD", "ERR_CONNECTOR_CONTRACT_DRIFT", "DENY")
		l.output(m, "pinned", "jcs", `{"sum":0}`)
	}, errRerun, "predicate.reason"},
	{"another withheld output", "drift", func(l Sandboxes, m *Model, _ Object) { l.output(m, "drift", "raw", "nothing") },
		errRerun, "predicate.outputHash"},
	{"an output over the tool's limit, released", "long", func(l Sandboxes, m *Model, p Object) {
		became(p, "EXECUTED", "ALLOW", "ALLOW")
		l.output(m, "long", "jcs", `{"sum":"0"}`)
	}, errRerun, "predicate.reason"},
	{"an output called too long", "ok", func(_ Sandboxes, m *Model, p Object) {
		delete(m.Blobs, p["outputHash"].(string))
		became(p, "WITHHELD", "ERR_COMPUTE_OUTPUT_EXHAUSTED", "DENY")
	}, errRerun, "predicate.reason"},
	{"a success called an error", "ok", func(_ Sandboxes, m *Model, p Object) {
		delete(m.Blobs, p["outputHash"].(string))
		became(p, "FAILED", "TOOL_ERROR", "ALLOW")
	}, errRerun, "predicate.reason"},
	{"an error called a success", "fail", func(l Sandboxes, m *Model, p Object) {
		became(p, "EXECUTED", "ALLOW", "ALLOW")
		l.output(m, "fail", "jcs", `{"sum":"0"}`)
	}, errRerun, "predicate.reason"},
	{"memory called gas", "grow", func(_ Sandboxes, _ *Model, p Object) {
		p["reason"] = "ERR_COMPUTE_GAS_EXHAUSTED"
		gasOf(p, 1_000_000)
	}, errRerun, "predicate.reason"},
	{"gas called memory", "spin", func(_ Sandboxes, _ *Model, p Object) { p["reason"] = "ERR_COMPUTE_MEMORY_EXHAUSTED" },
		errRerun, "predicate.reason"},
	{"more gas", "ok", func(_ Sandboxes, _ *Model, p Object) { gasOf(p, 999_999) }, errRerun,
		"predicate.sandbox.gas"},
	{"less gas", "ok", func(_ Sandboxes, _ *Model, p Object) { gasOf(p, 999) }, errRerun, "predicate.reason"},
	{"no gas", "ok", func(_ Sandboxes, _ *Model, p Object) { gasOf(p, 0) }, errRerun, "predicate.reason"},
	{"another module", "ok", func(l Sandboxes, m *Model, _ Object) {
		l.sandbox(m, "ok", func(s Object) { s["module"] = m.blob([]byte("another module")) })
	}, errRerun, "predicate.outputHash"},
	{"other arguments", "ok", func(l Sandboxes, m *Model, _ Object) { l.args(m, "ok", Object{"do": "is"}) },
		errRerun, "predicate.outputHash"},
	{"another grant", "ok", func(l Sandboxes, m *Model, _ Object) {
		l.sandbox(m, "ok", func(s Object) { s["grants"].(Object)["args"] = []any{"-v"} })
	}, errRerun, "predicate.outputHash"},
	{"another tree", "ok", func(l Sandboxes, m *Model, _ Object) {
		l.sandbox(m, "ok", func(s Object) { s["grants"].(Object)["files"] = Object{"/in": "sha256:" + ones64} })
	}, errRerun, "predicate.outputHash"},
	{"another time of the decision", "timed", func(_ Sandboxes, m *Model, p Object) {
		later(m, m.which("decision", "calc", 1), 1)
	}, errRerun, "predicate.outputHash"},
	{"another decision", "seeded", func(_ Sandboxes, m *Model, _ Object) {
		m.Nodes[0].P()["nonce"] = "00000000000000000000000000000009"
	}, errRerun, "predicate.outputHash"},

	{"without its sandbox", "ok", func(_ Sandboxes, _ *Model, p Object) { delete(p, "sandbox") }, errReplay,
		"predicate.sandbox"},
	{"panicked, without its sandbox", "panic", func(_ Sandboxes, _ *Model, p Object) { delete(p, "sandbox") },
		errReplay, "predicate.sandbox"},
	{"canceled, without its sandbox", "gone", func(_ Sandboxes, _ *Model, p Object) { delete(p, "sandbox") },
		errReplay, "predicate.sandbox"},
	{"reported, without its sandbox", "reported", func(_ Sandboxes, _ *Model, p Object) { delete(p, "sandbox") },
		errReplay, "predicate.sandbox"},
	{"exhausted, without its sandbox", "spin", func(_ Sandboxes, _ *Model, p Object) { delete(p, "sandbox") },
		errRecord, ""},
	{"of an unknown outcome", "lost", func(l Sandboxes, m *Model, p Object) {
		p["sandbox"] = clone(l.Receipt(m, "panic").P()["sandbox"])
	}, errRecord, ""},
	{"a sandbox that the inputs do not have", "ok", func(l Sandboxes, m *Model, p Object) {
		m.inputs(l.Receipt(m, "ok").decision, func(in Object) { delete(in, "sandbox") })
	}, errReplay, "predicate.sandbox"},
	{"the receipt's own module", "ok", func(_ Sandboxes, m *Model, p Object) {
		p["sandbox"].(Object)["module"] = m.blob([]byte("another module"))
	}, errReplay, "predicate.sandbox"},
	{"the receipt's own grants", "ok", func(_ Sandboxes, _ *Model, p Object) { p["sandbox"].(Object)["grants"] = ones64 },
		errReplay, "predicate.sandbox"},
	{"the receipt's own profile", "ok", func(_ Sandboxes, _ *Model, p Object) { p["sandbox"].(Object)["profile"] = "bo" },
		errReplay, "predicate.sandbox"},
	{"reported, to be passed over", "ok", func(_ Sandboxes, _ *Model, p Object) {
		p["sandbox"] = Object{"gas": 0, "module": p["sandbox"].(Object)["module"], "profile": "reported"}
	}, errReplay, "predicate.sandbox"},
	{"more gas than granted", "ok", func(_ Sandboxes, _ *Model, p Object) { gasOf(p, 1_000_001) }, errReplay,
		"predicate.sandbox.gas"},
	{"gas that was used up, and less", "spin", func(_ Sandboxes, _ *Model, p Object) { gasOf(p, 999_999) },
		errReplay, "predicate.sandbox.gas"},
	{"gas of a time limit, over the grant", "late", func(_ Sandboxes, _ *Model, p Object) { gasOf(p, 1_000_001) },
		errReplay, "predicate.sandbox.gas"},
	{"gas of a panic", "panic", func(_ Sandboxes, _ *Model, p Object) { gasOf(p, 1) }, errReplay,
		"predicate.sandbox.gas"},
	{"gas of a panic, erased", "panic", func(l Sandboxes, m *Model, p Object) {
		delete(m.Blobs, l.Receipt(m, "panic").decision.D()["inputsHash"].(string))
		gasOf(p, 1)
	}, errReplay, "predicate.sandbox.gas"},
	{"gas of what ran elsewhere", "reported", func(_ Sandboxes, _ *Model, p Object) { gasOf(p, 1) }, errReplay,
		"predicate.sandbox.gas"},
	{"a module of more than 32 MiB", "ok", func(l Sandboxes, m *Model, _ Object) {
		l.sandbox(m, "ok", func(s Object) { s["module"] = m.blob(make([]byte, 32<<20+1)) })
	}, errBlob, ""},
	{"another module than the policy lists", "pinned", func(l Sandboxes, m *Model, _ Object) {
		l.sandbox(m, "pinned", func(s Object) { s["module"] = m.blob([]byte("another module")) })
	}, errReplay, "predicate.decision.condition"},
	{"more than the policy lets the module have", "pinned", func(l Sandboxes, m *Model, _ Object) {
		l.sandbox(m, "pinned", func(s Object) { s["grants"].(Object)["clock"] = "real" })
	}, errReplay, "predicate.decision.condition"},
	{"an output, and a verdict", "ok", func(l Sandboxes, m *Model, p Object) {
		l.output(m, "ok", "jcs", `{"sum":"0"}`)
		l.Receipt(m, "grow").decision.D()["rule"] = "P1:box:other"
	}, errReplay, "predicate.decision.rule"},
}

// later moves an entry and all that follow, in whatever says when they were.
func later(m *Model, first *Node, by contracts.Time) {
	found := false
	move := func(o Object, k string) {
		if s, ok := o[k].(string); ok {
			at, err := contracts.ParseTime(s)
			require.NoError(m, err)
			o[k] = (at + by).String()
		}
	}
	for _, n := range m.Nodes {
		if found = found || n == first; !found {
			continue
		}
		move(n.P(), "time")
		if d := n.D(); d != nil {
			move(d, "expires")
			if m.Blobs[d["inputsHash"].(string)] != nil {
				m.inputs(n, func(in Object) { move(in, "time") })
			}
		}
	}
}

// TestRerunFinds has the holder of the kernel's key change one thing of a receipt, or of all that
// it follows from. It is found, by the check that it is for.
func TestRerunFinds(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	b := newBoxed(t)
	for _, x := range rewrites {
		t.Run(x.name, func(t *testing.T) {
			m := TakeApart(t, b.pack)
			n := b.Receipt(m, x.call)
			x.cut(b.Sandboxes, m, n.P())
			pack := m.Build()
			r, err := verifyBytes(t, pack, b.o)
			mustRefuse(t, r, err, x.want)
			if x.want == errRerun || x.want == errReplay && !strings.HasPrefix(x.field, "predicate.decision.") {
				assert.Equal(t, int64(m.index(n)), r.Fault.Entry, "%v", err)
			}
			if x.field != "" {
				assert.Equal(t, x.field, r.Fault.Field, "%v", err)
			}
			o := b.o
			if o.Rerun = nil; x.want == errRerun { // nothing else finds it
				r, err := verifyBytes(t, pack, o)
				assert.True(t, err == nil && r.Success(evidence.Logged), "%+v, %v", r, err)
			}
		})
	}
	assert.GreaterOrEqual(t, len(rewrites), 40)
}

// TestRerunNotSame: what cannot be run again is counted, and never as the same.
func TestRerunNotSame(t *testing.T) {
	t.Parallel()
	b := newBoxed(t)
	less := func(n uint64, change func(r *evidence.Rerun)) evidence.Rerun {
		r := ranAll
		r.Same, r.Unpinned = r.Same-n, r.Unpinned-n
		change(&r)
		return r
	}
	all := uint64(len(Ran))
	for name, x := range map[string]struct {
		cut  func(m *Model)
		o    func(o *evidence.Options)
		want evidence.Rerun
	}{
		"erased inputs": {func(m *Model) {
			delete(m.Blobs, b.Receipt(m, "ok").decision.D()["inputsHash"].(string))
		}, nil, less(1, func(r *evidence.Rerun) { r.NotKept++ })},
		"erased inputs of all": {erase, nil, evidence.Rerun{Ended: 4, NotKept: all + 4}},
		"erased outputs": {func(m *Model) {
			for _, n := range m.Nodes {
				delete(m.Blobs, n.Text("outputHash"))
			}
		}, nil, ranAll},
		"no module": {func(m *Model) { delete(m.Blobs, HexSum(Module)) }, nil,
			evidence.Rerun{Open: 1, Ended: 4, NotKept: all + 3}}, // the newer meter's is not asked about its meter
		"another meter": {func(m *Model) {
			b.sandbox(m, "ok", func(s Object) { s["grants"].(Object)["meter"] = 3 })
		}, nil, less(1, func(r *evidence.Rerun) { r.OtherMeter++ })},
		"a clock": {func(m *Model) { b.sandbox(m, "ok", func(s Object) { s["grants"].(Object)["clock"] = "real" }) }, nil,
			less(1, func(r *evidence.Rerun) { r.Open++ })},
		"chance": {func(m *Model) { b.sandbox(m, "ok", func(s Object) { s["grants"].(Object)["random"] = "real" }) }, nil,
			less(1, func(r *evidence.Rerun) { r.Open++ })},
		"an environment": {func(m *Model) {
			b.sandbox(m, "ok", func(s Object) { s["grants"].(Object)["env"] = []any{"HOME"} })
		}, nil, less(1, func(r *evidence.Rerun) { r.Open++ })},
		"a directory": {func(m *Model) {
			b.sandbox(m, "ok", func(s Object) { s["grants"].(Object)["files"] = Object{"/in": "read"} })
		}, nil, less(1, func(r *evidence.Rerun) { r.Open++ })},
		"a time limit": {func(m *Model) {
			p := b.Receipt(m, "ok").P()
			delete(m.Blobs, p["outputHash"].(string))
			became(p, "INDETERMINATE", "TOOL_TIMEOUT", "DENY")
		}, nil, less(1, func(r *evidence.Rerun) { r.Ended++ })},
		"another engine": {otherBoxes, nil, evidence.Rerun{Open: 1, Ended: 4, NotKept: all + 3}},
	} {
		t.Run(name, func(t *testing.T) {
			m := TakeApart(t, b.pack)
			x.cut(m)
			r, err := verifyBytes(t, m.Build(), b.o)
			require.NoError(t, err)
			assert.Equal(t, x.want, r.Rerun)
		})
	}
}

// otherBoxes has the policy be another engine's.
func otherBoxes(m *Model) {
	var hash any
	for _, n := range m.Nodes {
		if n.Kind() == "policy" {
			newest(n.P())
			hash = HexOf(Object{"documents": n.P()["documents"], "engine": n.P()["engine"]})
		}
		if d := n.D(); d != nil {
			d["policyHash"] = hash
		}
	}
}

// TestRerunReleases: what becomes of an output is what became of it in the executor.
func TestRerunReleases(t *testing.T) {
	t.Parallel()
	m := NewMaker(t)
	m.Use(SandboxPolicy)
	outputs := []string{"", "null", " null\n", "1.10", "1e21", "-0", `"a"`, `"\u0041"`, `{"a":1,"a":2}`, `{"sum":"1"}`,
		`{"sum":1}`, `{"b":1,"a":2}`, `{"sum":"1"} `, `{"sum":"1"}x`, "\ufeff1", "[1,]", "NaN", "\x00", `"\ud800"`,
		strings.Repeat("[", 64) + strings.Repeat("]", 64), strings.Repeat("[", 65) + strings.Repeat("]", 65),
		strings.Repeat("[", 129) + strings.Repeat("]", 129)}
	for n := 1022; n <= 1026; n++ { // about the limit of calc, as text, as JSON and as both
		outputs = append(outputs, strings.Repeat("x", n), `"`+strings.Repeat("x", n-2)+`"`, strings.Repeat(" ", n-1)+"1",
			`"`+strings.Repeat("x", n-8)+`\u0041"`, "[1e20"+strings.Repeat(" ", n-24)+"]")
	}
	ends := map[string]bool{}
	for _, output := range outputs {
		for _, tool := range []string{"calc", "pinned"} {
			m.Run(tool, "say "+hex.EncodeToString([]byte(output)), Module)
		}
	}
	m.Checkpoint()
	pack := m.Pack(evidence.Write)
	for _, n := range TakeApart(t, pack).Nodes {
		ends[n.Text("reason")+" "+n.Text("outputForm")] = true
	}
	r, err := verifyBytes(t, pack, evidence.Options{Trust: m.Trust, Rerun: Machine})
	require.NoError(t, err)
	assert.EqualValues(t, 2*len(outputs), r.Rerun.Same)
	for _, end := range []string{"ALLOW jcs", "ALLOW raw", "ERR_CONNECTOR_CONTRACT_DRIFT jcs",
		"ERR_CONNECTOR_CONTRACT_DRIFT raw", "ERR_COMPUTE_OUTPUT_EXHAUSTED "} {
		assert.True(t, ends[end], "none ended with %s", end)
	}
}

// TestRerunGas: a pack may ask for years, and gets the gas that its auditor grants. Which calls are
// run does not depend on what they return.
func TestRerunGas(t *testing.T) {
	t.Parallel()
	b := newBoxed(t)
	m := TakeApart(t, b.pack)
	var gas []uint64
	sum := uint64(0)
	for _, name := range Ran {
		g, err := b.Receipt(m, name).P()["sandbox"].(Object)["gas"].(interface{ Int64() (int64, error) }).Int64()
		require.NoError(t, err)
		gas = append(gas, uint64(g))
		sum += uint64(g)
	}
	sum += 2 * 7 // of what is not kept, and of the newer meter, which nobody knows before
	o := b.o
	for name, x := range map[string]struct {
		limit uint64
		same  int
	}{
		"all":               {sum, len(Ran)},
		"one less":          {sum - 1, len(Ran)},
		"without the last":  {sum - 2*7 - 1, len(Ran) - 1},
		"the first":         {gas[0], 1},
		"one less than one": {gas[0] - 1, 0},
		"the first two":     {gas[0] + gas[1], 2},
		"almost three":      {gas[0] + gas[1] + gas[2] - 1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			var granted atomic.Uint64
			o.RerunGas = x.limit
			o.Rerun = func(ctx context.Context, r contracts.Rerunnable) (contracts.RerunResult, error) {
				granted.Add(r.Grants.Gas)
				return Machine(ctx, r)
			}
			r, err := verifyBytes(t, b.pack, o)
			require.NoError(t, err)
			assert.True(t, r.Success(evidence.Logged))
			assert.LessOrEqual(t, granted.Load(), x.limit)
			assert.Equal(t, uint64(x.same), r.Rerun.Same)
			rest := r.Rerun.Same + r.Rerun.Over + r.Rerun.NotKept + r.Rerun.OtherMeter
			assert.Equal(t, ranAll.Same+ranAll.NotKept+ranAll.OtherMeter, rest)
		})
	}
	t.Run("years", func(t *testing.T) { // 10^12 for each of them, and the default allows one
		m := TakeApart(t, b.pack)
		for _, name := range Ran {
			if name == "pinned" || name == "drift" { // the policy allows them less
				continue
			}
			b.sandbox(m, name, func(s Object) { s["grants"].(Object)["gas"] = 1_000_000_000_000 })
			gasOf(b.Receipt(m, name).P(), 1_000_000_000_000)
		}
		var runs atomic.Uint64
		o := b.o
		o.Rerun = func(_ context.Context, r contracts.Rerunnable) (contracts.RerunResult, error) {
			runs.Add(1)
			return contracts.RerunResult{Held: true, Metered: true}, nil
		}
		r, err := verifyBytes(t, m.Build(), o)
		mustRefuse(t, r, err, errRerun)
		assert.EqualValues(t, 1, runs.Load())
	})
}

// TestRerunEnds: a Rerun that fails proves nothing, and blames nobody; the context ends it; one
// that panics does so on the caller's goroutine.
func TestRerunEnds(t *testing.T) {
	t.Parallel()
	b := newBoxed(t)
	o := b.o
	calls := func(n int64, then func(ctx context.Context) error) contracts.Rerun {
		var at atomic.Int64
		return func(ctx context.Context, r contracts.Rerunnable) (contracts.RerunResult, error) {
			if at.Add(1) == n {
				if err := then(ctx); err != nil {
					return contracts.RerunResult{}, err
				}
			}
			return Machine(ctx, r)
		}
	}
	o.Rerun = calls(3, func(context.Context) error { return errDisk })
	r, err := verifyBytes(t, b.pack, o)
	require.ErrorIs(t, err, errDisk)
	require.ErrorIs(t, err, errRerun)
	assert.True(t, r.Level == evidence.Invalid && r.Fault.Err == errDisk && r.Rerun == evidence.Rerun{})
	assert.Contains(t, r.String(), "A call could not be run again")

	ctx, cancel := context.WithCancel(t.Context())
	o.Rerun = calls(5, func(ctx context.Context) error { cancel(); <-ctx.Done(); return ctx.Err() })
	r, err = evidence.Verify(ctx, bytes.NewReader(b.pack), int64(len(b.pack)), o)
	require.Equal(t, context.Canceled, err)
	assert.True(t, r.Level == evidence.Invalid && r.Fault == nil)

	o.Rerun = calls(4, func(context.Context) error { panic("the engine") })
	assert.PanicsWithValue(t, "the engine", func() { verifyBytes(t, b.pack, o) })
}
