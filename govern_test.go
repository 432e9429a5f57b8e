package helm_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/trust/registry"
)

// Every type of event, through the kernel and through one that was narrowed from it. Each call is judged under the state of its place; auditors
// need the initial one and no other, and the second implementation finds the same.
func TestGovern(t *testing.T) {
	w := newRealm(t)
	initial := w.k.Trust()
	task := w.narrow(w.k, few(t, "task", 1, 5))
	w.mustAllow(w.k, 1)
	w.govern(w.adding(seedK2, "kernel 2", registry.Kernel), seedR1, seedR2)
	w.mustAllow(w.k, 1)
	w.govern(w.adding(seedL2, "log 2", registry.Log), seedR3, seedR2)
	w.govern(w.enthroning(1, seedR1, seedR4), seedR1, seedR2, seedR4)
	w.mustAllow(task, 1)
	w.govern(w.revoking(seedA), seedR4)
	if err := task.Govern(context.Background(), signed(t, w.freezing(), seedF)); err != nil {
		t.Fatal(err)
	}
	d, r := w.of(w.k, 1)
	w.mustBe(d, r, want{reason: contracts.ReasonSystemFrozen, outcome: contracts.Denied, err: helm.ErrDenied})
	w.govern(w.thawing(), seedR1)
	w.mustAllow(w.k, 1)
	grant := crypto.Sum([]byte("a grant"))
	w.govern(w.event(contracts.TrustEvent{Type: "undelegate", Delegation: &grant, Delegator: "dan"}), seedD)
	w.mustDeny(task, 6, "P2:task:few")

	s := w.present()
	if _, ok := s.Holder(*keyID(t, seedA), registry.Approver, w.size()); ok || s.Version() != 8 || !s.Revoked(grant) || s.Frozen() {
		t.Errorf("in the end: %s", s.Canonical())
	}
	if w.k.Trust() != initial || task.Trust() != initial {
		t.Error("what auditors are given has changed")
	}
	if n := w.mustRule(); n != 6 {
		t.Errorf("%d judgements", n)
	}
	report := w.mustVerify()
	if report.Trust != s.Digest() || report.Replay.NotReplayable != 0 {
		t.Errorf("the report: %s, %+v", report.Trust, report.Replay)
	}
	w.mustAgree(report)
}

