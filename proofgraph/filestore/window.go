package filestore

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disk"
)

// A window is the part of a file that was read last, because neighbouring records are read
// together.
type window struct {
	file    disk.File
	segment *segment
	buf     []byte
	base    uint64 // of buf
	least   uint64 // how many bytes are read at once, at least
}

// record returns the body of the record at an offset. It is valid until the next call.
func (w *window) record(offset uint32, kind byte) ([]byte, error) {
	r, err := w.read(offset)
	if err == nil && r.kind != kind {
		err = w.damaged(offset)
	}
	return r.body, err
}

// entry returns the body of the record of an entry, or of the stub in its place. It is valid until
// the next call.
func (w *window) entry(offset uint32) ([]byte, error) {
	r, err := w.read(offset)
	if err == nil && r.kind != kindEntry && r.kind != kindStub {
		err = w.damaged(offset)
	}
	return r.body, err
}

func (w *window) read(offset uint32) (record, error) {
	at := uint64(offset)
	if err := w.load(at, recordHead); err != nil {
		return record{}, err
	}
	size := le.Uint32(w.buf[at-w.base+4:])
	if size > maxFrame {
		return record{}, w.damaged(offset)
	}
	if err := w.load(at, recordHead+uint64(size)); err != nil {
		return record{}, err
	}
	r, ok := w.segment.read(w.buf, w.base, at)
	if !ok {
		return record{}, w.damaged(offset)
	}
	return r, nil
}

func (w *window) damaged(offset uint32) error {
	return &damage{w.segment.path, uint64(offset), "a damaged record"}
}

// blob returns a copy of the bytes of the blob whose record is at an offset.
func (w *window) blob(at uint32, d contracts.Digest) ([]byte, error) {
	r, err := w.read(at)
	switch {
	case err != nil:
		return nil, fmt.Errorf("filestore: blob %s: %w", d, err)
	case r.kind != kindBlob && r.kind != kindErased || contracts.Digest(r.body[:len(d)]) != d:
		return nil, fmt.Errorf("filestore: blob %s: %w", d, w.damaged(at))
	case r.kind == kindErased:
		return nil, proofgraph.ErrNoBlob
	case crypto.Sum(r.body[len(d):]) != d:
		return nil, &damage{w.segment.path, uint64(at), fmt.Sprintf("the bytes of blob %s are damaged", d)}
	}
	return bytes.Clone(r.body[len(d):]), nil
}

// load reads n bytes from an offset into the window, unless they are there.
func (w *window) load(at, n uint64) error {
	if at >= w.base && at+n <= w.base+uint64(len(w.buf)) {
		return nil
	}
	size := max(n, w.least)
	if uint64(cap(w.buf)) < size {
		w.buf = make([]byte, size)
	}
	w.buf, w.base = w.buf[:size], at
	got, err := w.file.ReadAt(w.buf, int64(at))
	if w.buf = w.buf[:got]; uint64(got) >= n {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return &damage{w.segment.path, at, "the file was cut: a record began here"}
	}
	return fmt.Errorf("%s: offset %d: %w", w.segment.path, at, err)
}
