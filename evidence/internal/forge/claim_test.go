package forge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph"
)

// A claim is one of THREAT_MODEL.md about the holder of a key, the store, a pack or nothing:
// they do it, and the verifier says exactly that.
type claim struct {
	holder string // the heading
	can    bool   // or cannot, and tries
	claim  string // what, and says: word for word
	says   string
	do     func(w *adversary)
}

func allClaims() []claim {
	return slices.Concat(outsiders, keepers, kernels, logs, roots, people, revokeds)
}

// An adversary has the base log and keys of it. The auditor has the trust root, the
// origin and, at times, a kept checkpoint.
type adversary struct {
	*tampered
	log  *Maker // the base log
	made []byte // the pack that the auditor is shown
	kept *Maker // instead of it: the log that is verified in its store
	said string // instead of what the verifier says
}

// shown is what the auditor learns: alone, and then with the kept checkpoint, if that makes a
// difference.
func (w *adversary) shown() string {
	w.Helper()
	if w.said != "" {
		return w.said
	}
	say := func(o evidence.Options) (string, string) {
		r, err := w.verify(o)
		if err != nil {
			var e *evidence.Error
			require.ErrorAs(w, err, &e)
			mustRefuse(w.T, r, err, e.Check)
			return "INVALID: " + e.Check.Error(), ""
		}
		s := r.Level.String()
		if r.Signer != evidence.Trusted {
			s += ", " + r.Signer.String()
		}
		if n := r.Replay.NotReplayable; n > 0 {
			s += fmt.Sprintf(", %d not replayable", n)
		}
		if r.Success(evidence.Logged) != (r.Level == evidence.Logged && r.Signer == evidence.Trusted &&
			(r.History == evidence.None || r.History == evidence.Fresh)) {
			w.Errorf("success: %v", r.Success(evidence.Logged))
		}
		return s, r.History.String()
	}
	o := w.o
	o.Last = nil
	s, history := say(o)
	if history == "" {
		return s
	}
	kept, then := say(w.o)
	if s != kept {
		return fmt.Sprintf("%s; kept: %s, %s", s, kept, then)
	}
	return fmt.Sprintf("%s, %s; kept: %s", s, history, then)
}

// TestPowers has each holder do what THREAT_MODEL.md says that they can, and try what it says that
// they cannot. The page has the same claims, word for word, so that neither can be changed alone.
func TestPowers(t *testing.T) {
	race.Alone(t)
	page := claimed(t)
	base := BaseLog(t)
	base.Checkpoint()
	honest := newTampered(t)
	for _, x := range allClaims() {
		can := "cannot"
		if x.can {
			can = "can"
		}
		name := x.holder + "/" + can + " " + x.claim
		t.Run(name, func(t *testing.T) {
			w := &adversary{tampered: &tampered{T: t, pack: honest.pack, o: honest.o}, log: base}
			w.made = w.pack
			x.do(w)
			require.False(t, bytes.Equal(w.made, w.pack) && bytes.Equal(w.o.Last, honest.o.Last) && w.said == "" &&
				w.kept == nil, "nothing was done")
			if got := w.shown(); got != x.says {
				t.Errorf("%s\nwant %s", got, x.says)
			}
			if x.can && slices.Contains([]string{oneRoot, enoughRoots, aFreezer}, x.holder) {
				assert.NotEqual(t, base.state.Digest(), w.report().Trust, "Report.Trust does not show it")
			}
			assert.False(t, !x.can && !strings.Contains(x.says, "INVALID") && !strings.HasPrefix(x.says, "INTACT"),
				"%s is no refusal", x.says)
		})
		says, ok := page[name]
		assert.True(t, ok && says == x.says, "THREAT_MODEL.md has not: %s: %s, but %q", name, x.says, says)
		delete(page, name)
	}
	for name, says := range page {
		t.Errorf("THREAT_MODEL.md claims, and there is no such row: %s: %s", name, says)
	}
}

// claimed are those of the page that this test is to hold, and what the verifier says of each. The
// others name their tests.
func claimed(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/THREAT_MODEL.md")
	require.NoError(t, err)
	held := map[string]string{}
	holder, sides := "", map[string]bool{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if h, ok := strings.CutPrefix(line, "### "); ok {
			holder = h
		}
		f := strings.Split(line, " | ")
		if can := strings.TrimPrefix(f[0], "| "); can != f[0] && (can == "can" || can == "cannot") {
			if len(f) != 4 || !regexp.MustCompile("`Test[A-Za-z]+`").MatchString(f[3]) {
				t.Errorf("THREAT_MODEL.md: %s: %s: no test holds that", holder, line)
				continue
			}
			sides[holder+"/"+can] = true
			if strings.Contains(f[3], "`TestPowers`") {
				held[holder+"/"+can+" "+f[1]] = f[2]
			}
		}
	}
	for _, h := range holders {
		for _, can := range []string{"can", "cannot"} {
			assert.True(t, sides[h+"/"+can], "THREAT_MODEL.md does not say what %s %s", h, can)
		}
	}
	return held
}

