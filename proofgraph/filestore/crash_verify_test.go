package filestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/proofgraph"
)

// verify packs the log, and verifies the pack.
func (a *audit) verify(s proofgraph.Store) {
	var err error
	if a.pack, err = pack(s); err != nil {
		a.fault("%v", err)
		return
	}
	a.packs++
	wrong, report := verifyPack(a.pack, lastMark(a.notes))
	wrong = append(wrong, missed(report, a.notes)...)
	for _, w := range wrong {
		a.fault("%s", w)
	}
	if len(report.Open) != 0 {
		a.fault("evidence: decisions without a receipt: %v", report.Open)
	}
}

// marked looks for the checkpoint that was handed out last.
func (a *audit) marked(s proofgraph.Store) {
	mark := lastMark(a.notes)
	if mark == nil {
		return
	}
	want, _, err := proofgraph.ParseCheckpoint(mark)
	if err != nil {
		a.fault("%v", err)
		return
	}
	note, err := s.Checkpoint(context.Background())
	if err != nil {
		a.fault("%v", err)
		return
	}
	if got, _, err := proofgraph.ParseCheckpoint(note); err != nil || got.Size < want.Size {
		a.fault("a checkpoint of %d entries was handed out, and the store's is of %d: %v", want.Size, got.Size, err)
	}
}

// lastMark is the largest checkpoint that was handed out.
func lastMark(notes []note) (mark []byte) {
	size := uint64(0)
	for _, n := range notes {
		if n.Kind == noteMark && n.Index >= size {
			size, mark = n.Index, []byte(n.Mark)
		}
	}
	return mark
}

// verifyPack verifies it as a stranger would, who kept the last checkpoint that he was given.
func verifyPack(pack []byte, last []byte) (wrong []string, report evidence.Report) {
	report, err := evidence.Verify(context.Background(), bytes.NewReader(pack), int64(len(pack)), evidence.Options{Trust: crashTrust, Origin: crashOrigin, Last: last})
	switch {
	case err != nil:
		wrong = append(wrong, fmt.Sprintf("evidence: %v", err))
	case !report.Success(evidence.Logged) || report.Replay.Differing != 0:
		wrong = append(wrong, fmt.Sprintf("evidence: %v, %v, %v, %+v", report.Level, report.History, report.Signer, report.Replay))
	}
	return wrong, report
}

// watch reads the log as an auditor does beside a process that may be writing to it. What is noted already must be there; what he sees must
// last, and is noted.
func (a *audit) watch(d disk, dir string) {
	s, err := openReadOnly(&tap{disk: d, hook: func(o *op) error {
		if o.changes && o.kind != "sync" {
			a.fault("an auditor changes the disk: %s of %s", o.kind, o.path)
		}
		return o.do()
	}}, dir)
	if err != nil {
		a.fault("read only: %v", err)
		return
	}
	defer s.Close()
	log, err := readLog(s)
	if err != nil {
		a.fault("read only: %v", err)
		return
	}
	a.hold(log)
	a.marked(s)
	if len(log) == 0 {
		return
	}
	a.book.add(note{Kind: noteSeen, Index: uint64(len(log) - 1), Hash: log[len(log)-1].hash})
	o := proofgraph.Options{Origin: crashOrigin, Key: crashKey, LogKey: crypto.DeriveLogKey(crashKey)}
	if _, err := proofgraph.Open(context.Background(), s, o, nil); err != nil { // writes to a log that is empty, and only to that
		a.fault("read only: %v", err)
	}
	if n, err := s.Checkpoint(context.Background()); err != nil || n == nil {
		return // none was made yet
	}
	if a.pack, err = pack(s); errors.Is(err, proofgraph.ErrNoBlob) { // it was erased between two looks at it
		a.pack, err = pack(s)
	}
	if err != nil {
		if !errors.Is(err, proofgraph.ErrNoBlob) {
			a.fault("read only: %v", err)
		}
		return
	}
	wrong, _ := verifyPack(a.pack, lastMark(a.notes))
	for _, w := range wrong {
		a.fault("read only: %s", w)
	}
}
