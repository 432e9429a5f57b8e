package evidence

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/race"
)

// manyPacks are those that must still pass, and others with budgets, the past, people, grants, and inputs that are gone.
func manyPacks(t testing.TB) map[string]testPack {
	t.Helper()
	packs := testPacks(t)
	logs := map[string]*maker{"budgets": budgetLog(t), "desk": deskLog(t).maker, "grants": newMaker(t), "events": newMaker(t), "wandering": newMaker(t)}
	for name, m := range logs {
		switch name {
		case "grants":
			grants(m)
		case "events":
			everyEvent(m)
		case "wandering":
			m.use(testPolicy(1))
			wander(m, 200, true)
		}
		m.checkpoint()
		packs[name] = testPack{pack: m.pack(), trust: m.trust}
	}
	n := 0
	years(t, 5, func(o *office) {
		pack, options := o.pack()
		n++
		packs[fmt.Sprint("office ", n)] = testPack{pack: pack, trust: options.Trust}
	})
	return packs
}

// stacksIn are the policies of a pack.
func stacksIn(t testing.TB, p testPack) (all []*guardian.Policy) {
	t.Helper()
	v := newVerifier(t.Context(), Options{Trust: p.trust})
	if err := v.inPack(bytes.NewReader(p.pack), int64(len(p.pack))); err != nil {
		t.Fatal(err)
	}
	for hash := range v.stacks.entries {
		x, f := v.stack(hash)
		if f != nil || x.policy == nil {
			t.Fatal(f, x.why)
		}
		all = append(all, x.policy)
	}
	return all
}

var versions = regexp.MustCompile(`("bundle":\{"name":"[a-z]+","version":)\d+`)

// TestBackTestOfItself: a stack changes nothing of what it judged, and neither does the same stack of a later version, but that people would
// have to be asked again, since they approved another policy.
func TestBackTestOfItself(t *testing.T) {
	race.Alone(t)
	judged, approved, unjudged := uint64(0), 0, 0
	for name, p := range manyPacks(t) {
		o := Options{Trust: p.trust, Origin: testOrigin}
		log := decisionsIn(t, p.pack)
		want, err := verifyBytes(t, p.pack, o)
		if err != nil {
			t.Fatal(name, err)
		}
		for _, stack := range stacksIn(t, p) {
			d, changes := backTested(t, p.pack, o, stack)
			for _, c := range changes {
				if log[c.Index].PolicyHash == stack.Hash() {
					t.Errorf("%s: %s", name, c)
				}
			}
			if !reflect.DeepEqual(d.Report, want) {
				t.Errorf("%s: %+v, and without the candidate %+v", name, d.Report, want)
			}
			var next []string
			for _, doc := range stack.Documents() {
				next = append(next, versions.ReplaceAllString(string(doc.Canonical), "${1}99"))
			}
			d, changes = backTested(t, p.pack, o, compiled(t, next...))
			anew := map[uint64]bool{}
			for _, c := range changes {
				if x := log[c.Index]; x.PolicyHash == stack.Hash() && (!c.Anew || len(x.Approvals) == 0) {
					t.Errorf("%s: %s", name, c)
				}
				anew[c.Index] = c.Anew
			}
			gone := map[uint64]bool{}
			for _, at := range d.Unjudged {
				gone[at] = true
			}
			for at, x := range log {
				if x.PolicyHash == stack.Hash() && len(x.Approvals) > 0 && x.Verdict == contracts.Allow && !gone[at] {
					if approved++; !anew[at] {
						t.Errorf("%s: entry %d was approved", name, at)
					}
				}
			}
			for _, at := range want.Replay.Entries {
				if !gone[at] {
					t.Errorf("%s: entry %d is judged", name, at)
				}
				delete(gone, at)
			}
			for at := range gone { // a kernel that could not read the past either
				if x := log[at]; x.Reason != contracts.ReasonFailClosedError {
					t.Errorf("%s: entry %d is not judged: %+v", name, at, x)
				}
			}
			judged, unjudged = judged+d.Judged, unjudged+len(d.Unjudged)
		}
	}
	if judged < 1000 || approved < 20 || unjudged < 100 {
		t.Errorf("%d calls judged, %d that were approved, %d not judged", judged, approved, unjudged)
	}
}

