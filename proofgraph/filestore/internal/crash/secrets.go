package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disk"
)

// A secretCall is a call with a secret in its arguments and output, which is erased sooner or
// later.
type secretCall struct {
	secret string
	blobs  []contracts.Digest
}

const momentErased = "erased" // a blob was erased, and the caller does not know it yet

// callWithSecret makes a call with a secret.
func (l *process) callWithSecret(ctx context.Context, session string, number uint64) helm.Decision {
	c := secretCall{secret: fmt.Sprintf("secret %d of process %d.", number, l.number)}
	d, r := l.call(ctx, helm.Intent{Tool: "pay", Args: json.RawMessage(`{"to":"bob","memo":"` + c.secret + `"}`),
		Session: session})
	if len(r.Entry) > 0 && d.Allowed() {
		c.blobs = []contracts.Digest{d.Record.InputsHash, *r.Record.OutputHash}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.secrets = append(l.secrets, c)
	}
	return d
}

// eraseSecret erases the blobs of one of these calls.
func (l *process) eraseSecret(which int) {
	l.mu.Lock()
	if len(l.secrets) == 0 {
		l.mu.Unlock()
		return
	}
	which %= len(l.secrets)
	c := l.secrets[which]
	l.secrets = append(l.secrets[:which:which], l.secrets[which+1:]...)
	l.mu.Unlock()
	for _, d := range c.blobs {
		l.record(event{Kind: eventErasing, Hash: d.String()})
		if err := l.store.(proofgraph.Eraser).EraseBlob(context.Background(), d); err != nil {
			return // whole or gone, as an audit will find
		}
		l.reached(momentErased)
		l.record(event{Kind: eventErased, Hash: d.String()})
	}
	l.record(event{Kind: eventForgotten, Secret: c.secret})
}

// checkErased looks for erased blobs in the store: a blob whose erasure was acknowledged is gone,
// and any other is whole or gone.
func (a *audit) checkErased(s proofgraph.Store) {
	for _, n := range a.events {
		if n.Kind != eventErased && n.Kind != eventErasing {
			continue
		}
		d, err := crypto.ParseDigest(n.Hash)
		if err != nil {
			a.errorf("%v", err)
			return
		}
		switch b, err := s.Blob(context.Background(), d); {
		case errors.Is(err, proofgraph.ErrNoBlob):
			a.erased++
		case n.Kind == eventErased:
			a.errorf("blob %s was erased in process %d, and is of %d bytes now: %v", d, n.Process, len(b), err)
		case err != nil:
			a.errorf("blob %s was to be erased in process %d: %v", d, n.Process, err)
		}
	}
}

// search looks for erased secrets in the bytes of every file.
func (a *audit) search(d disk.Disk, dir string) {
	names, err := d.List(dir)
	if err != nil {
		return // there is nothing yet
	}
	for _, file := range names {
		name := file.Name
		f, err := d.View(dir + "/" + name)
		if err != nil {
			a.errorf("%v", err)
			return
		}
		size, err := f.Size()
		b := make([]byte, size)
		if n, _ := f.ReadAt(b, 0); err != nil || int64(n) != size {
			a.errorf("%s: %d bytes of %d: %v", name, n, size, err)
		}
		f.Close()
		for _, n := range a.events {
			if n.Kind == eventForgotten && bytes.Contains(b, []byte(n.Secret)) {
				a.errorf("%s has something of what was erased in process %d", name, n.Process)
			}
		}
	}
}

// checkMissing returns what a pack lacks that was never erased.
func checkMissing(r evidence.Report, events []event) (wrong []string) {
	erasing, gone := map[string]bool{}, 0
	for _, n := range events {
		erasing[n.Hash] = erasing[n.Hash] || n.Kind == eventErasing
	}
	for _, d := range r.Erased {
		if erasing[d.String()] {
			gone++
		}
	}
	if n := len(r.Erased) - gone; n > 0 {
		wrong = append(wrong,
			fmt.Sprintf("evidence: %d blobs are not there, which are durable no later than what names them, and "+
				"no call erased them", n))
	}
	if r.Replay.NotReplayable > uint64(gone) {
		wrong = append(wrong, fmt.Sprintf("evidence: %d verdicts cannot be replayed, and %d blobs were erased",
			r.Replay.NotReplayable, gone))
	}
	return wrong
}
