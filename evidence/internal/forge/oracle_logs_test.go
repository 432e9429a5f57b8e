package forge

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/internal/race"
)

// TestOraclePast has the second implementation verify the log of FixtureLog, and spoil whatever it
// can of what was read of the past and presented.
func TestOraclePast(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	o := newOracle(t, "a log of approvals, receipts and calls, and its mutations (TestLies has its own)")
	d := FixtureLog(t)
	pack := d.Pack(evidence.Write)
	o.agrees(pack, d.Trust)
	names, step, at, asked := regexp.MustCompile("approval|^pending|^inputs-|^decision-|^receipt-"), Sample(3), 0,
		map[string]bool{}
	about := func(name string) bool {
		if names.MatchString(name) {
			at++
			asked[name] = at%step == 0
		}
		return asked[name]
	}
	idle := words(t, "testdata/inapplicable_past.txt")
	refused := 0
	var nothing []string
	for x := range o.spoil(pack, about, SeedK1, SeedL) {
		if x.pack == nil {
			nothing = append(nothing, x.name)
			continue
		}
		_, err := verifyBytes(t, x.pack, evidence.Options{Trust: d.Trust, Origin: Origin})
		var e *evidence.Error
		assert.True(t, errors.As(err, &e) && e.Check.Error() == x.check, "%s: %v, want %s", x.name, err, x.check)
		refused++
	}
	idle = slices.DeleteFunc(idle, func(name string) bool { return !asked[name] })
	assert.Equal(t, idle, nothing, "the mutations that find nothing")
	assert.GreaterOrEqual(t, refused, 50/step-step+1, "mutations were refused")
	t.Logf("%d refused", refused)
}

// TestOracleEvents takes of a pack that the oracle makes the trust events and the one session that
// nothing else of it is needed for. Both implementations must find the same in it, and refuse it
// with the same check when the oracle spoils keys, events and states.
func TestOracleEvents(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	o := newOracle(t, "trust events which it makes (TestTamper has its own)")
	m := o.gen("-erased")
	m.Nodes = slices.DeleteFunc(m.Nodes,
		func(n *Node) bool { return n.Text("session") != "" && n.Text("session") != "wasm" })
	m.relink()
	events := 0
	for _, n := range m.Nodes {
		if n.Kind() == "trust" {
			events++
		}
	}
	pack := m.Build()
	pin := fmt.Sprintf("%x", Public(t, seedG1))
	options := evidence.Options{Kernel: Public(t, seedG1), Origin: m.origin}
	r, err := verifyBytes(t, pack, options)
	require.True(t, err == nil && events == 7 && r.Allows >= 2 && r.Denials >= 1, "%d events, %+v, %v", events, r, err)
	require.Equal(t, FindingOf(t, r), o.verify(pack, "-key", pin).Finding)
	require.True(t, r.Success(evidence.Logged))

	words := regexp.MustCompile("trust|threshold|freeze|frozen|root|key|delegat")
	at, step := 0, Sample(3)
	about := func(name string) bool {
		at++
		other := regexp.MustCompile("^(condense|gap|tool)-").MatchString(name) // of no trust event
		return at%step == 0 && words.MatchString(name) && !other
	}
	otherwise := map[string]string{ // as the oracle finds too
		"signed-by-another-key-under-our-keyid": "KEY", // the first decision is by the second key
		"delegation-not-presented":              "-",   // the inputs are erased
	}
	refused, idle := 0, 0
	for x := range o.spoil(pack, about, seedG1, seedG2) {
		if x.pack == nil {
			idle++
			continue
		}
		_, err := verifyBytes(t, x.pack, options)
		var e *evidence.Error
		ours, want := "-", x.check
		if errors.As(err, &e) {
			ours = e.Check.Error()
			refused++
		}
		if other, ok := otherwise[x.name]; ok {
			want = "-"
			if theirs := o.verify(x.pack, "-key", pin); len(theirs.Errors) > 0 {
				want = theirs.Errors[0].Check
			}
			assert.Equal(t, want, other, "%s: the oracle says", x.name)
		}
		assert.Equal(t, want, ours, "%s: %v", x.name, err)
	}
	assert.GreaterOrEqual(t, refused, 75/step-5*(step-1), "mutations were refused")
	t.Logf("%d events; %d mutations refused, %d inapplicable", events, refused, idle)
}

