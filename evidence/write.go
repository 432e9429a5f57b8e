package evidence

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence/internal/ustar"
	"github.com/helmkernel/helm/internal/entry"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

// Write writes the pack of a store up to its latest checkpoint. The key signs the manifest and must
// be a kernel key of the log there: one that was revoked before, or is added later, is refused. The
// same store and key make the same bytes. Inputs, outputs, facts and texts that the store does not
// have are left out; a policy document or the trust state may not be missing. Stubs stand in the
// pack where they stand in the store, without the blobs that no other entry names. If the condense
// entry that a stub is of is not below the checkpoint's size, the error is [ErrCondensed]. Write
// reads the store twice, up to four blobs at a time if there are processors for it, and the ranges
// of condense entries once more if there are stubs. It holds 40 bytes a blob, some 64 an entry, and
// a few MiB, or four blobs if these are longer. If the store lets go of an entry or erases a blob
// after Write has begun to write, that is an error: write again. After an error, the bytes that it
// wrote are no pack. A nil ctx never ends.
//
// Write verifies no signatures but those of trust events: that is for those who receive the pack.
func Write(ctx context.Context, w io.Writer, s proofgraph.Store, key crypto.Signer) error {
	switch {
	case w == nil:
		return errors.New("evidence: write: no writer was given")
	case s == nil:
		return errors.New("evidence: write: no store was given")
	case key == nil:
		return errors.New("evidence: write: no signer was given: give the key that the kernel signs with")
	case ctx == nil:
		ctx = context.Background()
	}
	public, err := crypto.PublicOf(key)
	if err != nil {
		return fmt.Errorf("evidence: write: %w", err)
	}
	var p packer
	for again := 0; ; again++ {
		p = packer{store: s, key: key, public: public, named: map[contracts.Digest]entry.Role{}}
		err := p.survey(ctx)
		if err == nil {
			break
		}
		if again == mostAgain || !errors.Is(err, errLetGo) {
			return fmt.Errorf("evidence: write: %w", err)
		}
	}
	if err := p.write(ctx, w); err != nil {
		return fmt.Errorf("evidence: write: %w", err)
	}
	return nil
}

// A packer makes one pack. It surveys the store first, since the manifest comes first, and then
// writes.
type packer struct {
	store    proofgraph.Store
	key      crypto.Signer
	note     []byte // the checkpoint
	size     uint64
	public   crypto.PublicKey
	state    *registry.State // at the checkpoint's size
	revoked  uint64          // the entry that revoked the key, if one did
	log      log
	sets     packedSets
	named    map[contracts.Digest]entry.Role
	entries  contracts.Bytes
	blobs    []kept // in order of names
	manifest []byte
}

type kept struct {
	name contracts.Digest
	size int64
}

func (p *packer) survey(ctx context.Context) error {
	var err error
	p.note, err = p.store.Checkpoint(ctx)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if len(p.note) == 0 {
		return errors.New("the store has no checkpoint: make one with Kernel.Checkpoint first")
	}
	c, err := parseSigned(p.note)
	if err != nil {
		return fmt.Errorf("checkpoint: %v", err)
	}
	p.size = c.Size
	if err := p.begin(ctx); err != nil {
		return fmt.Errorf("entry 0: %w", err)
	}
	err = p.read(ctx)
	switch {
	case err != nil:
		return err
	case p.log.size() == 0:
		return errors.New("the checkpoint is of an empty log: make one with Kernel.Checkpoint first")
	case p.log.tree.Root() != c.Root || p.log.origin != c.Origin:
		return errors.New("the entries are not those of the checkpoint: the store is damaged")
	}
	if err := p.cover(ctx); err != nil {
		return err
	}
	if err := p.look(ctx); err != nil {
		return err
	}
	return p.sign()
}

var lineEnd = []byte{'\n'}

// readBlob reads a blob and compares it with its name.
func readBlob(ctx context.Context, s proofgraph.Store, d contracts.Digest) ([]byte, error) {
	b, err := s.Blob(ctx, d)
	if err != nil {
		return nil, fmt.Errorf("blob %s: %w", d, err)
	}
	if crypto.Sum(b) != d {
		return nil, fmt.Errorf("blob %s has other content: the store is damaged", d)
	}
	return b, nil
}

func (p *packer) write(ctx context.Context, to io.Writer) error {
	w := bufio.NewWriterSize(to, 64<<10) // it keeps its first error, which Flush returns
	ustar.WriteMember(w, ustar.Members[ustar.Manifest], p.manifest)
	ustar.WriteMember(w, ustar.Members[ustar.Checkpoint], p.note)
	size := int64(p.entries.Bytes)
	h := ustar.Header([]byte(ustar.Members[ustar.Entries]), size)
	w.Write(h[:])
	sum := crypto.NewSum()
	index := uint64(0)
	for e, err := range p.store.Entries(ctx, 0, p.size) {
		if err == nil && contracts.IsStub(e) && p.log.stub(index) == nil {
			err = errLetGo
		}
		if err != nil {
			return fmt.Errorf("entries: %w", err)
		}
		index++
		sum.Write(e)
		sum.Write(lineEnd)
		w.Write(e)
		if _, err := w.Write(lineEnd); err != nil {
			return err
		}
	}
	if !bytes.Equal(sum.Sum(nil), p.entries.SHA256[:]) {
		return errDamaged
	}
	w.Write(ustar.Zeros[:ustar.Padding(size)])
	if err := p.fetch(ctx, w); err != nil {
		return err
	}
	w.Write(ustar.Zeros[:])
	w.Write(ustar.Zeros[:])
	return w.Flush()
}

// A fetchBatch is some blobs and their contents.
type fetchBatch struct {
	blobs    []kept
	contents [][]byte
	err      error // of the blob after them
}

// fetch writes the blobs.
func (p *packer) fetch(ctx context.Context, w *bufio.Writer) error {
	read := func(b *fetchBatch) {
		for _, x := range b.blobs {
			content, err := p.reread(ctx, x)
			if err != nil {
				b.err = err
				return
			}
			b.contents = append(b.contents, content)
		}
	}
	q := newPackQueue(func() func(*fetchBatch) { return read }, func(b *fetchBatch) error {
		for i, content := range b.contents {
			ustar.WriteMember(w, ustar.BlobPrefix+b.blobs[i].name.String(), content)
		}
		err := b.err
		clear(b.contents)
		*b = fetchBatch{contents: b.contents[:0]}
		return err
	})
	defer q.End()
	for rest := p.blobs; len(rest) > 0; {
		n, size := 1, rest[0].size
		for n < min(packItems, len(rest)) && size+rest[n].size <= packBytes {
			size += rest[n].size
			n++
		}
		q.Next().blobs = rest[:n]
		rest = rest[n:]
		if err := q.Push(); err != nil {
			return err
		}
	}
	return q.Drain()
}

// reread reads a blob whose size is known.
func (p *packer) reread(ctx context.Context, x kept) ([]byte, error) {
	b, err := readBlob(ctx, p.store, x.name)
	switch {
	case errors.Is(err, proofgraph.ErrNoBlob):
		return nil, fmt.Errorf("%w: it was erased in the meantime; write again", err)
	case err == nil && int64(len(b)) != x.size:
		return nil, fmt.Errorf("blob %s had other content before: the store is damaged", x.name)
	}
	return b, err
}
