//go:build unix

package acceptance

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
)

// A ledger is what the entries of a log say, as a reader finds it who trusts no table but that of
// entries, and what the processes say that they did.
type ledger struct {
	wrong func(format string, args ...any) // called with what must not be

	reader    contracts.Reader
	processes map[contracts.Digest]int // by the ids of their keys
	size      uint64
	genesis   contracts.Digest
	index     map[contracts.Digest]uint64 // of all entries
	ends      map[string]proofgraph.End
	spent     map[contracts.Balance]uint64
	decisions map[contracts.Digest]*decision
	keys      map[string]bool           // idempotency keys with their sessions
	approvals map[contracts.Digest]bool // that were used
	last      map[int]uint64            // the index of the last entry of each process
	unknown   int                       // calls that have OUTCOME_UNKNOWN
	denied    int

	runs, acks source
	acked      map[int]int // receipts that each process was given
	ran        int
}

// A decision is an ALLOW.
type decision struct {
	process int
	charges []contracts.Charge
	receipt bool
	ran     bool
}

// A source is a file that processes append to.
type source struct {
	name string
	at   int64
}

func newLedger(runs, acks string, wrong func(string, ...any)) *ledger {
	l := &ledger{wrong: wrong, processes: map[contracts.Digest]int{}, index: map[contracts.Digest]uint64{},
		ends: map[string]proofgraph.End{}, spent: map[contracts.Balance]uint64{},
		decisions: map[contracts.Digest]*decision{}, keys: map[string]bool{}, approvals: map[contracts.Digest]bool{},
		last: map[int]uint64{}, runs: source{name: runs}, acks: source{name: acks}, acked: map[int]int{}}
	for i := range maxProcesses {
		l.processes[crypto.KeyID(must(crypto.PublicOf(keyOf(i))))] = i
	}
	return l
}

// lines returns the lines of a source that were not read yet.
func (s *source) lines() ([]string, error) {
	f, err := os.Open(s.name)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.NewSectionReader(f, s.at, 1<<40))
	if err != nil {
		return nil, err
	}
	b = b[:len(b)/size*size]
	s.at += int64(len(b))
	return strings.Split(string(bytes.TrimSuffix(b, []byte("\n"))), "\n"), nil
}

// An ack is a receipt that a process was given.
type ack struct {
	index    uint64
	hash     contracts.Digest
	verdict  string
	released bool
	process  int
}

// read compares what the processes have done with the log. They may go on meanwhile: what they have
// noted was in the log before. The log is read after the files.
func (l *ledger) read(ctx context.Context, s proofgraph.Store) error {
	runs, acks, n := l.runs, l.acks, l.size
	ran, err := runs.lines()
	if err != nil {
		return err
	}
	acked, err := acks.lines()
	if err != nil {
		return err
	}
	size, err := s.Size(ctx)
	if err != nil {
		return err
	}
	var entries []contracts.Entry
	for e, err := range s.Entries(ctx, n, size) {
		if err != nil {
			return err
		}
		entries = append(entries, e)
	}
	if uint64(len(entries)) != size-n {
		l.wrong("%d entries from %d on, of a log of %d", len(entries), n, size)
	}
	for _, e := range entries {
		if err := l.add(e); err != nil {
			l.wrong("entry %d: %v", l.size, err)
		}
	}
	l.runs, l.acks = runs, acks
	for _, line := range ran {
		l.run(line)
	}
	for _, line := range acked {
		l.ack(line)
	}
	return nil
}

func (l *ledger) run(line string) {
	var text string
	var process int
	if strings.TrimSpace(line) == "" {
		return
	}
	if _, err := fmt.Sscan(line, &text, &process); err != nil {
		l.wrong("a line of runs: %q: %v", line, err)
		return
	}
	var hash contracts.Digest
	if err := hash.UnmarshalText([]byte(text)); err != nil {
		l.wrong("a line of runs: %q: %v", line, err)
		return
	}
	d := l.decisions[hash]
	switch {
	case d == nil:
		l.wrong("process %d ran a call that has no ALLOW in the log, %v", process, hash)
		return
	case d.ran:
		l.wrong("the call of entry %d ran twice", l.index[hash])
	case d.process != process:
		l.wrong("the call of entry %d, of process %d, was run by %d", l.index[hash], d.process, process)
	}
	d.ran = true
	l.ran++
}

