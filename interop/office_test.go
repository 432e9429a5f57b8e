package interop

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

const origin = "example.test/interop"

const officePolicy = `
helm: policy/v1
layer: P1
bundle: {name: office, version: 1}
tools:
  mail.read: {effect: read, input: {type: object, properties: {box: {type: string}}}}
  mail.send:
    effect: write
    input: {type: object, required: [to], properties: {to: {type: string}, text: {type: string, default: "–"}}}
  note.keep:
    effect: read
    input: {type: object, properties: {v: {}, α: {}, "\uFB33": {}, "\U0001F600": {}}}
    open: [/v, /α, "/\uFB33", "/\U0001F600"]
    threat: {deny: none} # texts that no honest argument has are what is tried here
budgets:
  - {id: reads, tools: [mail.read], cost: 1, limit: 40, window: day, per: caller}
requires:
  - {id: outgoing, tools: [mail.send], all: [{approval: {roles: [owner], ttl: 15m}}]}
rules:
  - {id: staff, allow: [mail.read, mail.send, note.keep], when: {caller: roles, has: staff}}
`

var staff = contracts.Caller{ID: "bob", Roles: []string{"staff"}}

// An office is a kernel over a store in memory, and the roots that may change its keys.
type office struct {
	testing.TB
	store     *proofgraph.Memory
	trust     *registry.Registry
	first     crypto.Signer // the kernel's first key, the genesis'
	key       crypto.Signer // the kernel's
	log       crypto.Signer // the log's
	ann       crypto.Signer // an approver
	roots     []crypto.Signer
	kernel    *helm.Kernel
	now       time.Time
	keys      map[string]crypto.PublicKey // of the kernel, by id: the old one too
	changes   uint64                      // of the trust state
	nonces    io.Reader                   // seeded, so that a failure can be seen again
	decisions map[contracts.ReasonCode]int
	witnesses []string // whose cosignatures the kernel keeps, if there are any
}

func newOffice(t testing.TB) *office {
	t.Helper()
	o := &office{TB: t, store: proofgraph.NewMemory(), now: time.Date(2026, 9, 21, 9, 0, 0, 0, time.UTC),
		nonces: rand.NewChaCha8([32]byte{1}),
		keys:   map[string]crypto.PublicKey{}, decisions: map[contracts.ReasonCode]int{}}
	seed := byte(0)
	signer := func() crypto.PrivateKey {
		seed++
		k, err := crypto.NewKeyFromSeed(bytes.Repeat([]byte{seed}, 32))
		o.must(err)
		return k
	}
	o.first, o.log, o.ann, o.roots = signer(), signer(), signer(), []crypto.Signer{signer(), signer()}
	o.key = o.first
	trust, err := registry.New(2,
		registry.Key{Name: "root 1", Public: o.public(o.roots[0]), Role: registry.Root},
		registry.Key{Name: "root 2", Public: o.public(o.roots[1]), Role: registry.Root},
		registry.Key{Name: "ann", Public: o.public(o.ann), Role: registry.Approver, Roles: []string{"owner"}},
		registry.Key{Name: "kernel", Public: o.public(o.first), Role: registry.Kernel},
		registry.Key{Name: "log", Public: o.public(o.log), Role: registry.Log})
	o.must(err)
	o.trust = trust
	o.open()
	t.Cleanup(func() { o.kernel.Close() })
	return o
}

func (o *office) must(err error) {
	if err != nil {
		o.Helper()
		o.Fatal(err)
	}
}

func (o *office) public(k crypto.Signer) crypto.PublicKey {
	p, err := crypto.PublicOf(k)
	o.must(err)
	return p
}

// open begins a kernel with the present kernel key, which may be another one than the log began
// with.
func (o *office) open() {
	o.Helper()
	doc, err := policy.Parse("office.yaml", []byte(officePolicy))
	o.must(err)
	compiled, err := guardian.Compile(doc)
	o.must(err)
	o.kernel, err = helm.New(helm.Options{Policy: compiled, Key: o.key, LogKey: o.log, Store: o.store, Origin: origin,
		Trust: o.trust, Keep: helm.Keep{Outputs: true}, Rand: o.nonces,
		Checkpoint: helm.Checkpoints{Witnesses: o.witnesses, Quorum: len(o.witnesses)},
		Now:        func() time.Time { o.now = o.now.Add(time.Second); return o.now }})
	o.must(err)
	p := o.public(o.key)
	o.keys[crypto.KeyID(p).String()] = p
}