// holders are those of whom the page must say both sides.
var holders = []string{nobody, aPack, theStore, kernelAndLog, kernelOnly, logOnly, oneRoot, enoughRoots, oldRoots,
	aFreezer, anApprover, anAttestor, aPublisher,
	aDelegator, aRevoked}

const (
	nobody       = "The holder of nothing"
	aPack        = "The holder of a pack"
	theStore     = "The holder of the store"
	kernelAndLog = "The holder of the kernel key and the log key"
	kernelOnly   = "The holder of the kernel key, without the log key"
	logOnly      = "The holder of the log key alone"
	oneRoot      = "The holder of one root key"
	enoughRoots  = "The holder of enough root keys"
	oldRoots     = "The holder of enough root keys that were replaced"
	aFreezer     = "The holder of a freezer's key"
	anApprover   = "The holder of an approver's key"
	anAttestor   = "The holder of an attestor's key"
	aPublisher   = "The holder of a publisher's key"
	aDelegator   = "The holder of a delegator's key"
	aRevoked     = "The holder of a revoked key"
)

// falsified takes the log apart and puts it together again, signed with what keys the rows say.
func falsified(cuts ...func(m *Model)) func(*adversary) {
	return func(w *adversary) {
		m := TakeApart(w, w.pack)
		both(cuts...)(m)
		w.made = m.Build()
	}
}

// keep has the auditor have kept the checkpoint of that size.
func (w *adversary) keep(size int) {
	m := TakeApart(w, w.pack)
	m.Build()
	w.o.Last = LastOf(m, size, rootOf(m, size), Origin)
}

// copied is a copy of the log as it was at some size, to be continued by another key.
func (w *adversary) copied(size int, by byte) *Maker {
	w.Helper()
	m := &Maker{TB: w.T, origin: Origin, Store: proofgraph.NewMemory(), Trust: w.log.Trust, state: w.log.Trust,
		Now: w.log.Now, logBy: SeedL}
	b := proofgraph.Batch{}
	var r contracts.Reader
	for e, err := range w.log.Store.Entries(w.Context(), 0, uint64(size)) {
		require.NoError(m, err)
		sealed, err := r.Open(e)
		require.NoError(w, err)
		st, err := sealed.Statement()
		require.NoError(w, err)
		if st.Trust != nil {
			m.state, err = m.state.Apply(st.Trust, Origin, uint64(len(b.Entries)))
			require.NoError(m, err)
		}
		b.Entries = append(b.Entries, e)
	}
	for _, x := range Untar(w, w.pack)[3:] {
		b.Blobs = append(b.Blobs, x.Body)
	}
	require.NoError(m, m.Store.Append(w.Context(), b))
	m.open(by, [16]byte{})
	return m
}

// goesOn is copied, with calls since then.
func (w *adversary) goesOn(size int, by byte, calls int) *Maker {
	w.Helper()
	m := w.copied(size, by)
	if calls > 0 {
		m.Use(BasePolicy(5), MailPolicy)
	}
	for range calls {
		m.Allowed(Ask{Session: "since", Tool: "fs.list", Args: `{}`, Who: Reader}).Ran(`[]`)
	}
	return m
}

// show packs a log.
func (w *adversary) show(m *Maker) {
	w.Helper()
	m.Checkpoint()
	w.made = m.Pack(evidence.Write)
}

func (w *adversary) verify(o evidence.Options) (evidence.Report, error) {
	w.Helper()
	if w.kept != nil {
		return evidence.VerifyStore(w.Context(), w.kept.Store, o)
	}
	return verifyBytes(w.T, w.made, o)
}

// report is that of what passes.
func (w *adversary) report() evidence.Report {
	w.Helper()
	r, err := w.verify(w.o)
	require.True(w, err == nil && r.Success(evidence.Logged), "%s, %s, %v", r.Level, r.History, err)
	return r
}

// refused is a call that the guardian denies; and then the holder of the kernel key records it as
// allowed.
func (w *adversary) refused(m *Maker, a Ask) {
	w.Helper()
	c := m.Call(a)
	require.Equal(w, contracts.Deny, c.decision.Verdict, "%s is allowed", a.Tool)
	w.show(m)
	w.report()
	k := TakeApart(w, w.made)
	n := k.Nodes[len(k.Nodes)-1]
	n.by = m.By
	p, d := n.P(), n.D()
	delete(p, "outcome")
	delete(d, "pending")
	n.st["predicateType"] = "https://github.com/helmkernel/helm/decision/v1"
	d["verdict"], d["reason"], d["condition"], d["rule"], d["expires"] = "ALLOW", "ALLOW", 8, "P1:files:writers", p["time"]
	w.made = k.Build()
	w.said = "denied " + string(c.decision.Reason) + "; recorded as allowed " + w.shown()
}