// TestOracleErased has both implementations judge packs from which everything was erased that may
// be, and whatever the second one makes of them: without inputs some of what it spoils is no fault
// any more, or another. They must say the same. -full tries every mutation; without it one in
// twelve.
func TestOracleErased(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	o := newOracle(t, "erased packs, and their mutations (TestTamper and TestNotReplayable have their own)")
	t.Run("ours", func(t *testing.T) {
		made := BaseLog(t)
		made.Checkpoint()
		m := TakeApart(t, made.Pack(evidence.Write))
		erase(m)
		o.T = t
		o.erased(m.Build(), evidence.Options{Trust: made.Trust, Origin: Origin},
			[]string{"-trust", o.file("trust.json", made.Trust.Canonical())}, SeedK1, seedK2, SeedL)
	})
	t.Run("theirs", func(t *testing.T) {
		o.T = t
		m := o.gen("-erased")
		o.erased(m.Build(), evidence.Options{Kernel: Public(t, seedG1), Origin: m.origin},
			[]string{"-key", fmt.Sprintf("%x", Public(t, seedG1))}, seedG1, seedG2)
	})
}

// erased takes the pack, the options of both, and the keys.
func (o *oracle) erased(pack []byte, options evidence.Options, told []string, seeds ...byte) {
	o.Helper()
	told = append(told, "-origin", options.Origin)
	r, err := verifyBytes(o.T, pack, options)
	require.NoError(o, err)
	require.Equal(o, FindingOf(o, r), o.verify(pack, told...).Finding)
	require.True(o, r.Success(evidence.Logged) && len(r.Erased) >= 15)
	i, tried, refused, passed, later := 0, 0, 0, 0, 0
	about := func(string) bool { i++; return *Full || i%(12*Sample(3)) == 0 }
	for x := range o.spoil(pack, about, seeds...) {
		if x.pack == nil {
			continue
		}
		tried++
		_, err := verifyBytes(o.T, x.pack, options)
		if withdrawn(err) {
			later++
			continue
		}
		ours, theirs := "-", "-"
		var e *evidence.Error
		if errors.As(err, &e) {
			ours = e.Check.Error()
			refused++
		} else {
			passed++
		}
		if f := o.verify(x.pack, told...); len(f.Errors) > 0 {
			theirs = f.Errors[0].Check
		}
		assert.Equal(o, theirs, ours, "%s, of %s: %v", x.name, x.check, err)
	}
	o.Logf("%d mutations: %d refused, %d no fault, %d refused by name", tried, refused, passed, later)
	assert.True(o, refused >= 20/Sample(3) && (!*Full || refused >= 300), "too few were refused")
}

// gen returns a pack that the second implementation generates. For both implementations its
// policies are another engine's, so that no verdict is made again, and what its inputs say of the
// past stays.
func (o *oracle) gen(args ...string) *Model {
	o.Helper()
	whole := filepath.Join(o.dir, "gen.tar")
	if said, status := o.run(append(append([]string{"gen"}, args...), whole)...); status != 0 {
		o.Fatal(said)
	}
	pack, err := os.ReadFile(whole)
	require.NoError(o, err)
	m := TakeApart(o.T, pack)
	m.origin, m.logBy = m.Nodes[0].Text("origin"), seedGL
	hashes := map[any]any{} // of policies, as they were
	messages, facts, grants := 0, 0, 0
	for _, n := range m.Nodes {
		p := n.P()
		switch n.Kind() {
		case "message":
			messages++
		case "policy":
			p["engine"] = Object{"rules": 3, "threat": 0}
			hashes[p["policy"]] = HexOf(Object{"documents": p["documents"], "engine": p["engine"]})
		case "receipt":
			if p["factsHash"] != nil {
				facts++
			}
			if box, ok := p["sandbox"].(Object); ok && box["grants"] != nil {
				grants++
			}
		}
		d := n.D()
		if d == nil {
			continue
		}
		require.NotNil(o, hashes[d["policyHash"]])
		d["policyHash"] = hashes[d["policyHash"]]
		if m.Blobs[d["inputsHash"].(string)] != nil && d["approvals"] != nil {
			approved(m, n)
		}
	}
	require.True(o, messages == 2 && facts >= 2 && grants >= 4, "%d messages, %d facts, %d grants", messages, facts,
		grants)
	m.retrust() // there are entries less, and keys are there since another index
	return m
}

