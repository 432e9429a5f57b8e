package stub_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/stub"
)

func TestReplaces(t *testing.T) {
	entry := contracts.Entry("an entry")
	line := (&contracts.Stub{
		Entry: entry.Hash(), Session: "main", Decision: &contracts.DecisionStub{Tool: "pay"},
	}).Append(nil)
	later := (&contracts.Stub{
		Entry: entry.Hash(), Session: "main", Lamport: 1, Decision: &contracts.DecisionStub{Tool: "pay"},
	}).Append(nil)
	for _, x := range []struct {
		name  string
		entry contracts.Entry
		line  []byte
		yes   bool
		err   string
	}{
		{"the stub of the entry", entry, line, true, ""},
		{"again", line, line, false, ""},
		{"another stub of the entry", line, later, false, ""},
		{"the entry itself", entry, entry, false, "not a stub"},
		{"nothing", entry, nil, false, "not a stub"},
		{"that of another entry", contracts.Entry("another"), line, false, "the stub of another entry"},
		{"that of its own line", line, (&contracts.Stub{
			Entry: contracts.Entry(line).Hash(), Session: "main", Decision: &contracts.DecisionStub{Tool: "pay"},
		}).Append(nil), false, "the stub of another entry"},
		{"a stub without its fields", entry, []byte(`{"stub":{}}`), false, "RECORD"},
		{"a stub that is cut", entry, line[:len(line)-1], false, "ENCODING"},
		{"of what stands there as a stub, and is none", contracts.Entry(`{"stub":{}}`), line, false, "RECORD"},
	} {
		var r contracts.Reader
		yes, err := stub.Replaces(&r, x.entry, x.line)
		assert.Equal(t, x.yes, yes, x.name)
		if x.err == "" {
			assert.NoError(t, err, x.name)
		} else {
			assert.ErrorContains(t, err, x.err, x.name)
		}
	}
}