// free are the values of the base log that the holder of every key may choose, by entry.
// Nothing in the log or the policy, and nothing that others signed, says what they are.
const free = `(j|k|none|q|r|sf) in\.drivers` + // of calls that were refused before anybody counted
	`|(e1|eu) in\.envelopes\.attestations\..*` + // which no policy asked for
	`|(x|ro) p\.time` + // of the last in its session: later, since nothing comes after it
	`|y2 p\.sandbox\.gas` // what a sandbox says of itself

// A spot is one value of a record.
type spot struct {
	path string
	is   any
	set  func(any)
}

// spots are all values under one, in order.
func spots(path string, x any, set func(any)) (list []spot) {
	switch y := x.(type) {
	case Object:
		for _, k := range slices.Sorted(maps.Keys(y)) {
			list = append(list, spots(path+"."+k, y[k], func(v any) { y[k] = v })...)
		}
		return list
	case []any:
		for i, v := range y {
			list = append(list, spots(path+"."+strconv.Itoa(i), v, func(v any) { y[i] = v })...)
		}
	}
	return append(list, spot{path, x, set})
}

// others are values of the same kind.
func others(x any) []any {
	switch y := x.(type) {
	case string:
		switch {
		case len(y) == 64:
			return []any{ones64, zeros64}
		case strings.HasPrefix(y, "20") && strings.HasSuffix(y, "Z"):
			return []any{y[:20] + "999Z"}
		}
		return []any{y + "x", "ALLOW", "EXECUTED", "main", "fs.list", "s2", ""}
	case json.Number:
		n, _ := y.Int64()
		return []any{n + 1, n - 1, 0}
	case int:
		return []any{y + 1, y - 1}
	case bool:
		return []any{!y}
	case []any:
		if len(y) > 0 {
			return []any{y[1:], y[:len(y)-1]}
		}
	}
	return nil
}

// fields returns the record in question: the predicate of an entry, or the inputs that it names;
// done puts a changed one back.
func fields(m *Model, n *Node, part string) (root Object, done func()) {
	if part == "p" {
		return n.P(), func() {}
	}
	old := n.D()["inputsHash"].(string)
	in := parseObject(m, m.Blobs[old])
	return in, func() {
		delete(m.Blobs, old)
		n.D()["inputsHash"] = m.blob(canonical(in))
	}
}

// TestNoFieldIsFree sets every value in every entry of the base log, and in its inputs, another
// one, and makes all that depends on it right again and signs it, as the holder of the kernel key
// and the log key can. Whatever is not listed is refused.
func TestNoFieldIsFree(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	base := BaseLog(t)
	base.Checkpoint()
	pack, o := base.Pack(evidence.Write), evidence.Options{Trust: base.Trust, Origin: Origin}
	isFree := regexp.MustCompile("^(" + free + ")$")
	step, at, tried, passed := 37*Sample(3), 0, 0, 0
	if *Full {
		step = 1
	}
	whole := TakeApart(t, pack)
	for i, node := range whole.Nodes {
		for _, part := range []string{"p", "in"} {
			if part == "in" && node.D() == nil {
				continue
			}
			root, _ := fields(whole, node, part)
			for k, s := range spots(part, root, nil) {
				for _, other := range others(s.is) {
					if at++; at%step != 0 {
						continue
					}
					m := TakeApart(t, pack)
					n := m.Nodes[i]
					root, done := fields(m, n, part)
					spots(part, root, nil)[k].set(other)
					done()
					falsified := rebuilt(m)
					if falsified == nil || bytes.Equal(falsified, pack) {
						continue
					}
					tried++
					r, err := verifyBytes(t, falsified, o)
					name := baseNames[i] + " " + s.path
					switch {
					case err != nil:
						assert.Equal(t, evidence.Invalid, r.Level, "%s: %v, and", name, err)
					case !isFree.MatchString(name):
						t.Errorf("%s: %v instead of %v passes", name, other, s.is)
					default:
						passed++
					}
				}
			}
		}
	}
	t.Logf("%d of %d tried, %d of them free", tried, at, passed)
	assert.True(t, tried >= at/step/2 && (!*Full || passed >= 10) && tried >= 90/Sample(3),
		"only %d of %d were tried, %d were free", tried, at, passed)
}

// rebuilt is nil if the forger cannot make sense of the change.
func rebuilt(m *Model) (b []byte) {
	defer func() { _ = recover() }()
	return m.Build()
}
