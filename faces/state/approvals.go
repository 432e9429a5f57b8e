package state

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/roundtrip"
	"github.com/helmkernel/helm/proofgraph/filestore"
	"github.com/helmkernel/helm/trust/registry"
)

// A bounds limits the requests that wait at once.
type bounds struct {
	requests int
	caller   int // of one caller, so that none keeps the others from asking
	bytes    int
}

var atOnce = bounds{1000, 100, 64 << 20}

const (
	maxAnswers     = 16 // as many envelopes as a call may present
	maxPendingFile = 2<<20 + 64<<10
	maxEnvelope    = 64 << 10
)

// Errors of Approvals.
var (
	ErrNoRequest = errors.New("there is no such request: it was answered and used, it has expired, or it never was")
	ErrTooMany   = errors.New("too many requests wait for an answer")
)

// A Pending is a request that waits for a person, and the arguments that it is about.
type Pending struct {
	Request contracts.ApprovalRequest
	Args    json.RawMessage
	Answers []Answer // what was answered so far
}

// An Answer is what a person said.
type Answer struct {
	Name     string // of the holder of the key
	Approves bool
}

// pendingFile is a Pending in its file.
type pendingFile struct {
	Request contracts.ApprovalRequest `json:"request"`
	Args    json.RawMessage           `json:"args"`
}

// Approvals are the requests that wait for a person, in the directory approvals: a file NONCE.json
// for each, and a file NONCE.KEY.json for each answer. It is safe for concurrent use, and other
// processes may answer meanwhile: what they put there counts only if it opens, by the present trust
// state, as an answer to that request.
type Approvals struct {
	dir    string
	owner  bool // of the directory: it asks and removes
	log    log
	close  func() error // of a process that does not hold the directory
	policy func() *guardian.Policy
	now    func() time.Time
	most   bounds

	mu      sync.Mutex
	reading *reading
	list    map[string]*asked // by nonce
	gone    map[string]bool   // nonces that were used up, for one that reads the directory again
	bytes   int
}

// An asked request waits.
type asked struct {
	contracts.ApprovalRequest
	size int
}

func ownApprovals(ctx context.Context, dir string, r *reading, l log, p func() *guardian.Policy) (*Approvals, error) {
	a := &Approvals{dir: filepath.Join(dir, "approvals"), owner: true, log: l, policy: p, now: time.Now, reading: r,
		most: atOnce}
	if err := os.Mkdir(a.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if err := checkDir(a.dir); err != nil {
		return nil, err
	}
	if err := a.load(); err != nil {
		return nil, err
	}
	return a, a.catchUp(ctx)
}

// OpenApprovals opens the requests of a state directory for a process that does not hold it, to
// list and to answer them. The one that holds it may go on meanwhile. Close it.
func OpenApprovals(ctx context.Context, dir string) (_ *Approvals, err error) {
	defer func() { err = barred(err) }()
	if err := checkDir(dir); err != nil {
		return nil, err
	}
	trust, err := initialTrust(dir)
	if err != nil {
		return nil, err
	}
	a := &Approvals{dir: filepath.Join(dir, "approvals"), now: time.Now, most: atOnce,
		reading: &reading{Trust: trust}}
	if err := checkDir(a.dir); err != nil {
		return nil, err
	}
	store, err := filestore.OpenReadOnly(filepath.Join(dir, "log"))
	if errors.Is(err, fs.ErrNotExist) {
		return a, a.load() // no kernel ever ran over it
	}
	if err != nil {
		return nil, err
	}
	a.log, a.close = store, store.Close
	if a.reading, err = begin(ctx, dir, store, trust); err == nil {
		err = a.load()
	}
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return a, nil
}

// Close ends what OpenApprovals returned.
func (a *Approvals) Close() error {
	if a.close == nil {
		return nil
	}
	return a.close()
}

// end is the end of the process's hold on the directory: what is in it is the next one's.
func (a *Approvals) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.owner = false
}

// load reads what is in the directory. Files that are not its own are left alone.
func (a *Approvals) load() error {
	a.list, a.bytes = map[string]*asked{}, 0
	if a.gone == nil {
		a.gone = map[string]bool{}
	}
	entries, err := os.ReadDir(a.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if a.owner && strings.HasPrefix(e.Name(), unfinished) && e.Type().IsRegular() {
			os.Remove(filepath.Join(a.dir, e.Name()))
		}
		if nonce, ok := isAnswer(e.Name()); ok && a.owner {
			if _, err := os.Lstat(filepath.Join(a.dir, nonce+".json")); errors.Is(err, fs.ErrNotExist) {
				os.Remove(filepath.Join(a.dir, e.Name())) // it came while its request was removed
			}
		}
		nonce, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok || !isNonce(nonce) || a.gone[nonce] || len(a.list) >= a.most.requests {
			continue
		}
		if p, err := a.readPending(nonce); err == nil {
			a.keep(p)
		}
	}
	a.expire()
	return nil
}