// guard makes a call. The tool returns its arguments, and fails on a box with the name "broken".
func (o *office) guard(session, tool, args string, change ...func(*helm.Intent)) (helm.Decision, helm.Receipt) {
	in := helm.Intent{Session: session, Tool: tool, Args: json.RawMessage(args), Caller: staff,
		Driver: helm.Func(func(_ context.Context, a json.RawMessage) (json.RawMessage, error) {
			if strings.Contains(string(a), `"broken"`) {
				return nil, errors.New("it is")
			}
			return a, nil
		})}
	for _, f := range change {
		f(&in)
	}
	d, r := o.kernel.Guard(context.Background(), in)
	o.decisions[d.Reason]++
	return d, r
}

// want is guard for a call with a known outcome.
func (o *office) want(reason contracts.ReasonCode, session, tool, args string,
	change ...func(*helm.Intent)) (helm.Decision, helm.Receipt) {
	o.Helper()
	d, r := o.guard(session, tool, args, change...)
	require.Equal(o, reason, d.Reason, "%s: %s, want %s: %s", tool, d.Reason, reason, d.Why)
	return d, r
}

// govern enters an event that both roots signed.
func (o *office) govern(e contracts.TrustEvent) {
	o.Helper()
	o.changes++
	e.Origin, e.Version = origin, o.changes+1
	if e.Type == "key" {
		var err error
		e, err = e.Prove(o.key)
		o.must(err)
	}
	record := contracts.TrustRecord{Event: e}
	envelope, err := record.Sign(o.roots[0])
	o.must(err)
	half, err := contracts.ParseTrust(envelope)
	o.must(err)
	envelope, err = half.Sign(o.roots[1])
	o.must(err)
	o.must(o.kernel.Govern(context.Background(), envelope))
}

// rotate replaces the first kernel key: the new one is added, the next kernel signs with it, and
// revokes the old one.
func (o *office) rotate() {
	o.Helper()
	next, err := crypto.NewKeyFromSeed(bytes.Repeat([]byte{99}, 32))
	o.must(err)
	old := crypto.KeyID(o.public(o.key))
	o.key = next
	o.govern(contracts.TrustEvent{Type: "key", Name: "kernel 2", Role: string(registry.Kernel)})
	o.must(o.kernel.Close())
	o.open()
	o.govern(contracts.TrustEvent{Type: "revoke", ID: &old, Why: "rotation"})
}

// texts are arguments whose canonical form is easy to get wrong: OK04 to OK07 of the packs that
// must verify.
var texts = []string{
	`{"v":"ελ عربي 😀  \u007f e\u0301 é \" \\ / \b\f\n\r\t\u0001\u001f"}`, `{"α":1,"v":{"":0," ":1,"\u0000":2}}`,
	"{\"\ufb33\":1,\"\U0001F600\":2,\"v\":3}",
	`{"v":[-0,1e21,1e-7,0.000001,5e-324,1.7976931348623157e308,9007199254740991,-0.1,100000000000000000000]}`,
	`{"v":` + strings.Repeat("[", 63) + strings.Repeat("]", 63) + `}`, `{"v":"` + strings.Repeat("x", 1<<20-8) + `"}`,
	`{"v":[true,false,null,{},[],{"a":{"b":{"aa":0,"B":1}}}]}`,
}

