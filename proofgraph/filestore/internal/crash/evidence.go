package crash

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disk"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disktest"
)

// verify packs the log, and verifies the pack.
func (a *audit) verify(s proofgraph.Store) {
	var err error
	if a.pack, err = pack(s); err != nil {
		a.errorf("%v", err)
		return
	}
	a.packs++
	wrong, report := verifyPack(a.pack, lastCheckpoint(a.events))
	wrong = append(wrong, checkMissing(report, a.events)...)
	for _, w := range wrong {
		a.errorf("%s", w)
	}
	if len(report.Open) != 0 {
		a.errorf("evidence: decisions without a receipt: %v", report.Open)
	}
}

// checkCheckpoint looks for the last checkpoint that the kernel returned.
func (a *audit) checkCheckpoint(s proofgraph.Store) {
	mark := lastCheckpoint(a.events)
	if mark == nil {
		return
	}
	want, _, err := proofgraph.ParseCheckpoint(mark)
	if err != nil {
		a.errorf("%v", err)
		return
	}
	note, err := s.Checkpoint(context.Background())
	if err != nil {
		a.errorf("%v", err)
		return
	}
	if got, _, err := proofgraph.ParseCheckpoint(note); err != nil || got.Size < want.Size {
		a.errorf("a checkpoint of %d entries was handed out, and the store's is of %d: %v", want.Size, got.Size, err)
	}
}

// lastCheckpoint returns the largest checkpoint that a kernel returned.
func lastCheckpoint(events []event) (mark []byte) {
	size := uint64(0)
	for _, n := range events {
		if n.Kind == eventCheckpoint && n.Index >= size {
			size, mark = n.Index, []byte(n.Checkpoint)
		}
	}
	return mark
}

// verifyPack verifies a pack as an outsider would who kept the last checkpoint they were given.
func verifyPack(pack []byte, last []byte) (wrong []string, report evidence.Report) {
	report, err := evidence.Verify(context.Background(), bytes.NewReader(pack), int64(len(pack)),
		evidence.Options{Trust: trustState, Origin: origin, Last: last})
	switch {
	case err != nil:
		wrong = append(wrong, fmt.Sprintf("evidence: %v", err))
	case !report.Success(evidence.Logged) || report.Replay.Differing != 0:
		wrong = append(wrong, fmt.Sprintf("evidence: %v, %v, %v, %+v", report.Level, report.History, report.Signer,
			report.Replay))
	}
	return wrong, report
}

// view reads the log as an auditor does while a process may be writing to it. Every recorded event
// must be there. The entries that the auditor sees must last, and are recorded.
func (a *audit) view(d disk.Disk, dir string) {
	s, err := View(&disktest.Tap{Disk: d, Hook: func(o *disktest.Op) error {
		if o.Changes && o.Kind != "sync" {
			a.errorf("an auditor changes the disk: %s of %s", o.Kind, o.Path)
		}
		return o.Do()
	}}, dir)
	if err != nil {
		a.errorf("read only: %v", err)
		return
	}
	defer s.Close()
	log, err := readLog(s)
	if err != nil {
		a.errorf("read only: %v", err)
		return
	}
	a.checkEvents(log)
	a.checkCheckpoint(s)
	if len(log) == 0 {
		return
	}
	a.recorder.add(event{Kind: eventSeen, Index: uint64(len(log) - 1), Hash: log[len(log)-1].hash})
	o := proofgraph.Options{Origin: origin, Key: key, LogKey: crypto.DeriveLogKey(key)}
	if _, err := proofgraph.Open(context.Background(), s, o,
		nil); err != nil { // it writes only to an empty log
		a.errorf("read only: %v", err)
	}
	if n, err := s.Checkpoint(context.Background()); err != nil || n == nil {
		return // none was made yet
	}
	if a.pack, err = pack(s); errors.Is(err, proofgraph.ErrNoBlob) { // it was erased meanwhile
		a.pack, err = pack(s)
	}
	if err != nil {
		if !errors.Is(err, proofgraph.ErrNoBlob) {
			a.errorf("read only: %v", err)
		}
		return
	}
	wrong, _ := verifyPack(a.pack, lastCheckpoint(a.events))
	for _, w := range wrong {
		a.errorf("read only: %s", w)
	}
}