func (a *Approvals) keep(p Pending) {
	x := &asked{p.Request, len(p.Args) + 1024}
	a.list[p.Request.Nonce] = x
	a.bytes += x.size
}

// isNonce reports whether s is 32 hex digits, so that it is no other file's name.
func isNonce(s string) bool {
	other := func(c rune) bool { return (c < '0' || c > '9') && (c < 'a' || c > 'f') }
	return len(s) == 32 && !strings.ContainsFunc(s, other)
}

func (a *Approvals) readPending(nonce string) (p Pending, err error) {
	name := filepath.Join(a.dir, nonce+".json")
	b, err := readWhole(name, itself, maxPendingFile)
	if err != nil {
		return p, err
	}
	var f pendingFile
	var tree crypto.Tree
	if err := tree.Parse(b, crypto.Limits{Bytes: len(b), Depth: crypto.MaxDepth}); err != nil {
		return p, faulty(name, "no request: "+said(err), "remove it", err)
	}
	err = json.Unmarshal(b, &f)
	if err != nil || !roundtrip.Encodes(f, tree.Root().Append(nil)) || f.Request.Nonce != nonce {
		return p, faulty(name, "no request, or another one's", "remove it", err)
	}
	if err := f.Request.About(f.Args); err != nil {
		return p, faulty(name, err.Error(), "remove it", err)
	}
	if x := a.list[nonce]; x != nil && x.Digest() != f.Request.Digest() {
		return p, faulty(name, "not the request that was asked", "remove it", nil)
	}
	return Pending{Request: f.Request, Args: f.Args}, nil
}

// catchUp reads what the log has had since: who may answer now, and which answers were used up by
// an ALLOW. Their requests are removed.
func (a *Approvals) catchUp(ctx context.Context) error {
	if a.log == nil {
		return nil
	}
	if size, err := a.log.Size(ctx); err != nil || size <= a.reading.next {
		return err
	}
	nonces := map[contracts.Digest]string{}
	for nonce, names := range a.allAnswers() {
		for _, name := range names {
			if b, err := readWhole(filepath.Join(a.dir, name), itself, maxEnvelope); err == nil {
				nonces[contracts.Envelope(b).Digest()] = nonce
			}
		}
	}
	a.reading.used = func(envelope contracts.Digest) {
		if nonce := nonces[envelope]; a.list[nonce] != nil {
			if !a.owner {
				a.gone[nonce] = true
			}
			a.remove(nonce)
		}
	}
	return a.reading.read(ctx, a.log)
}

// stride is how many entries are read at once, some 12 ms, so that who asks after a long time need
// not wait for all since.
const stride = 1024

// follow reads the log if it has grown by so many entries.
func (a *Approvals) follow(index uint64) {
	if !a.mu.TryLock() {
		return
	}
	defer a.mu.Unlock()
	if a.owner && index >= a.reading.next+stride {
		a.catchUp(context.Background())
	}
}

// expire removes what nobody can answer any more.
func (a *Approvals) expire() {
	now := contracts.TimeOf(a.now())
	for nonce, p := range a.list {
		if now >= p.Expires {
			a.remove(nonce)
		}
	}
}

// remove forgets a request, and removes its files if they are this process's to remove. The request
// goes last: what is left of a removal that was cut short is removed again.
func (a *Approvals) remove(nonce string) {
	a.bytes -= a.list[nonce].size
	delete(a.list, nonce)
	if !a.owner {
		return
	}
	for _, name := range append(a.answerFiles(nonce), nonce+".json") {
		os.Remove(filepath.Join(a.dir, name))
	}
}

// answerFiles returns the names of the files of answers to a request.
func (a *Approvals) answerFiles(nonce string) []string { return a.allAnswers()[nonce] }

// allAnswers returns the names of the files of answers, by nonce.
func (a *Approvals) allAnswers() map[string][]string {
	entries, err := os.ReadDir(a.dir)
	if err != nil {
		return nil
	}
	all := map[string][]string{}
	for _, e := range entries {
		if nonce, ok := isAnswer(e.Name()); ok && len(all[nonce]) < maxAnswers {
			all[nonce] = append(all[nonce], e.Name())
		}
	}
	return all
}

// isAnswer reports whether a name is that of a file of an answer, and to which request.
func isAnswer(name string) (nonce string, ok bool) {
	nonce, rest, _ := strings.Cut(name, ".")
	key, json := strings.CutSuffix(rest, ".json")
	_, err := crypto.ParseDigest(key)
	return nonce, json && isNonce(nonce) && err == nil
}

