package crash

import (
	"context"
	"fmt"
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
)

// A line is the part of an entry that an audit needs.
type line struct {
	stub    bool
	hash    string
	kind    contracts.Kind
	session string
	id      string // of a decision
	key     string // of a decision: its idempotency key
	args    contracts.Digest
	of      string // of a receipt: the hash of its decision; "" if it is a denial
	outcome contracts.Outcome
	reason  contracts.ReasonCode
}

func readLog(s proofgraph.Store) ([]line, error) {
	ctx := context.Background()
	size, err := s.Size(ctx)
	if err != nil {
		return nil, err
	}
	var lines []line
	var r contracts.Reader
	for e, err := range s.Entries(ctx, 0, size) {
		if err != nil {
			return nil, err
		}
		if contracts.IsStub(e) {
			s, bad := r.Stub(e)
			if bad != nil {
				return nil, fmt.Errorf("entry %d: %v", len(lines), bad)
			}
			lines = append(lines, stubLine(s, lines))
			continue
		}
		sealed, bad := r.Open(e)
		if bad != nil {
			return nil, fmt.Errorf("entry %d: %v", len(lines), bad)
		}
		st, bad := sealed.Statement()
		if bad != nil {
			return nil, fmt.Errorf("entry %d: %v", len(lines), bad)
		}
		l := line{hash: e.Hash().String(), kind: st.Kind(), session: strings.Clone(st.Session)}
		if d := st.Decision; d != nil {
			l.id, l.key, l.args = strings.Clone(d.ID), strings.Clone(d.Idempotency), d.ArgsHash
		}
		if r := st.Receipt; r != nil {
			if l.outcome, l.reason = r.Outcome, r.Reason; r.Decision == nil {
				l.of = r.DecisionHash.String()
			} else {
				l.reason = r.Decision.Reason
			}
		}
		lines = append(lines, l)
	}
	if uint64(len(lines)) != size {
		return nil, fmt.Errorf("%d entries, the store says %d", len(lines), size)
	}
	return lines, nil
}

// stubLine returns the line of a stub, as far as it says what the entry said.
func stubLine(s *contracts.Stub, before []line) line {
	l := line{stub: true, hash: s.Entry.String(), kind: contracts.KindReceipt, session: strings.Clone(s.Session)}
	if d := s.Decision; d != nil {
		l.kind, l.id, l.key = contracts.KindDecision, fmt.Sprint(l.session, "/", s.Seq), strings.Clone(d.Idempotency)
		return l
	}
	l.outcome, l.reason = s.Receipt.Outcome, contracts.ReasonAllow
	if l.outcome == contracts.Failed {
		l.reason = contracts.ReasonToolError
	}
	if i := s.Receipt.Decision; i < uint64(len(before)) {
		l.of = before[i].hash
	}
	return l
}
