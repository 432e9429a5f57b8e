package evidence

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence/internal/forge"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

// A generator makes policies and calls at random. In all its policies ping is allowed to everyone,
// and so is the past that others ask for: what a call leaves to later ones, but for balances, is
// the same under each of them.
type generator struct{ *rand.Rand }

func (d generator) one(list ...string) string { return list[d.IntN(len(list))] }

func (d generator) once(in int) bool { return d.IntN(in) == 0 }

// some are a few of a list, in any order.
func (d generator) some(list ...string) string {
	list = slices.Clone(list)
	d.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return strings.Join(list[:d.IntN(len(list)+1)], ",")
}

func (d generator) budgets(layer string) string {
	var list []string
	for i := range d.IntN(3) {
		tool := d.one("read", "write")
		cost := "1"
		if tool == "write" {
			cost = d.one("1", `{"arg":"/amount","scale":1}`)
		}
		per := d.one("caller", "tenant", "session", "tool", "all")
		window := d.one("hour", "day", "month", "total")
		if per == "session" {
			window = d.one("session", "day")
		}
		limit := d.IntN(5) * (1 + d.IntN(2)*300)
		list = append(list, fmt.Sprintf(`{"id":"%s%d","tools":[%q],"limit":%d,"per":%q,"window":%q,"cost":%s%s%s}`,
			layer, i, tool, limit, per, window, cost,
			d.one("", refunded), d.one("", "", `,"when":{"caller":"roles","has":"reader"}`)))
	}
	return `"budgets":[` + strings.Join(list, ",") + `],`
}

// stack is one of random documents. A default that it has it has at any rate with filled.
func (d generator) stack(version int, filled bool) (docs []string) {
	number := d.one("", `,"maximum":30`)
	if filled {
		number += `,"default":25`
	}
	allows := d.some(`{"id":"a1","allow":"read","when":{"caller":"roles","has":"reader"}}`,
		`{"id":"a2","allow":["read","write"],"when":{"caller":"roles","has":"writer"}}`,
		`{"id":"a3","allow":"write","when":{"arg":"/amount","lt":80}}`,
		`{"id":"a4","allow":"read","when":{"arg":"/path","ne":"/srv/c"}}`)
	denies := d.some(`{"id":"d1","deny":"read","when":{"arg":"/path","within":["/srv/secret"]}}`,
		`{"id":"d2","deny":"read","when":{"arg":"/n","gt":20,"absent":false}}`,
		`{"id":"d3","deny":["read","write"],"when":{"caller":"tenant","eq":"evil","absent":true}}`,
		`{"id":"d4","deny":"write","unless":{"time":"utc","in":["Mon-Fri 06:00-22:00"]}}`,
		`{"id":"d5","deny":"write","when":{"arg":"/amount","ge":60}}`,
		`{"id":"d6","deny":"write","when":{"session":"calls","of":"ping","lt":2}}`,
		`{"id":"d7","deny":"read","unless":{"receipt":"ping","same":["/path"]}}`,
		`{"id":"d8","deny":"write","unless":{"receipt":"ping","max_age":"12h"}}`)
	rules := denies + "," + allows
	if d.once(4) {
		rules = allows + "," + denies
	}
	rules = strings.Trim(strings.Trim(rules, ",")+`,{"id":"ping","allow":"ping"}`, ",")
	requires := d.some(`{"id":"q1","tools":["write"],"all":[{"receipt":"ping","same":["/path"]}]}`,
		`{"id":"q2","tools":["write"],"when":{"arg":"/amount","ge":50},`+
			`"all":[{"attestation":{"type":"dual-control","bind":{"amount":"/amount"},"max_age":"2h"}}]}`,
		`{"id":"q3","tools":["read"],"when":{"arg":"/path","eq":"/srv/b"},"any":[`+
			`{"approval":{"roles":["lead"]}},{"receipt":"ping","max_age":"1h"}]}`,
		`{"id":"q4","tools":["write"],"when":{"arg":"/amount","ge":70},"all":[{"approval":{"roles":["lead"]}}]}`)
	if d.once(3) {
		requires = ""
	}
	docs = append(docs,
		fmt.Sprintf(`{"helm":"policy/v1","layer":"P1","bundle":{"name":"files","version":%d},%s"requires":[%s],`+
			`"rules":[%s],"tools":{`+
			`"ping":{"effect":"read","input":{"type":"object","required":["path"],`+
			`"properties":{"path":{"type":"string"}}}},`+
			`"read":{"effect":"read","input":{"type":"object","required":["path"],`+
			`"properties":{"path":{"type":"string"},"n":{"type":"integer"%s}}}%s},`+
			`"write":{"effect":"write","risk":%q,"limits":{"args":%q},"input":{"type":"object",`+
			`"required":["amount","path"],"properties":{"path":{"type":"string"},"amount":{"type":"number"},`+
			`"note":{"type":"string"}}}}}}`,
			version, d.budgets("b"), requires, rules, number,
			d.one("", `,"scope":[{"arg":"/path","within":["/srv"]}]`,
				`,"scope":[{"arg":"/path","within":["/srv/a","/srv/b"]}]`),
			d.one("low", "medium", "high"), d.one("1KiB", "2KiB")))
	if d.once(2) {
		docs = append(docs,
			fmt.Sprintf(`{"helm":"policy/v1","layer":"P0","name":"floor","version":%d,"profile":{"effects":[%s]},`+
				`"ceilings":{"risk":%q},%s"rules":[%s]}`, version,
				d.one(`"read"`, `"read","write"`, `"read","write"`), d.one("low", "medium", "high", "high"),
				d.budgets("f"),
				d.some(`{"id":"f1","deny":"write","when":{"arg":"/amount","gt":40}}`,
					`{"id":"f2","deny":{"egress":true},"unless":{"caller":"roles","has":"writer"}}`)))
	}
	if d.once(2) {
		docs = append(docs, fmt.Sprintf(`{"helm":"policy/v1","layer":"P2","name":"task","for":{%s},%s%s"rules":[%s]}`,
			d.one(`"session":"s1"`, `"caller":"ada"`, `"tenant":"acme"`, `"tenant":"acme","session":"s2"`),
			d.one(`"only":["ping","read"],`, ``), d.budgets("t"),
			d.some(`{"id":"t1","deny":"read","when":{"arg":"/path","eq":"/srv/a"}}`,
				`{"id":"t2","deny":"write","when":{"arg":"/amount","lt":5}}`)))
	}
	return docs
}