// work is a day at the office, in several sessions: permissions and denials of many kinds, a tool
// that fails, an approval, other keys.
func (o *office) work() {
	o.Helper()
	for i, text := range texts {
		if d, _ := o.guard(fmt.Sprint("notes-", i%3), "note.keep", text); d.Reason != contracts.ReasonAllow &&
			d.Reason != contracts.ReasonSchemaViolation {
			// the schema wants no members in v, and the inputs are kept all the same
			o.Fatalf("text %d: %s: %s", i, d.Reason, d.Why)
		}
	}
	for i := range 5 {
		_, r := o.want(contracts.ReasonAllow, fmt.Sprint("mail-", i%2), "mail.read", fmt.Sprintf(`{"box":"in-%d"}`, i))
		o.want(contracts.ReasonSchemaViolation, "mail-1", "mail.read", `{"unknown":1}`,
			func(in *helm.Intent) { in.After = []contracts.Ref{r.Ref()} })
	}
	o.want(contracts.ReasonToolError, "mail-0", "mail.read", `{"box":"broken"}`)
	o.want(contracts.ReasonToolNotFound, "mail-1", "disk.format", `{}`)
	o.want(contracts.ReasonArgsCanonicalization, "mail-1", "mail.read", `{"box":`)
	o.want(contracts.ReasonNoPolicyDefined, "mail-1", "mail.read", `{}`,
		func(in *helm.Intent) { in.Caller = contracts.Caller{ID: "eve"} })
	d, _ := o.want(contracts.ReasonApprovalRequired, "mail-0", "mail.send", `{"to":"ada"}`)
	yes, err := d.Pending.Approve(o.ann)
	o.must(err)
	o.want(contracts.ReasonAllow, "mail-0", "mail.send", `{"to":"ada"}`,
		func(in *helm.Intent) { in.Approvals = []contracts.Envelope{yes} })
	o.must(o.kernel.CloseSession(context.Background(), "mail-1"))
	o.want(contracts.ReasonSessionClosed, "mail-1", "mail.read", `{}`)
	o.rotate()
	o.want(contracts.ReasonAllow, "mail-2", "mail.read", `{"box":"out"}`)
	o.checkpoint()
}

func (o *office) checkpoint() []byte {
	o.Helper()
	c, err := o.kernel.Checkpoint(context.Background())
	o.must(err)
	return c.Note
}

// A pack is one as archive/tar reads it.
type pack struct {
	raw                  []byte
	manifest, checkpoint []byte
	entries              [][]byte
	blobs                map[string][]byte // by name
}

// pack writes the pack up to the latest checkpoint, verifies it with HELM's own verifier, and opens
// it with archive/tar.
func (o *office) pack() pack {
	o.Helper()
	var b bytes.Buffer
	o.must(evidence.Write(context.Background(), &b, o.store, o.key))
	require.NoError(o, o.verify(b.Bytes(), true))
	p, err := openPack(b.Bytes())
	o.must(err)
	return p
}

// verify is HELM's own verification, with the second canonicaliser or without.
func (o *office) verify(b []byte, cross bool) error {
	r, err := evidence.Verify(context.Background(), bytes.NewReader(b), int64(len(b)),
		evidence.Options{Kernel: o.public(o.first), Origin: origin, CrossCheck: cross})
	if err == nil && !r.Success(evidence.Logged) {
		err = fmt.Errorf("%s %s", r.Level, r.Signer)
	}
	return err
}

func openPack(b []byte) (pack, error) {
	p := pack{raw: b, blobs: map[string][]byte{}}
	r := tar.NewReader(bytes.NewReader(b))
	for i := 0; ; i++ {
		h, err := r.Next()
		if err == io.EOF {
			if p.entries == nil {
				return p, errors.New("no entries")
			}
			return p, nil
		}
		if err != nil {
			return p, err
		}
		if h.Format != tar.FormatUSTAR || h.Typeflag != tar.TypeReg || h.Mode != 0o644 || h.Uid != 0 || h.Gid != 0 ||
			h.Uname+h.Gname != "" || !h.ModTime.Equal(time.Unix(0, 0)) {
			return p, fmt.Errorf("%s: header %+v", h.Name, h)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			return p, err
		}
		name, isBlob := strings.CutPrefix(h.Name, "blobs/")
		switch {
		case i == 0 && h.Name == "manifest.json":
			p.manifest = content
		case i == 1 && h.Name == "checkpoint":
			p.checkpoint = content
		case i == 2 && h.Name == "entries.jsonl":
			p.entries = bytes.Split(bytes.TrimSuffix(content, []byte("\n")), []byte("\n"))
		case i > 2 && isBlob && p.blobs[name] == nil:
			p.blobs[name] = content
		default:
			return p, fmt.Errorf("member %d is %s", i, h.Name)
		}
	}
}

// busy is the pack of an office with all of this.
func busy(t testing.TB) (*office, pack) {
	t.Helper()
	o := newOffice(t)
	o.work()
	p := o.pack()
	if len(o.decisions) < 8 || len(p.entries) < 40 || len(o.keys) != 2 {
		t.Fatalf("%d entries, of reasons %v", len(p.entries), o.decisions)
	}
	return o, p
}