// approved puts whole approvals in the place of those that have but a nonce.
func approved(m *Model, n *Node) {
	digest, err := crypto.ParseDigest([]byte(n.D()["argsHash"].(string)))
	require.NoError(m, err)
	r := contracts.ApprovalRequest{ArgsHash: digest, Caller: Reader, Expires: Start, Nonce: strings.Repeat("0d", 16),
		Quorum: 2, Roles: []string{"lead"}, Session: n.Text("session"), Tool: "mail.send"}
	var list []any
	names := map[string]bool{}
	for _, seed := range []byte{SeedA, seedA2} {
		e, err := r.Approve(Key(m, seed))
		require.NoError(m, err)
		list, names[crypto.Sum(e).String()] = append(list, parseObject(m, e)), true
	}
	n.D()["approvals"] = sortedAny(names)
	m.inputs(n, func(in Object) { in["envelopes"].(Object)["approvals"] = list })
}

// TestOracleGen: both implementations find the same in that pack, and refuse it with the same check
// whatever the second one spoils.
func TestOracleGen(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	if testing.Short() {
		t.Skip("-short: the oracle's mutations take ten seconds; without it they run")
	}
	o := newOracle(t, "packs which it makes (TestTamper has its own)")
	m := o.gen()
	pack := m.Build()
	pin := fmt.Sprintf("%x", Public(t, seedG1))
	theirs := o.verify(pack, "-key", pin)
	options := evidence.Options{Kernel: Public(t, seedG1), Origin: m.origin}
	r, err := verifyBytes(t, pack, options)
	if err != nil || !r.Success(0) || !theirs.Success || theirs.MerkleRoot != r.MerkleRoot.String() ||
		theirs.ProofGraphHash != r.ProofGraphHash.String() || len(r.Replay.Engines) != 1 {
		t.Fatalf("ours   %+v, %v\ntheirs %+v", r, err, theirs)
	}
	idle := words(t, "testdata/inapplicable_gen.txt")
	refused, later, passed := 0, 0, 0
	var nothing []string
	for x := range o.spoil(pack, nil, seedG1, seedG2) {
		if x.pack == nil {
			nothing = append(nothing, x.name)
			continue
		}
		_, err := verifyBytes(t, x.pack, options)
		var e *evidence.Error
		ours := "-"
		if errors.As(err, &e) {
			ours = e.Check.Error()
		}
		switch {
		case ours == x.check:
			refused++
		case withdrawn(err):
			later++
		default: // of another engine's verdicts nothing is compared with the log, nor with the documents
			theirs := "-"
			if f := o.verify(x.pack, "-key", pin); len(f.Errors) > 0 {
				theirs = f.Errors[0].Check
			}
			assert.Equal(t, theirs, ours, "%s, of %s: %v", x.name, x.check, err)
			passed++
		}
	}
	t.Logf("%d mutations refused, %d more by name, %d no fault or another", refused, later, passed)
	assert.Equal(t, idle, nothing, "the mutations that find nothing")
	assert.True(t, refused >= 470 && later <= 60 && passed <= 75, "%d were refused, %d by name, and %d not",
		refused, later, passed)
}

