package state

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

var clerk = helm.Caller{ID: "bob", Roles: []string{"b", "a", "a"}}

// An asking is a fixture in which bob asks for a refund.
type asking struct {
	*fixture
	*State
}

func newAsking(t *testing.T) *asking {
	t.Helper()
	f := newFixture(t)
	return &asking{f, f.open(Options{Drivers: map[string]helm.Driver{"refund": driver(pay)}})}
}

// call makes a call with the answers that there are.
func (a *asking) call(c helm.Caller, session, args string) (helm.Decision, []helm.Envelope) {
	a.Helper()
	list := a.Approvals().For(ctx, c, session, "refund", []byte(args), a.Kernel().Policy().Hash())
	d, _ := a.Kernel().Guard(ctx, helm.Intent{Tool: "refund", Args: []byte(args), Caller: c, Session: session, Approvals: list})
	return d, list
}

// ask makes a call that is denied, and returns the request that waits.
func (a *asking) ask(args string) string {
	a.Helper()
	d, _ := a.call(clerk, "s", args)
	require.NotNil(a, d.Pending, "%v", d.Err())
	nonce, err := a.Approvals().Ask(d.Pending, d.Args)
	require.NoError(a, err)
	return nonce
}

func (a *asking) get(nonce string) Pending {
	a.Helper()
	p, err := a.Approvals().Get(ctx, nonce)
	require.NoError(a, err)
	return p
}

func (a *asking) approves(nonce, who string) error {
	a.Helper()
	e, err := a.get(nonce).Request.Approve(a.keys[who])
	require.NoError(a, err)
	return a.Approvals().Answer(ctx, nonce, e)
}

// TestApprovals: a request waits until enough people approved; the call then runs, once, and the
// request is gone.
func TestApprovals(t *testing.T) {
	t.Parallel()
	a := newAsking(t)
	nonce := a.ask(`{"sum": 2}`)
	assert.JSONEq(t, `{"sum":2}`, string(a.get(nonce).Args))
	assert.Equal(t, nonce, a.ask(`{ "sum":2 }`), "the first counts until it expires")
	assert.NotEqual(t, nonce, a.ask(`{"sum": 3}`))
	require.NoError(t, a.approves(nonce, "olga"))
	require.NoError(t, a.approves(nonce, "olga"), "again")
	_, list := a.call(clerk, "s", `{"sum":2}`)
	assert.Empty(t, list, "one of two is not presented")
	require.NoError(t, a.approves(nonce, "otto"))
	assert.Equal(t, []Answer{{"olga", true}, {"otto", true}}, byName(a.get(nonce).Answers))
	require.NoError(t, a.Approvals().Wait(ctx, nonce))
	for _, other := range []struct {
		c             helm.Caller
		session, args string
	}{{helm.Caller{ID: "eve"}, "s", `{"sum":2}`}, {clerk, "t", `{"sum":2}`}, {clerk, "s", `{"sum":4}`}, {clerk, "s", `{"sum":2`},
		{helm.Caller{ID: "bob"}, "s", `{"sum":2}`}} {
		_, list = a.call(other.c, other.session, other.args)
		assert.Empty(t, list, "answers to another call are presented")
	}
	list = a.Approvals().For(ctx, clerk, "s", "pay", []byte(`{"sum":2}`), a.Kernel().Policy().Hash())
	assert.Empty(t, list)
	d, list := a.call(clerk, "s", ` {"sum":2}`)
	require.NoError(t, d.Err())
	assert.Len(t, list, 2)
	_, list = a.call(clerk, "s", `{"sum":2}`)
	assert.Empty(t, list, "what was used is presented again")
	_, err := a.Approvals().Get(ctx, nonce)
	assert.ErrorIs(t, err, ErrNoRequest)
	assert.NoFileExists(t, a.path("state/approvals/"+nonce+".json"))
	all, err := a.Approvals().Pending(ctx)
	require.NoError(t, err)
	require.Len(t, all, 1)
	assert.JSONEq(t, `{"sum":3}`, string(all[0].Args))
}

func byName(list []Answer) []Answer {
	if len(list) == 2 && list[0].Name > list[1].Name {
		list[0], list[1] = list[1], list[0]
	}
	return list
}

// TestApprovalsOfDefaults: the request has the defaults of the schema, the model's call has not.
func TestApprovalsOfDefaults(t *testing.T) {
	t.Parallel()
	a := newAsking(t)
	nonce := a.ask(`{}`)
	assert.JSONEq(t, `{"sum":1}`, string(a.get(nonce).Args))
	require.NoError(t, a.approves(nonce, "olga"))
	require.NoError(t, a.approves(nonce, "otto"))
	d, _ := a.call(clerk, "s", `{}`)
	require.NoError(t, d.Err())
}

