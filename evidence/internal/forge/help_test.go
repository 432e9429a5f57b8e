package forge

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/guardian"
)

// backTested returns what a candidate would change. It compares the old verdicts with the log, and
// the numbers to each other.
func backTested(t testing.TB, pack []byte, o evidence.Options,
	candidate *guardian.Policy) (evidence.Differences, []evidence.Change) {
	t.Helper()
	var changes []evidence.Change
	d, err := evidence.BackTest(t.Context(), bytes.NewReader(pack), int64(len(pack)), o, candidate,
		func(c evidence.Change) error {
			changes = append(changes, c)
			return nil
		})
	require.NoError(t, err)
	r := d.Report
	if r.Level != evidence.Logged || d.Judged+uint64(len(d.Unjudged))+r.Replay.KernelsOwn != r.Allows+r.Denials ||
		d.Judged != d.Same+d.Denied+d.Allowed+d.Anew+d.Otherwise {
		t.Fatalf("%+v", d)
	}
	log := DecisionsIn(t, pack)
	var told evidence.Differences
	last := int64(-1)
	for _, c := range changes {
		x, ok := log[c.Index]
		if !ok || int64(c.Index) <= last || c.ID != x.ID || c.Tool != x.Tool ||
			c.Then != (evidence.Judged{Verdict: x.Verdict, Reason: x.Reason, Condition: x.Condition, Rule: x.Rule}) ||
			c.Now == c.Then {
			t.Fatalf("%+v, of %+v, behind %d", c, x, last)
		}
		last = int64(c.Index)
		switch {
		case c.Anew && c.Then.Verdict == contracts.Allow && c.Now.Verdict == contracts.Deny:
			told.Anew++
		case c.Then.Verdict == c.Now.Verdict:
			told.Otherwise++
		case c.Now.Verdict == contracts.Deny:
			told.Denied++
		default:
			told.Allowed++
		}
	}
	if told.Denied != d.Denied || told.Allowed != d.Allowed || told.Anew != d.Anew || told.Otherwise != d.Otherwise {
		t.Fatalf("%+v are counted, %+v told", d, told)
	}
	return d, changes
}

// A gone reader has an error for every byte.
type gone struct{}

func (gone) ReadAt([]byte, int64) (int, error) { return 0, errDisk }

var errDisk = errors.New("the disk is gone")

func openBytes(t testing.TB, pack []byte, o evidence.Options) *evidence.Pack {
	t.Helper()
	p, r, err := evidence.OpenPack(t.Context(), bytes.NewReader(pack), int64(len(pack)), o)
	want, werr := verifyBytes(t, pack, o)
	if p == nil || err != nil || werr != nil || !reflect.DeepEqual(r, want) {
		t.Fatalf("%+v, %v\nVerify says %+v, %v", r, err, want, werr)
	}
	return p
}

// gathered are the entries of a range, as far as they come.
func gathered(ctx context.Context, p *evidence.Pack, from, to uint64) (list []contracts.Entry, err error) {
	for e, err := range p.Entries(ctx, from, to) {
		if err != nil {
			return list, err
		}
		list = append(list, e)
	}
	return list, nil
}