// What is refused leaves no entry, and the state as it was; the error says what is wanted. Nothing but the log's own rules lets it in.
func TestGovernRefused(t *testing.T) {
	w := newRealm(t)
	other := newRealm(t)
	w.mustAllow(w.k, 1)
	old := w.freezing()
	w.govern(old, seedF)
	w.govern(w.thawing(), seedR1, seedR2)
	w.govern(w.enthroning(2, seedR1, seedR2, seedR4), seedR1, seedR2, seedR4) // and no more root 3
	w.govern(w.adding(seedK2, "kernel 2", registry.Kernel), seedR1, seedR2)
	w.govern(w.revoking(seedK2), seedR1, seedR2)

	set := func(e contracts.TrustEvent, f func(e *contracts.TrustEvent)) contracts.TrustEvent { f(&e); return e }
	add := w.adding(seedX, "new", registry.Approver, "owner")
	twice := func(e contracts.Envelope) contracts.Envelope { // the first signature once more
		from := bytes.Index(e, []byte(`"signatures":[`)) + len(`"signatures":[`)
		end := from + bytes.IndexByte(e[from:], '}') + 1
		return append(bytes.Clone(e[:end]), append([]byte(","), e[from:]...)...)
	}
	before, digest := w.size(), w.present().Digest()
	for name, x := range map[string]struct {
		event contracts.Envelope
		says  string
	}{
		"nothing":                    {nil, "ENCODING"},
		"no JSON":                    {contracts.Envelope("freeze!"), "ENCODING"},
		"no envelope":                {contracts.Envelope("{}"), "ENVELOPE"},
		"white space":                {append(signed(t, w.freezing(), seedF), '\n'), "ENCODING"},
		"too large":                  {signed(t, set(add, func(e *contracts.TrustEvent) { e.Type, e.ID = "key", keyID(t, seedX); e.Roles = make([]string, 5000) })), "over"},
		"of another type":            {contracts.Envelope(strings.Replace(string(signed(t, w.freezing(), seedF)), "trust-event", "in-toto", 1)), "payloadType"},
		"that nobody knows":          {signed(t, set(w.freezing(), func(e *contracts.TrustEvent) { e.Type = "melt" })), ""},
		"for another log":            {signed(t, w.event(contracts.TrustEvent{Type: "freeze", Origin: "example.test/other"}), seedF), "another log than example.test/helm"},
		"of a log of the same name":  {signed(t, other.freezing(), seedF), "version: 2, want 7"},
		"again":                      {signed(t, old, seedF), "version: 2, want 7"},
		"the version of now":         {signed(t, set(w.freezing(), func(e *contracts.TrustEvent) { e.Version-- }), seedF), "version: 6, want 7"},
		"a version ahead":            {signed(t, set(w.freezing(), func(e *contracts.TrustEvent) { e.Version++ }), seedF), "version: 8, want 7"},
		"unsigned":                   {signed(t, add), ""},
		"one signature of two":       {signed(t, add, seedR1), "1 of root keys, want 2: ask root 2, root 4"},
		"one signature twice":        {twice(signed(t, add, seedR1)), "not sorted"},
		"a root that was replaced":   {signed(t, add, seedR1, seedR3), "no say"},
		"… though two are enough":    {signed(t, add, seedR1, seedR2, seedR3), "no say"},
		"the kernel itself":          {signed(t, add, 1, seedR1), "no say"},
		"an approver":                {signed(t, add, seedA, seedR1), "no say"},
		"another's signature":        {bytes.Replace(signed(t, add, seedR1, seedR2), b64of(t, seedR1, add), b64of(t, seedR2, add), 1), "does not verify"},
		"no proof":                   {signed(t, set(add, func(e *contracts.TrustEvent) { e.Proof = make([]byte, 64) }), seedR1, seedR2), "proof: not the new key's"},
		"another's proof":            {signed(t, set(add, func(e *contracts.TrustEvent) { e.Proof = sig(t, seedR1, e.ProofMessage()) }), seedR1, seedR2), "proof: not the new key's"},
		"the proof of another event": {signed(t, set(add, func(e *contracts.TrustEvent) { e.Name = "eve" }), seedR1, seedR2), "proof: not the new key's"},
		"a root by an event key":     {signed(t, w.adding(seedX, "eve", registry.Root), seedR1, seedR2), "only an event of type root"},
		"a key that was revoked":     {signed(t, w.adding(seedK2, "kernel 2", registry.Kernel), seedR1, seedR2), "never returns"},
		"a root that was left out":   {signed(t, w.enthroning(1, seedR1, seedR3), seedR1, seedR2, seedR3), "never returns"},
		"by the old roots alone":     {signed(t, w.enthroning(1, seedX), seedR1, seedR2), "0 of the new root keys, want 1"},
		"by the new root alone":      {signed(t, w.enthroning(1, seedX), seedX), "0 of root keys, want 2: ask root 1, root 2, root 4"},
		"a freeze by an approver":    {signed(t, w.freezing(), seedA), "no say"},
		"a freeze by the kernel":     {signed(t, w.freezing(), 1), "no say"},
		"a freeze by nobody":         {signed(t, w.freezing()), ""},
		"an unfreeze, unfrozen":      {signed(t, w.thawing(), seedR1, seedR2), "nothing changes"},
		"a key that nobody has":      {signed(t, w.revoking(seedX), seedR1, seedR2), "of no key"},
		"a key revoked before":       {signed(t, w.revoking(seedK2), seedR1, seedR2), "revoked before"},
		"the one kernel key":         {signed(t, w.revoking(1), seedR1, seedR2), "no kernel key or no log key"},
	} {
		for _, k := range []*helm.Kernel{w.k, w.narrow(w.k, few(t, "task", 1, 5))} {
			before = max(before, w.size())
			err := k.Govern(context.Background(), x.event)
			if err == nil || !strings.HasPrefix(err.Error(), "helm: govern: ") || !strings.Contains(err.Error(), x.says) {
				t.Errorf("%s: %v, want %s", name, err, x.says)
			}
			if n := w.size(); n != before {
				t.Errorf("%s: wrote %d entries", name, n-before)
			}
		}
	}
	bg := context.Background()
	good := signed(t, w.freezing(), seedF)
	ended, cancel := context.WithCancel(bg)
	cancel()
	if err := w.k.Govern(ended, good); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("with an ended context: %v", err)
	}
	for n := range int64(3) {
		touches := new(atomic.Int64)
		touches.Store(n)
		if err := w.k.Govern(hostile{bg, touches}, good); err == nil {
			t.Errorf("with a context that panics at touch %d", n)
		}
	}
	var none *helm.Kernel
	for _, k := range []*helm.Kernel{none, new(helm.Kernel)} {
		if err := k.Govern(bg, good); err == nil || !strings.Contains(err.Error(), "no kernel") {
			t.Errorf("no kernel: %v", err)
		}
	}
	task := w.narrow(w.k, few(t, "task", 1, 5))
	if err := task.Close(); err != nil {
		t.Fatal(err)
	}
	if err := task.Govern(bg, good); err == nil {
		t.Error("a narrowed kernel that is closed governs")
	}
	w.mustAllow(w.k, 1)
	if s := w.present(); s.Digest() != digest {
		t.Errorf("the state has changed: %s", s.Canonical())
	}
	var nowhere context.Context
	if err := w.k.Govern(nowhere, good); err != nil { // or the refusals would prove nothing
		t.Errorf("without a context: %v", err)
	}
	if d, _ := w.of(w.k, 1); d.Reason != contracts.ReasonSystemFrozen {
		t.Errorf("after the good one: %s", d.Reason)
	}
	before = w.size()
	for name, e := range map[string]contracts.Envelope{
		"a freeze, frozen":          signed(t, w.freezing(), seedF),
		"an unfreeze by a freezer":  signed(t, w.thawing(), seedF),
		"… by one root":             signed(t, w.thawing(), seedR2),
		"… by a freezer and a root": signed(t, w.thawing(), seedF, seedR2),
	} {
		if err := w.k.Govern(bg, e); err == nil || w.size() != before {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.mustRule()
	w.mustAgree(w.mustVerify())
	thaw := signed(t, w.thawing(), seedR1, seedR2)
	if err := w.k.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.k.Govern(bg, thaw); err == nil || w.size() != before {
		t.Errorf("a closed kernel governs: %v", err)
	}
}

// b64of is a signature as it stands in an envelope.
func b64of(t *testing.T, seed byte, e contracts.TrustEvent) []byte {
	return []byte(base64.StdEncoding.EncodeToString(sig(t, seed, e.Message())))
}

func sig(t *testing.T, seed byte, message []byte) []byte {
	t.Helper()
	s, err := crypto.Sign(seedKey(t, seed), message)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Without roots nothing can ever change, a freeze neither.
func TestGovernWithoutRoots(t *testing.T) {
	freezer, err := registry.New(0, registry.Key{Name: "on call", Public: public(t, seedF), Role: registry.Freezer})
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]*registry.Registry{"no registry": nil, "one without roots": freezer} {
		w := newWorld(t, func(o *helm.Options) { o.Trust = r })
		for _, e := range []contracts.TrustEvent{w.freezing(), w.adding(seedK2, "kernel 2", registry.Kernel), w.enthroning(1, seedR1), w.revoking(1)} {
			size := w.size()
			for _, by := range [][]byte{{seedF}, {1}, {seedR1}} {
				if err := w.k.Govern(context.Background(), signed(t, e, by...)); err == nil || !strings.Contains(err.Error(), "no root keys, and nothing can ever change") || w.size() != size {
					t.Errorf("%s: %s: %v", name, e.Type, err)
				}
			}
		}
		w.mustAllow(w.k, 1)
		w.mustVerify()
	}
}

// The envelope is the caller's: what becomes of it afterwards changes nothing.
func TestGovernCopies(t *testing.T) {
	w := newRealm(t)
	e := signed(t, w.adding(seedX, "eve", registry.Approver, "owner"), seedR1, seedR2)
	if err := w.k.Govern(context.Background(), e); err != nil {
		t.Fatal(err)
	}
	clear(e)
	w.govern(w.freezing(), seedF)
	w.mustRule()
	if h, ok := w.present().Holder(*keyID(t, seedX), registry.Approver, w.size()); !ok || h.Name != "eve" {
		t.Errorf("%+v", h)
	}
	w.mustVerify()
}

// When an event cannot be stored or signed the kernel seals; whether it holds, the log says, which the next kernel goes by.
func TestGovernFails(t *testing.T) {
	for name, fail := range map[string]func(w *world){
		"the store":                             func(w *world) { w.store.in(1) },
		"the store, after it wrote":             func(w *world) { w.store.how = func(error) error { return errDisk }; w.store.in(1) },
		"the store, after it wrote, by a panic": func(w *world) { w.store.how = func(error) error { panic("disk") }; w.store.in(1) },
		"the key":                               func(w *world) { w.key.in(1) },
		"the key, by a panic":                   func(w *world) { w.key.panics = true; w.key.in(1) },
	} {
		for _, own := range []bool{false, true} { // the event revokes the key that signs it
			w := newRealm(t)
			task := w.narrow(w.k, few(t, "task", 1, 5))
			w.govern(w.adding(seedK2, "kernel 2", registry.Kernel), seedR1, seedR2)
			w.mustAllow(w.k, 1)
			e := w.freezing()
			by := []byte{seedF}
			if own {
				e, by = w.revoking(1), []byte{seedR1, seedR3}
			}
			fail(w)
			size := w.size()
			if err := w.k.Govern(context.Background(), signed(t, e, by...)); err == nil || !strings.HasPrefix(err.Error(), "helm: govern: ") {
				t.Errorf("%s: %v", name, err)
			}
			if err := w.k.Govern(context.Background(), signed(t, e, by...)); err == nil {
				t.Errorf("%s: a sealed kernel governs", name)
			}
			w.mustBeClosed(task)
			w.mustBeSealed()
			there := w.size() > size
			if there != strings.Contains(name, "after it wrote") {
				t.Errorf("%s: %d entries", name, w.size()-size)
			}
			if own && there {
				w.o.Key = seedKey(t, 1)
				if k, err := helm.New(w.o); k != nil || err == nil || !strings.Contains(err.Error(), "revoked it") {
					t.Errorf("%s: the next kernel, with the same key: %v", name, err)
				}
				w.key = &signer{PrivateKey: seedKey(t, seedK2)}
				w.o.Key = w.key
			}
			w.runs.Store(0)
			w.aftermath(nil)
			if d, _ := w.of(w.k, 1); (d.Reason == contracts.ReasonSystemFrozen) != (there && !own) {
				t.Errorf("%s: afterwards: %s", name, d.Reason)
			}
			w.mustRule()
		}
	}
}
