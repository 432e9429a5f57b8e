package forge

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"slices"
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
			if bytes.Equal(w.made, w.pack) && bytes.Equal(w.o.Last, honest.o.Last) && w.said == "" && w.kept == nil {
				t.Fatal("nothing was done")
			}
			if got := w.shown(); got != x.says {
				t.Errorf("%s\nwant %s", got, x.says)
			}
			if x.can && slices.Contains([]string{oneRoot, enoughRoots, aFreezer}, x.holder) {
				assert.NotEqual(t, base.state.Digest(), w.report().Trust, "Report.Trust does not show it")
			}
			if !x.can && !strings.Contains(x.says, "INVALID") && !strings.HasPrefix(x.says, "INTACT") {
				t.Errorf("%s is no refusal", x.says)
			}
		})
		if says, ok := page[name]; !ok || says != x.says {
			t.Errorf("THREAT_MODEL.md has not: %s: %s, but %q", name, x.says, says)
		}
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
	w.o.Last = LastOf(m, size, merkle(leavesOf(m, size)), Origin)
}

// copied is a copy of the log as it was at some size, to be continued by another key.
func (w *adversary) copied(size int, by byte) *Maker {
	w.Helper()
	m := &Maker{TB: w.T, Store: proofgraph.NewMemory(), Trust: w.log.Trust, state: w.log.Trust, Now: w.log.Now,
		logBy: SeedL}
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
	if err != nil || !r.Success(evidence.Logged) {
		w.Fatalf("%s, %s, %v", r.Level, r.History, err)
	}
	return r
}

// refused is a call that the guardian denies; and then the holder of the kernel key records it as
// allowed.
func (w *adversary) refused(m *Maker, a Ask) {
	w.Helper()
	c := m.Call(a)
	if c.decision.Verdict != contracts.Deny {
		w.Fatalf("%s is allowed", a.Tool)
	}
	w.show(m)
	w.report()
	k := TakeApart(w, w.made)
	n := k.Nodes[len(k.Nodes)-1]
	n.by = m.By
	p, d := n.P(), n.D()
	delete(p, "outcome")
	delete(d, "pending")
	n.st["predicateType"] = "https://github.com/helmkernel/helm/decision/v1"
	d["verdict"], d["reason"], d["condition"], d["rule"], d["expires"] = "ALLOW", "ALLOW", 8, "P1:files:writers",
		p["time"]
	w.made = k.Build()
	w.said = "denied " + string(c.decision.Reason) + "; recorded as allowed " + w.shown()
}