// TestAnswersRefused: what is no answer to the request, by who may give it, is not kept; and put
// there by hand it does not count.
func TestAnswersRefused(t *testing.T) {
	t.Parallel()
	a := newAsking(t)
	nonce, other := a.ask(`{}`), a.ask(`{"sum":9}`)
	r := a.get(nonce).Request
	sign := func(r contracts.ApprovalRequest, key crypto.PrivateKey) contracts.Envelope {
		e, err := r.Approve(key)
		require.NoError(t, err)
		return e
	}
	stranger, err := crypto.GenerateKey()
	require.NoError(t, err)
	changed := r
	changed.Quorum = 1
	good := sign(r, a.keys["olga"])
	for name, c := range map[string]struct {
		e    contracts.Envelope
		want string
	}{
		"stranger":        {sign(r, stranger), "is not kept"},
		"wrong role":      {sign(r, a.keys["ann"]), "may not answer for owner"},
		"another request": {sign(a.get(other).Request, a.keys["olga"]), "it answers another request"},
		"changed":         {sign(changed, a.keys["olga"]), "it answers another request"},
		"nothing":         {nil, "is not kept"},
		"no envelope":     {contracts.Envelope(`{}`), "is not kept"},
		"damaged":         {contracts.Envelope(strings.Replace(string(good), `"sig":"`, `"sig":"AAAA`, 1)), "is not kept"},
		"long":            {contracts.Envelope(strings.Repeat(" ", maxEnvelope+1)), "longer than"},
	} {
		assert.ErrorContains(t, a.Approvals().Answer(ctx, nonce, c.e), c.want, name)
		file := fmt.Sprintf("state/approvals/%s.%s.json", nonce, crypto.Sum([]byte(name)))
		a.write(file, string(c.e))
		assert.Empty(t, a.get(nonce).Answers, name)
		require.NoError(t, os.Remove(a.path(file)))
	}
	assert.ErrorIs(t, a.Approvals().Answer(ctx, strings.Repeat("0", 32), good), ErrNoRequest)
	assert.ErrorIs(t, a.Approvals().Answer(ctx, "../../key", good), ErrNoRequest)
	for range 2 {
		require.NoError(t, a.Approvals().Answer(ctx, nonce, good))
	}
	e, err := r.Refuse(a.keys["olga"])
	require.NoError(t, err)
	assert.ErrorContains(t, a.Approvals().Answer(ctx, nonce, e), "olga has answered already")
}

// TestRefusal: one is presented, so that the model is told, and nobody is asked again.
func TestRefusal(t *testing.T) {
	t.Parallel()
	a := newAsking(t)
	nonce := a.ask(`{}`)
	e, err := a.get(nonce).Request.Refuse(a.keys["olga"])
	require.NoError(t, err)
	require.NoError(t, a.Approvals().Answer(ctx, nonce, e))
	require.NoError(t, a.Approvals().Wait(ctx, nonce))
	d, _ := a.call(clerk, "s", `{}`)
	assert.Equal(t, contracts.ReasonApprovalRefused, d.Reason)
	assert.Nil(t, d.Pending)
}

// TestRevoked: an approver whose key was revoked after their answer does not count any more.
func TestRevoked(t *testing.T) {
	t.Parallel()
	a := newAsking(t)
	nonce := a.ask(`{}`)
	require.NoError(t, a.approves(nonce, "olga"))
	require.NoError(t, a.approves(nonce, "otto"))
	a.revoke("otto")
	_, list := a.call(clerk, "s", `{}`)
	assert.Empty(t, list)
	assert.ErrorContains(t, a.approves(nonce, "otto"), "is not kept")
}

// revoke ends the key of a person, by the root that init made.
func (a *asking) revoke(who string) {
	a.Helper()
	b, err := os.Open(a.path("root.pem"))
	a.must(err)
	defer b.Close()
	root, err := crypto.LoadKey(b)
	a.must(err)
	public, err := crypto.PublicOf(a.keys[who])
	a.must(err)
	id := crypto.KeyID(public)
	e := contracts.TrustEvent{Type: "revoke", Origin: a.Approvals().reading.Origin, Version: 2, ID: &id, Why: "left"}
	signed, err := contracts.TrustRecord{Event: e}.Sign(root)
	a.must(err)
	a.must(a.Kernel().Govern(ctx, signed))
}