// policy is a stack that compiles.
func (d generator) policy(t testing.TB, version int, filled bool) *guardian.Policy {
	for range 100 {
		var list []contracts.Document
		for _, doc := range d.stack(version, filled) {
			list = append(list, contracts.Document{Canonical: forge.CanonicalText(t, doc)})
		}
		if p, err := guardian.Compile(list...); err == nil {
			return p
		}
	}
	t.Fatal("no stack compiles")
	return nil
}

// A trial is a call that is made of several kernels, at one time, and ends in one way: but a call
// that only some allow does not fail.
type trial struct {
	helm.Intent
	at    time.Time
	fails bool
}

func (d generator) trials(t testing.TB, n int) (list []trial) {
	now := forge.Start.Time()
	grant, err := contracts.Delegation{Delegate: "agent", Delegator: "ada", Expires: forge.Start + 1e11, Nonce: "n",
		NotBefore: forge.Start,
		Only:      []string{"read"}}.Sign(forge.Key(t, forge.SeedD))
	people := []contracts.Caller{{ID: "ada", Roles: []string{"reader"}, Tenant: "acme"},
		{ID: "bob", Roles: []string{"reader", "writer"}, Tenant: "acme"},
		{ID: "eve", Roles: []string{"writer"}, Tenant: "evil"}, {}}
	require.NoError(t, err)
	for range n {
		now = now.Add([]time.Duration{time.Second, time.Minute, 50 * time.Minute, 5 * time.Hour}[d.IntN(4)])
		path, amount := d.one("/srv/a", "/srv/b", "/srv/c", "/srv/secret/x", "/etc"), d.IntN(100)
		x := trial{at: now}
		x.Session, x.Tool = d.one("", "s1", "s1", "s2"), d.one("ping", "ping", "read", "read", "read", "write", "write",
			"write", "none")
		x.Caller = people[d.IntN(len(people))]
		args := fmt.Sprintf(`{"path":%q}`, path)
		switch x.Tool {
		case "read":
			args = fmt.Sprintf(d.one(`{"path":%q}`, `{"path":%q,"n":4}`, `{"path":%q,"n":40}`), path)
			if d.once(6) {
				x.Caller, x.Delegation = contracts.Caller{ID: d.one("agent", "agent", "other"), Tenant: "acme"},
					[]contracts.Envelope{grant}
			}
		case "write":
			args = fmt.Sprintf(`{"path":%q,"amount":%d%s}`, path, amount,
				d.one("", "", "", ".5", ".05", `,"note":"`+strings.Repeat("n", 1500)+`"`))
			if d.once(2) {
				claims := forge.ValuesOf(t, fmt.Sprintf(`{"amount":%d}`, amount))
				e, err := contracts.Attestation{Claims: claims, Time: contracts.TimeOf(now),
					Type: "dual-control"}.Sign(forge.Key(t, forge.SeedB))
				require.NoError(t, err)
				x.Attestations = []contracts.Envelope{e}
			}
		}
		x.fails = x.Tool != "ping" && d.once(3)
		if d.once(12) {
			args = d.one(`{"path":`, `{"path":1}`, `{"path":"/srv/a","more":1}`, `{}`)
		}
		x.Args = json.RawMessage(args)
		list = append(list, x)
	}
	return list
}