func (l *ledger) ack(line string) {
	if strings.TrimSpace(line) == "" {
		return
	}
	var a ack
	var text, verdict string
	_, err := fmt.Sscan(line, &a.index, &text, &verdict, &a.released, &a.process)
	if err == nil {
		err = a.hash.UnmarshalText([]byte(text))
	}
	if err != nil {
		l.wrong("a line of results: %q: %v", line, err)
		return
	}
	a.verdict = verdict
	l.acked[a.process]++
	at, ok := l.index[a.hash]
	switch {
	case !ok:
		l.wrong("process %d was given a receipt that is not in the log, at %d: released %t",
			a.process, a.index, a.released)
	case at != a.index:
		l.wrong("process %d was given the receipt at %d, which is at %d", a.process, a.index, at)
	case a.released && a.verdict != contracts.Allow.String():
		l.wrong("process %d was given an output with the receipt at %d, and verdict %s", a.process, a.index, a.verdict)
	}
}

// add adds the next entry.
func (l *ledger) add(e contracts.Entry) error {
	at, hash := l.size, e.Hash()
	l.size++
	sealed, err := l.reader.Open(e)
	if err != nil {
		return err
	}
	st, err := sealed.Statement()
	if err != nil {
		return err
	}
	process, ok := l.processes[st.Key]
	if !ok {
		return fmt.Errorf("the key of no process")
	}
	l.last[process] = at
	if at == 0 {
		l.genesis = hash
	}
	end := l.ends[st.Session]
	prev := end.Last
	if end.Next == 0 && at > 0 {
		prev = l.genesis
	}
	switch {
	case st.Seq != end.Next:
		return fmt.Errorf("seq %d in session %q, which has %d entries", st.Seq, st.Session, end.Next)
	case st.Prev != prev:
		return fmt.Errorf("prev is not the last entry of session %q", st.Session)
	case at > 0 && st.Lamport <= end.Lamport || st.Time < end.Time:
		return fmt.Errorf("lamport or time runs back in session %q", st.Session)
	case end.Closed:
		return fmt.Errorf("session %q was closed", st.Session)
	}
	for _, p := range st.Parents {
		if _, ok := l.index[p]; !ok {
			return fmt.Errorf("a parent that is not before it")
		}
	}
	l.index[hash] = at
	l.ends[st.Session] = proofgraph.End{Next: st.Seq + 1, Last: hash, Lamport: st.Lamport, Time: st.Time,
		Closed: st.Close != nil}
	switch {
	case st.Decision != nil:
		return l.decide(hash, process, st)
	case st.Receipt != nil && st.Receipt.Decision == nil:
		return l.settle(process, st.Receipt)
	case st.Receipt != nil:
		l.denied++
	}
	return nil
}

func balanceOf(c contracts.Charge) contracts.Balance {
	return contracts.Balance{Budget: c.Budget, Of: c.Of, Window: c.Window}
}

func (l *ledger) decide(hash contracts.Digest, process int, st *contracts.Statement) error {
	d := st.Decision
	l.decisions[hash] = &decision{process: process, charges: d.Charges}
	for _, c := range d.Charges {
		b := balanceOf(c)
		if c.Before != l.spent[b] {
			return fmt.Errorf("budget %s: %d before it, and the log says %d", c.Budget, c.Before, l.spent[b])
		}
		if l.spent[b] += c.Amount; l.spent[b] > c.Limit {
			return fmt.Errorf("budget %s: %d of %d", c.Budget, l.spent[b], c.Limit)
		}
	}
	if d.Idempotency != "" {
		name := st.Session + "\n" + d.Idempotency
		if l.keys[name] {
			return fmt.Errorf("the key %q of session %q again", d.Idempotency, st.Session)
		}
		l.keys[name] = true
	}
	for _, a := range d.Approvals {
		if l.approvals[a] {
			return fmt.Errorf("an approval again")
		}
		l.approvals[a] = true
	}
	return nil
}

func (l *ledger) settle(process int, r *contracts.Receipt) error {
	d := l.decisions[r.DecisionHash]
	switch {
	case d == nil:
		return fmt.Errorf("a receipt of no decision")
	case d.receipt:
		return fmt.Errorf("a second receipt of entry %d", l.index[r.DecisionHash])
	case len(d.charges) != len(r.Settled):
		return fmt.Errorf("a receipt of other charges")
	case d.process != process && r.Reason != contracts.ReasonOutcomeUnknown:
		return fmt.Errorf("process %d says that a call of process %d is %s", process, d.process, r.Reason)
	}
	d.receipt = true
	if r.Reason == contracts.ReasonOutcomeUnknown {
		l.unknown++
	}
	for i, c := range d.charges {
		if stays := r.Settled[i].Amount; stays <= c.Amount {
			l.spent[balanceOf(c)] -= c.Amount - stays
		} else {
			return fmt.Errorf("a receipt that charges more")
		}
	}
	return nil
}

// ended says what must not be after the last process has ended: a call without a receipt.
func (l *ledger) ended() {
	for hash, d := range l.decisions {
		if !d.receipt {
			l.wrong("the call of entry %d, of process %d, has no receipt", l.index[hash], d.process)
		}
	}
}