// TestExpired: what nobody can answer any more is removed, and asked again.
func TestExpired(t *testing.T) {
	t.Parallel()
	a := newAsking(t)
	nonce := a.ask(`{}`)
	p := a.get(nonce)
	require.NoError(t, a.approves(nonce, "olga"))
	a.Approvals().now = func() time.Time { return p.Request.Expires.Time() }
	_, err := a.Approvals().Get(ctx, nonce)
	require.ErrorIs(t, err, ErrNoRequest)
	assert.ErrorIs(t, a.Approvals().Wait(ctx, nonce), ErrNoRequest)
	names, err := os.ReadDir(a.path("state/approvals"))
	require.NoError(t, err)
	assert.Empty(t, names)
	_, err = a.Approvals().Ask(&p.Request, p.Args)
	assert.ErrorContains(t, err, "expired")
}

// TestAskRefused: a request with other arguments than it is about is not shown to anybody.
func TestAskRefused(t *testing.T) {
	t.Parallel()
	a := newAsking(t)
	d, _ := a.call(clerk, "s", `{}`)
	_, err := a.Approvals().Ask(d.Pending, json.RawMessage(`{"sum":2}`))
	require.Error(t, err)
	_, err = a.Approvals().Ask(nil, nil)
	require.Error(t, err)
	bad := *d.Pending
	bad.Nonce = "../key"
	_, err = a.Approvals().Ask(&bad, d.Args)
	require.Error(t, err)
	names, err := os.ReadDir(a.path("state/approvals"))
	require.NoError(t, err)
	assert.Empty(t, names)
}

// request returns one of some caller, about those arguments.
func request(caller string, n int, args string) *contracts.ApprovalRequest {
	return &contracts.ApprovalRequest{ArgsHash: crypto.Sum([]byte(args)), Caller: contracts.Caller{ID: caller},
		Expires: contracts.TimeOf(time.Now().Add(time.Hour)), Nonce: fmt.Sprintf("%032x", n), Quorum: 1, Roles: []string{"owner"},
		Session: fmt.Sprint("s", n), Tool: "refund"}
}

// TestBounded: one caller cannot keep the others from asking, and all together cannot fill the
// disk.
func TestBounded(t *testing.T) {
	t.Parallel()
	a := newAsking(t)
	assert.Equal(t, bounds{1000, 100, 64 << 20}, a.Approvals().most)
	p := a.Approvals()
	p.most = bounds{20, 5, 4 << 20}
	for n := range 5 {
		_, err := p.Ask(request("bob", n, `{}`), []byte(`{}`))
		require.NoError(t, err)
	}
	_, err := p.Ask(request("bob", 1<<20, `{}`), []byte(`{}`))
	require.ErrorIs(t, err, ErrTooMany)
	_, err = p.Ask(request("ann", 1<<20, `{}`), []byte(`{}`))
	require.NoError(t, err)
	big := `{"note":"` + strings.Repeat("<", 1<<20-64) + `"}`
	kept := 0
	for n := range 20 {
		if _, err = p.Ask(request(fmt.Sprint("c", n), n+1<<21, big), []byte(big)); err != nil {
			break
		}
		kept++
	}
	require.ErrorIs(t, err, ErrTooMany)
	assert.Equal(t, 3, kept)
	p.most.bytes = 1 << 30
	p.most.requests = 6 + kept
	_, err = p.Ask(request("eve", 1<<22, `{}`), []byte(`{}`))
	require.ErrorIs(t, err, ErrTooMany)
	require.NoError(t, a.Close(ctx))
	s := a.open(Options{})
	all, err := s.Approvals().Pending(ctx)
	require.NoError(t, err)
	assert.Len(t, all, 6+kept, "they are there after a restart")
}

// TestHostileNames: what is in the directory besides is no request, and is not touched.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	a := newAsking(t)
	nonce := a.ask(`{}`)
	dir := a.path("state/approvals")
	before, err := os.ReadFile(filepath.Join(dir, nonce+".json"))
	require.NoError(t, err)
	names := []string{"..json", "x", "-rf", "a\nb.json", "\xff.json", strings.Repeat("0", 32), strings.Repeat("G", 32) + ".json",
		strings.Repeat("0", 32) + ".json", nonce + ".x.json", nonce + "." + strings.Repeat("0", 64), nonce + ".json.json"}
	for _, name := range names {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), before, 0o600))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, strings.Repeat("1", 32)+".json"), 0o700))
	require.NoError(t, os.Symlink(a.path("state/key.pem"), filepath.Join(dir, nonce+"."+strings.Repeat("1", 64)+".json")))
	require.NoError(t, os.Symlink(filepath.Join(dir, nonce+".json"), filepath.Join(dir, strings.Repeat("2", 32)+".json")))
	require.NoError(t, a.Close(ctx))
	s := a.open(Options{})
	all, err := s.Approvals().Pending(ctx)
	require.NoError(t, err)
	require.Len(t, all, 1)
	assert.Equal(t, nonce, all[0].Request.Nonce)
	assert.Empty(t, all[0].Answers)
	require.NoError(t, s.Close(ctx))
	for _, name := range names {
		assert.FileExists(t, filepath.Join(dir, name))
	}
	assert.NotEmpty(t, Examine(ctx, a.path("helm.yaml")))
}