// live is what a kernel says of trials, by their ids, and the pack of its log.
func live(t testing.TB, policy *guardian.Policy, list []trial) (said []Judged, ids []string, pack []byte, o Options) {
	t.Helper()
	trust, err := registry.New(2, forge.StateKeys(t, 0)...)
	require.NoError(t, err)
	var now *trial
	driver := helm.Func(func(context.Context, json.RawMessage) (json.RawMessage, error) {
		if now.fails {
			return nil, errors.New("the tool fails")
		}
		return json.RawMessage(`1`), nil
	})
	store := proofgraph.NewMemory()
	start := forge.Start.Time()
	k, err := helm.New(helm.Options{Policy: policy, Key: forge.Key(t, forge.SeedK1), LogKey: forge.Key(t, forge.SeedL),
		Store: store, Origin: forge.Origin, Trust: trust,
		Drivers: map[string]executor.Driver{"ping": driver, "read": driver, "write": driver}, Now: func() time.Time {
			if now == nil {
				return start
			}
			return now.at
		}})
	require.NoError(t, err)
	for i := range list {
		now = &list[i]
		d, _ := k.Guard(t.Context(), now.Intent)
		r := d.Record
		said, ids = append(said, judgedOf(&r)), append(ids, r.ID)
	}
	_, err = k.Checkpoint(t.Context())
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, Write(t.Context(), &b, store, forge.Key(t, forge.SeedK1)))
	return said, ids, b.Bytes(), Options{Trust: k.Trust(), Origin: forge.Origin}
}

// TestBackTestLive: what a back-test of a log says of a candidate is what a kernel with the
// candidate says when the same calls are made of it.
func TestBackTestLive(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	step := uint64(forge.Sample(2))
	pairs := 60 / step
	if *forge.Full {
		pairs = 2000
	}
	calls, kinds, reasons := 0, map[string]int{}, map[string]int{}
	for seed := range pairs {
		d := generator{rand.New(rand.NewPCG(seed, 7))}
		filled := d.once(3)
		then, now := d.policy(t, 1, filled), d.policy(t, 2, filled || d.once(2))
		list := d.trials(t, 40)
		before, ids, pack, o := live(t, then, list)
		for i := range list {
			list[i].fails = list[i].fails && before[i].Verdict == contracts.Allow
		}
		want, _, _, _ := live(t, now, list)
		found, changes := backTested(t, pack, o, now)
		require.True(t, found.Unjudged == nil && found.Report.Replay.KernelsOwn <= 0, "pair %d: %+v", seed, found)
		for i, id := range ids {
			got := before[i]
			if at := slices.IndexFunc(changes, func(c Change) bool { return c.ID == id }); at >= 0 {
				assert.Equal(t, changes[at].Then, got, "pair %d, call %d: %s", seed, i, changes[at])
				got = changes[at].Now
				kinds[brief(changes[at])[:1]]++
			}
			if got != want[i] {
				t.Errorf("pair %d, call %d, %s %s: %s, but the kernel says %s, and said %s", seed, i, list[i].Tool,
					list[i].Args, got, want[i], before[i])
			}
			calls++
			reasons[string(got.Reason)]++
		}
		if t.Failed() {
			for _, doc := range append(then.Documents(), now.Documents()...) {
				t.Logf("%s", doc.Canonical)
			}
			return
		}
	}
	t.Logf("%d calls, changes %v, reasons %v", calls, kinds, reasons)
	assert.GreaterOrEqual(t, calls, 2400/int(step))
	assert.GreaterOrEqual(t, min(kinds["-"], kinds["+"], kinds["~"]), 100/int(step), "%v", kinds)
	assert.GreaterOrEqual(t, len(reasons), 14, "%v", reasons)
}