// Ask puts a request there, with the arguments that it is about: Decision.Pending and Decision.Args
// of a call that was denied. It returns the nonce of the request that waits: an earlier one of the
// same session, caller, tool, arguments and policy, as long as that has not expired, else this one.
func (a *Approvals) Ask(request *contracts.ApprovalRequest, args json.RawMessage) (nonce string, err error) {
	if request == nil {
		return "", errors.New("no request")
	}
	if err := request.About(args); err != nil {
		return "", err
	}
	if !a.owner {
		return "", errors.New("another process holds the directory: it asks")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.expire()
	own := 0
	for nonce, p := range a.list {
		if sameCall(&p.ApprovalRequest, request) {
			if _, err := a.readPending(nonce); err == nil {
				return nonce, nil
			}
			a.remove(nonce) // its file is gone or changed: nobody could answer it
			continue
		}
		if p.Caller.Equal(request.Caller) {
			own++
		}
	}
	size := len(args) + 1024
	if len(a.list) >= a.most.requests || own >= a.most.caller || a.bytes+size > a.most.bytes {
		return "", ErrTooMany
	}
	if !isNonce(request.Nonce) || contracts.TimeOf(a.now()) >= request.Expires {
		return "", errors.New("the request has expired, or has no nonce")
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // six bytes for one
	if err := e.Encode(pendingFile{*request, args}); err != nil {
		return "", err
	}
	if err := place(filepath.Join(a.dir, request.Nonce+".json"), 0o600, b.Bytes()); err != nil {
		return "", err
	}
	a.keep(Pending{Request: *request, Args: args})
	return request.Nonce, nil
}

// sameCall reports whether two requests are about one call. Their requirement is part of it: if
// one call needs two approvals, each is asked for.
func sameCall(p, q *contracts.ApprovalRequest) bool {
	return p.Session == q.Session && p.Caller.Equal(q.Caller) && p.Tool == q.Tool && p.ArgsHash == q.ArgsHash &&
		p.PolicyHash == q.PolicyHash && p.SchemaHash == q.SchemaHash &&
		p.Quorum == q.Quorum && slices.Equal(p.Roles, q.Roles)
}

// Pending returns the requests that wait, by the time at which they expire.
func (a *Approvals) Pending(ctx context.Context) ([]Pending, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.look(ctx); err != nil {
		return nil, err
	}
	var list []Pending
	all := a.allAnswers()
	for nonce := range a.list {
		if p, err := a.get(nonce, all[nonce]); err == nil {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(p, q Pending) int {
		return cmp.Or(cmp.Compare(p.Request.Expires, q.Request.Expires), cmp.Compare(p.Request.Nonce, q.Request.Nonce))
	})
	return list, nil
}

// look brings what is known up to date.
func (a *Approvals) look(ctx context.Context) error {
	if !a.owner {
		if err := a.load(); err != nil {
			return err
		}
	}
	a.expire()
	return a.catchUp(ctx)
}

// Get returns the request of a nonce.
func (a *Approvals) Get(ctx context.Context, nonce string) (Pending, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.look(ctx); err != nil {
		return Pending{}, err
	}
	return a.get(nonce, a.answerFiles(nonce))
}

func (a *Approvals) get(nonce string, answers []string) (Pending, error) {
	if a.list[nonce] == nil {
		return Pending{}, ErrNoRequest
	}
	p, err := a.readPending(nonce)
	if errors.Is(err, fs.ErrNotExist) {
		err = ErrNoRequest
	}
	if err != nil {
		return p, err
	}
	for _, x := range a.answers(nonce, answers) {
		p.Answers = append(p.Answers, Answer{x.holder, x.approves})
	}
	return p, nil
}

// An opened answer is one that a holder of a key gave to a request.
type opened struct {
	envelope contracts.Envelope
	holder   string
	approves bool
}

// answers returns what was answered to a request. It opens each file again, because anything may
// have put it there: what is no answer to the request by now does not count.
func (a *Approvals) answers(nonce string, names []string) (list []opened) {
	p := a.list[nonce]
	for _, name := range names {
		b, err := readWhole(filepath.Join(a.dir, name), itself, maxEnvelope)
		if err != nil {
			continue
		}
		x, _, err := a.open(&p.ApprovalRequest, b)
		if err == nil && !slices.ContainsFunc(list, func(y opened) bool { return y.holder == x.holder }) {
			list = append(list, x)
		}
	}
	return list
}

// open opens an envelope as an answer to a request, by a person who may give it.
func (a *Approvals) open(
	r *contracts.ApprovalRequest, e contracts.Envelope,
) (x opened, key contracts.Digest, err error) {
	answer, holder, err := registry.OpenApproval(a.reading.Trust, e)
	switch {
	case err != nil:
		return x, key, err
	case answer.Request.Digest() != r.Digest():
		return x, key, errors.New("it answers another request")
	case !slices.ContainsFunc(holder.Roles, func(role string) bool { return slices.Contains(r.Roles, role) }):
		return x, key, fmt.Errorf("who signed it may not answer for %s", strings.Join(r.Roles, ", "))
	}
	return opened{e, holder.Name, answer.Verdict == contracts.Allow}, answer.Key, nil
}

// Answer keeps the answer to a request: it is opened, and checked against the trust state of now,
// first. One that says the same again changes nothing; a person does not answer a request twice.
func (a *Approvals) Answer(ctx context.Context, nonce string, e contracts.Envelope) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.look(ctx); err != nil {
		return err
	}
	p := a.list[nonce]
	if p == nil {
		return ErrNoRequest
	}
	if len(e) > maxEnvelope {
		return fmt.Errorf("the answer is longer than %d bytes", maxEnvelope)
	}
	x, key, err := a.open(&p.ApprovalRequest, e)
	if err != nil {
		return fmt.Errorf("the answer to %s is not kept: %w", nonce, err)
	}
	names := a.answerFiles(nonce)
	for _, y := range a.answers(nonce, names) {
		switch {
		case y.holder == x.holder && y.approves == x.approves:
			return nil
		case y.holder == x.holder:
			return fmt.Errorf("the answer to %s is not kept: %s has answered already", nonce, x.holder)
		}
	}
	if len(names) >= maxAnswers {
		return fmt.Errorf("the answer to %s is not kept: there are %d already", nonce, maxAnswers)
	}
	err = replace(filepath.Join(a.dir, nonce+"."+key.String()+".json"), 0o600, e)
	if err != nil {
		return fmt.Errorf("the answer to %s is not kept: %w", nonce, barred(err))
	}
	return nil
}

// For returns the answers to present with a call: those to the requests of exactly this call, as
// soon as enough people approved, or one refused. args are the model's; policy is the hash of what
// judges. What was used up is not presented again.
func (a *Approvals) For(
	ctx context.Context, c helm.Caller, session, tool string, args []byte, policy contracts.Digest,
) (list []helm.Envelope) {
	hashes := a.hashes(tool, args)
	if session == "" {
		session = contracts.DefaultSession
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var found []string
	for nonce, p := range a.list {
		if p.Tool == tool && p.Session == session && p.PolicyHash == policy && slices.Contains(hashes, p.ArgsHash) &&
			p.Caller.Equal(sorted(c)) {
			found = append(found, nonce)
		}
	}
	if found == nil {
		return nil
	}
	if err := a.look(ctx); err != nil {
		return nil
	}
	slices.Sort(found)
	for _, nonce := range found {
		if p := a.list[nonce]; p != nil {
			for _, x := range a.ready(p) {
				if len(list) < maxAnswers {
					list = append(list, x.envelope)
				}
			}
		}
	}
	return list
}

// ready returns the answers to a request if they decide it.
func (a *Approvals) ready(p *asked) []opened {
	list := a.answers(p.Nonce, a.answerFiles(p.Nonce))
	refused := slices.ContainsFunc(list, func(x opened) bool { return !x.approves })
	if !refused && uint64(len(list)) < max(p.Quorum, 1) {
		return nil
	}
	return list
}

// hashes returns those of the arguments as they are, and as they are judged, with the defaults of
// the tool's schema. There are none of what is no JSON.
func (a *Approvals) hashes(tool string, args []byte) []contracts.Digest {
	if len(args) == 0 {
		args = []byte("{}")
	}
	var tree crypto.Tree
	if err := tree.Parse(args, crypto.Limits{Bytes: 1 << 20, Depth: crypto.MaxDepth}); err != nil {
		return nil
	}
	list := []contracts.Digest{crypto.Sum(tree.Root().Append(nil))}
	if a.policy != nil {
		if b, more := a.policy().AppendDefaults(nil, tool, tree.Root()); more {
			list = append(list, crypto.Sum(b))
		}
	}
	return list
}

// sorted returns a caller as records have them.
func sorted(c helm.Caller) helm.Caller {
	c.Roles = slices.Compact(slices.Sorted(slices.Values(c.Roles)))
	return c
}

// poll is how often Wait looks whether another process has put an answer there.
const poll = 200 * time.Millisecond

// Wait returns nil when a request is decided: enough people approved, or one refused. It returns an
// error if ctx ends first, or the request expires.
func (a *Approvals) Wait(ctx context.Context, nonce string) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		if done, err := a.decided(ctx, nonce); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func (a *Approvals) decided(ctx context.Context, nonce string) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.look(ctx); err != nil {
		return false, err
	}
	p := a.list[nonce]
	if p == nil {
		return false, ErrNoRequest
	}
	return a.ready(p) != nil, nil
}