func untoldTo(t testing.TB) func(Change) error {
	return func(c Change) error {
		t.Errorf("told %s", c)
		return nil
	}
}

// TestBackTestInvalid: of a pack that does not verify there is the verifier's error, and nothing is told.
func TestBackTestInvalid(t *testing.T) {
	race.Alone(t)
	m := baseLog(t)
	m.checkpoint()
	pack := m.pack()
	o := Options{Trust: m.trust, Origin: testOrigin}
	candidate := compiled(t, mailPolicy) // nearly all is a change
	if d, changes := backTested(t, pack, o, candidate); len(changes) < 10 || d.Denied < 5 {
		t.Fatalf("%+v", d)
	}
	r := rand.New(rand.NewPCG(1, 1))
	checks := map[string]int{}
	try := func(pack []byte) {
		t.Helper()
		want, wrong := verifyBytes(t, pack, o)
		d, err := BackTest(t.Context(), bytes.NewReader(pack), int64(len(pack)), o, candidate, untoldTo(t))
		if wrong == nil || err == nil || err.Error() != wrong.Error() || !reflect.DeepEqual(d, Differences{Report: want}) {
			t.Errorf("%+v, %v, want %v", d, err, wrong)
		}
		var f *Error
		if errors.As(err, &f) {
			checks[f.Check.Error()]++
		}
	}
	for range 80 {
		bad := bytes.Clone(pack)
		bad[r.IntN(len(bad))] ^= 1 << r.IntN(8)
		try(bad)
	}
	for range 10 {
		try(pack[:r.IntN(len(pack))])
	}
	for _, cut := range []func(*model){ // what is found in the last entry, and what is found behind it
		func(m *model) { m.the("o").d()["rule"] = "P1:files:writers" },
		func(m *model) { m.blobs[m.the("o").d()["inputsHash"].(string)][0] ^= 1 },
		func(m *model) { m.note = func(string) []byte { return signNote(m, "x\n", testOrigin, seedL) } },
		func(m *model) { m.manifest = func(p object) { p["size"] = 1 } },
		func(m *model) { m.blob([]byte("nobody names it")) },
	} {
		x := takeApart(t, pack)
		cut(x)
		try(x.build())
	}
	for _, check := range []string{"ARCHIVE", "ENCODING", "SIGNATURE", "BLOB", "MANIFEST", "CHECKPOINT", "REPLAY"} {
		if checks[check] == 0 {
			t.Errorf("no pack failed by %s: %v", check, checks)
		}
	}
}

// TestBackTestAsked: what the caller gives.
func TestBackTestAsked(t *testing.T) {
	race.Alone(t)
	m := baseLog(t)
	m.checkpoint()
	pack := m.pack()
	o := Options{Trust: m.trust, Origin: testOrigin}
	candidate := compiled(t, mailPolicy)
	whole, changes := backTested(t, pack, o, candidate)
	run := func(ctx context.Context, o Options, p *guardian.Policy, each func(Change) error) (Differences, error) {
		return BackTest(ctx, bytes.NewReader(pack), int64(len(pack)), o, p, each)
	}
	for _, none := range []*guardian.Policy{nil, {}} {
		d, err := run(t.Context(), o, none, untoldTo(t))
		if !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), "candidate") || d.Report.Fault == nil || d.Report.Level != Invalid {
			t.Errorf("%+v, %v", d, err)
		}
	}
	var none context.Context // what a caller might give: it never ends
	if d, err := run(none, o, candidate, nil); err != nil || !reflect.DeepEqual(d, whole) {
		t.Errorf("told to nobody: %+v, %v", d, err)
	}
	if d, err := run(t.Context(), Options{}, candidate, nil); err != nil || d.Report.Success(Intact) || d.Denied != whole.Denied {
		t.Errorf("unpinned: %+v, %v", d, err)
	}
	if _, err := BackTest(t.Context(), nil, 0, o, candidate, untoldTo(t)); !errors.Is(err, ErrInput) {
		t.Error(err)
	}
	for stop := range changes { // at each of them
		enough, n := errors.New("enough"), 0
		d, err := run(t.Context(), o, candidate, func(c Change) error {
			if c != changes[n] {
				t.Errorf("%s, before it was %s", c, changes[n])
			}
			if n++; n > stop {
				return enough
			}
			return nil
		})
		if err != enough || n != stop+1 || !reflect.DeepEqual(d, Differences{}) {
			t.Errorf("stopped at %d of %d: %+v, %v", n, stop, d, err)
		}
	}
	ended, end := context.WithCancel(t.Context())
	d, err := run(ended, o, candidate, func(Change) error { end(); return nil })
	if err != context.Canceled || !reflect.DeepEqual(d, Differences{}) {
		t.Errorf("ended while told: %+v, %v", d, err)
	}
	if d, err := run(ended, o, candidate, untoldTo(t)); !errors.Is(err, context.Canceled) || d.Report.Level != Invalid {
		t.Errorf("ended before: %+v, %v", d, err)
	}
}

