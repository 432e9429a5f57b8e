package forge

import (
	"bytes"
	"slices"
	"testing"

	"github.com/helmkernel/helm/evidence"
)

// placeless are the rows whose fault is in no field, no member and no blob, and why.
var placeless = map[string]string{
	"TestTamper/P16":          "it is no archive, so it has no members",
	"TestTamper/own/no_entry": "there is none, and so no field of one",
}

// mustPlace wants a fault to say where it is: the entry, if it is of one and that one was changed;
// and the field, the member or the blob.
func (w *tampered) mustPlace(t *testing.T, x tampering, m *Model, f *evidence.Error) {
	t.Helper()
	if f == nil {
		return
	}
	if why := placeless[t.Name()]; (f.Field == "") != (why != "") {
		t.Errorf("the place of %q is %q, and none because %q", f, f.Field, why)
	}
	ofEntries := slices.Contains([]error{evidence.ErrEncoding, evidence.ErrEnvelope, evidence.ErrKey,
		evidence.ErrSignature, evidence.ErrRecord, evidence.ErrChain, evidence.ErrGraph, evidence.ErrReference,
		evidence.ErrBudget,
		evidence.ErrTrust, evidence.ErrGap, evidence.ErrReplay}, f.Check)
	if ofEntries != (f.Entry >= 0) && f.Check != evidence.ErrBlob {
		t.Errorf("at entry %d: %v", f.Entry, f)
	}
	if x.cut == nil || x.pack != nil || f.Entry < 0 {
		return
	}
	was := TakeApart(t, w.pack).Nodes
	first := 0
	for first < len(was) && first < len(m.Nodes) && bytes.Equal(was[first].Line, m.Nodes[first].Line) {
		first++
	}
	if first < len(was) && f.Entry < int64(first) {
		t.Errorf("at entry %d, and the first that was changed is %d: %v", f.Entry, first, f)
	}
}