// TestAnswerOfAnotherProcess: a process that does not hold the directory lists and answers; who
// waits in the one that does is told.
func TestAnswerOfAnotherProcess(t *testing.T) {
	t.Parallel()
	a := newAsking(t)
	nonce := a.ask(`{}`)
	waited := make(chan error, 1)
	go func() { waited <- a.Approvals().Wait(ctx, nonce) }()
	for _, who := range []string{"olga", "otto"} {
		b, err := OpenApprovals(ctx, a.path("state"))
		require.NoError(t, err)
		all, err := b.Pending(ctx)
		require.NoError(t, err)
		require.Len(t, all, 1)
		e, err := all[0].Request.Approve(a.keys[who])
		require.NoError(t, err)
		require.NoError(t, b.Answer(ctx, nonce, e))
		_, err = b.Ask(&all[0].Request, all[0].Args)
		require.ErrorContains(t, err, "another process")
		require.NoError(t, b.Close())
	}
	select {
	case err := <-waited:
		require.NoError(t, err)
	case <-time.After(time.Minute):
		t.Fatal("nobody was told")
	}
	d, _ := a.call(clerk, "s", `{}`)
	require.NoError(t, d.Err())
	over, cancel := context.WithCancel(ctx)
	nonce = a.ask(`{"sum":5}`)
	cancel()
	assert.ErrorIs(t, a.Approvals().Wait(over, nonce), context.Canceled)
}

// TestUsedBeforeCrash: answers that were used up before a crash are not presented after it, so that
// people are asked again.
func TestUsedBeforeCrash(t *testing.T) {
	t.Parallel()
	a := newAsking(t)
	nonce := a.ask(`{}`)
	require.NoError(t, a.approves(nonce, "olga"))
	require.NoError(t, a.approves(nonce, "otto"))
	kept := t.TempDir()
	require.NoError(t, os.CopyFS(kept, os.DirFS(a.path("state/approvals"))))
	d, _ := a.call(clerk, "s", `{}`)
	require.NoError(t, d.Err())
	require.NoError(t, a.Close(ctx))
	require.NoError(t, os.RemoveAll(a.path("state/approvals")))
	require.NoError(t, os.CopyFS(a.path("state/approvals"), os.DirFS(kept)))
	require.NoError(t, os.Chmod(a.path("state/approvals"), 0o700))
	a.State = a.open(Options{Drivers: map[string]helm.Driver{"refund": driver(pay)}})
	d, list := a.call(clerk, "s", `{}`)
	assert.Empty(t, list)
	assert.ErrorIs(t, d.Err(), helm.ErrApprovalRequired)
}

// TestBeforeTheFirstStart: approvals of a directory over which no kernel ever ran are none.
func TestBeforeTheFirstStart(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a, err := OpenApprovals(ctx, f.path("state"))
	require.NoError(t, err)
	list, err := a.Pending(ctx)
	require.NoError(t, err)
	assert.Empty(t, list)
	require.NoError(t, a.Close())
}

// TestUsedIsGone: a process that does not hold the directory does not list what was used up, as
// often as it looks.
func TestUsedIsGone(t *testing.T) {
	t.Parallel()
	a := newAsking(t)
	nonce := a.ask(`{}`)
	require.NoError(t, a.approves(nonce, "olga"))
	require.NoError(t, a.approves(nonce, "otto"))
	d, _ := a.call(clerk, "s", `{}`)
	require.NoError(t, d.Err())
	b, err := OpenApprovals(ctx, a.path("state"))
	require.NoError(t, err)
	defer b.Close()
	for range 3 {
		list, err := b.Pending(ctx)
		require.NoError(t, err)
		assert.Empty(t, list)
	}
}

// TestFollow: the log is read as it grows, not when a person asks.
func TestFollow(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	told := 0
	s := f.open(Options{Observe: func(context.Context, helm.Event) { told++ }})
	read := func() uint64 {
		s.Approvals().mu.Lock()
		defer s.Approvals().mu.Unlock()
		return s.Approvals().reading.next
	}
	before := read()
	for range stride + 1 {
		s.Kernel().Guard(ctx, helm.Intent{Tool: "none", Args: []byte(`{}`)})
	}
	assert.Equal(t, stride+1, told)
	assert.GreaterOrEqual(t, read(), before+stride)
}