// A swapped reader gives the bytes of another pack, from some moment on.
type swapped struct {
	io.ReaderAt
	to io.ReaderAt
}

func (s *swapped) ReadAt(b []byte, at int64) (int, error) {
	if s.to != nil {
		return s.to.ReadAt(b, at)
	}
	return s.ReaderAt.ReadAt(b, at)
}

// TestBackTestChanging: when the pack changes behind the verification, nothing is told of what it became.
func TestBackTestChanging(t *testing.T) {
	race.Alone(t)
	m := newMaker(t)
	m.use(testPolicy(1))
	for i := range 60 { // more than a window reads at once
		m.allowed(ask{session: "main", tool: "fs.read", args: fmt.Sprintf(`{"path":"/srv/%d"}`, i), who: reader}).ran(`{"text":"t"}`)
	}
	m.checkpoint()
	pack := m.pack()
	o := Options{Trust: m.trust}
	candidate := compiled(t, mailPolicy)
	_, changes := backTested(t, pack, o, candidate)
	for _, x := range []io.ReaderAt{gone{}, bytes.NewReader(make([]byte, len(pack))),
		bytes.NewReader(bytes.ReplaceAll(pack, []byte("A"), []byte("B")))} {
		r := &swapped{ReaderAt: bytes.NewReader(pack)}
		n := 0
		d, err := BackTest(t.Context(), r, int64(len(pack)), o, candidate, func(c Change) error {
			if c != changes[n] {
				t.Errorf("%s, want %s", c, changes[n])
			}
			n, r.to = n+1, x
			return nil
		})
		fault := d.Report.Fault
		if d.Report = (Report{}); !errors.Is(err, ErrArchive) || fault != err || n == 0 || n == len(changes) || !reflect.DeepEqual(d, Differences{}) {
			t.Errorf("%d of %d were told: %+v, %v", n, len(changes), d, err)
		}
	}
}

// TestChangeString is how people read it.
func TestChangeString(t *testing.T) {
	allow := Judged{contracts.Allow, contracts.ReasonAllow, 8, "P1:files:write"}
	no := func(reason contracts.ReasonCode, condition int, rule string) Judged {
		return Judged{contracts.Deny, reason, condition, rule}
	}
	for want, c := range map[string]Change{
		"entry 12 main/4 fs.write: ALLOW (P1:files:write) → DENY POLICY_VIOLATION (P1:files:no-etc)": {12, "main/4", "fs.write", allow,
			no("POLICY_VIOLATION", 5, "P1:files:no-etc"), false},
		"entry 3 s/0 t: DENY NO_POLICY_DEFINED → ALLOW (P1:files:write)": {3, "s/0", "t", no("NO_POLICY_DEFINED", 5, ""), allow, false},
		"entry 0 s/0 t: DENY FAIL_CLOSED_ERROR (condition 2) → DENY FAIL_CLOSED_ERROR (condition 5)": {0, "s/0", "t", no("FAIL_CLOSED_ERROR", 2, ""),
			no("FAIL_CLOSED_ERROR", 5, ""), false},
		"entry 1 s/0 t: ALLOW (P1:files:write) → DENY APPROVAL_INVALID (P0:a:b), to be approved anew": {1, "s/0", "t", allow,
			no("APPROVAL_INVALID", 4, "P0:a:b"), true},
	} {
		if got := c.String(); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}