// TestOracleSandboxes has the second implementation verify SandboxLog, and spoil whatever it can of
// sandboxes in inputs and receipts. RERUN is not asked: every one of them is found before.
func TestOracleSandboxes(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	o := newOracle(t, "a log of sandboxes, and its mutations (TestRerunFinds has its own)")
	b := newBoxed(t)
	o.agrees(b.pack, b.Trust)
	m := TakeApart(t, b.pack)
	erase(m)
	o.agrees(m.Build(), b.Trust)
	names, step, at := regexp.MustCompile("^sandbox-|^inputs-sandbox|^inputs-grants|^profile-long"), Sample(3), 0
	about := func(name string) bool {
		if !names.MatchString(name) {
			return false
		}
		at++
		return at%step == 0
	}
	trust := o.file("trust.json", b.Trust.Canonical())
	refused := 0
	var nothing []string
	for x := range o.spoil(b.pack, about, SeedK1, SeedL) {
		if x.pack == nil {
			nothing = append(nothing, x.name)
			continue
		}
		_, err := verifyBytes(t, x.pack, evidence.Options{Trust: b.Trust, Origin: Origin})
		var e *evidence.Error
		require.True(t, errors.As(err, &e) && e.Check.Error() == x.check, "%s: %v, want %s", x.name, err, x.check)
		theirs := o.verify(x.pack, "-trust", trust, "-origin", Origin).Errors[0]
		assert.True(t, theirs.Check == x.check && (e.Check == errBlob || theirs.Index == e.Entry), "%s: %v; the oracle says %+v",
			x.name, err, theirs)
		refused++
	}
	assert.Subset(t, []string{"inputs-grants-env-order"}, nothing, "mutations that find nothing") // no closed one has two
	assert.GreaterOrEqual(t, refused, 53/step, "mutations were refused")
	t.Logf("%d refused", refused)
}

// TestOracleKnows has the second implementation verify KnowsLog, whole and with what was said
// erased, and spoil whatever it can of what a session knows.
func TestOracleKnows(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	o := newOracle(t, "a log of messages, facts and marks, and its mutations (TestKnows has its own)")
	made, pack, options := knowsPack(t)
	o.agrees(pack, made.Trust)
	m := TakeApart(t, pack)
	for _, n := range m.Nodes {
		for _, k := range []string{"factsHash", "textHash"} {
			delete(m.Blobs, n.Text(k))
		}
	}
	o.agrees(m.Build(), made.Trust)
	names := regexp.MustCompile("^message-|^facts-|^inputs-(source|found|taint|label|receipt)|^parent-that|" +
		"^(output-)?signals-")
	// these need facts by other pointers than the log has, or receipts in another order
	others := regexp.MustCompile("^facts-value-added|^inputs-receipt-facts-count-by-pointer|^inputs-receipt-passed-over")
	refused, at, step := 0, 0, Sample(8)
	about := func(name string) bool {
		at++
		return at%step == 0 && names.MatchString(name) && !others.MatchString(name)
	}
	var nothing []string
	for x := range o.spoil(pack, about, SeedK1, SeedL) {
		if x.pack == nil {
			nothing = append(nothing, x.name)
			continue
		}
		_, err := verifyBytes(t, x.pack, options)
		var e *evidence.Error
		assert.True(t, errors.As(err, &e) && e.Check.Error() == x.check, "%s: %v, want %s", x.name, err, x.check)
		refused++
	}
	t.Logf("%d refused", refused)
	assert.GreaterOrEqual(t, refused, 100/step-step+1, "mutations were refused")
	if step == 1 { // which need what only the oracle's own pack has
		assert.Equal(t, []string{"signals-of-a-refusal", "output-signals-of-a-failure-not-asked-for",
			"output-signals-of-an-unknown-outcome", "output-signals-that-give-a-label", "facts-key-missing"}, nothing)
	}
}
