package past

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// The JSON of a Ledger, a Session and a Marks is this implementation's own. A kernel keeps it, so
// that it need not fold the log again. It has no argument, no text and no fact in it. Two folds of
// the same entries have the same JSON, and what UnmarshalJSON accepts need not be what MarshalJSON
// returns: the reader marshals the result again and compares.

var errSaved = errors.New("guardian: past: not the form of a saved fold")

// A savedBook is a window of a budget.
type savedBook struct {
	Budget string      `json:"budget"`
	Funds  []savedFund `json:"funds"` // sorted by Of
	Window string      `json:"window"`
}

// A savedFund is what is left spent of a fund.
type savedFund struct {
	Of    []byte `json:"of"`
	Spent uint64 `json:"spent"`
}

// MarshalJSON returns the balances that are not 0.
func (l *Ledger) MarshalJSON() ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	accounts := make([]*savedBook, l.accounts)
	for budget, b := range l.books {
		for window, n := range b.all {
			accounts[n-1] = &savedBook{Budget: budget, Window: window}
		}
	}
	for f, spent := range l.spent {
		if spent != 0 {
			b := accounts[f.account-1]
			b.Funds = append(b.Funds, savedFund{bytes.Clone(f.of[:]), spent})
		}
	}
	accounts = slices.DeleteFunc(accounts, func(b *savedBook) bool { return b.Funds == nil })
	slices.SortFunc(accounts, func(a, b *savedBook) int {
		return cmp.Or(cmp.Compare(a.Budget, b.Budget), cmp.Compare(a.Window, b.Window))
	})
	for _, b := range accounts {
		slices.SortFunc(b.Funds, func(a, b savedFund) int { return bytes.Compare(a.Of, b.Of) })
	}
	return json.Marshal(accounts)
}

// UnmarshalJSON sets the balances of a ledger in which nothing is spent.
func (l *Ledger) UnmarshalJSON(b []byte) error {
	var accounts []savedBook
	if err := json.Unmarshal(b, &accounts); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range accounts {
		n := l.number(&contracts.Charge{Budget: a.Budget, Window: a.Window})
		for _, x := range a.Funds {
			f := fund{account: n}
			if copy(f.of[:], x.Of) != len(f.of) || len(x.Of) != len(f.of) || x.Spent > crypto.MaxInt {
				return errSaved
			}
			l.spent[f] = x.Spent
		}
	}
	return nil
}

// A savedSession is a [Session] without what can be read back, and without its mark.
type savedSession struct {
	Allowed  uint64               `json:"allowed"`
	Messages []contracts.Digest   `json:"messages,omitempty"`
	Tools    map[string]savedTool `json:"tools,omitempty"`
}

// A savedTool is a history without its indexes.
type savedTool struct {
	Allowed uint64     `json:"allowed"`
	Runs    []savedRun `json:"runs,omitempty"`
}

type savedRun struct {
	Decision uint64            `json:"decision"`
	Entry    contracts.Digest  `json:"entry"`
	Facts    *contracts.Digest `json:"facts,omitempty"`
	Receipt  uint64            `json:"receipt"`
	Time     contracts.Time    `json:"time"`
}

// MarshalJSON returns what the session is of, but no blob, which can be read back, no request that
// was used, which is in one ([Session.Consume]), and no mark ([Session.Resume]).
func (s *Session) MarshalJSON() ([]byte, error) {
	x := savedSession{Allowed: s.allowed}
	if s.sources != nil {
		for _, m := range s.sources.messages {
			x.Messages = append(x.Messages, m.digest)
		}
	}
	for tool, h := range s.tools {
		t := savedTool{Allowed: h.allowed}
		for _, r := range h.runs {
			t.Runs = append(t.Runs, savedRun{Decision: r.decision, Entry: r.entry, Receipt: r.receipt, Time: r.time})
		}
		if h.documents != nil {
			for i := range h.documents.all {
				d := &h.documents.all[i]
				t.Runs[d.run].Facts = &d.digest
			}
		}
		if t.Allowed == 0 && t.Runs == nil {
			continue // it was asked for
		}
		if x.Tools == nil {
			x.Tools = map[string]savedTool{}
		}
		x.Tools[tool] = t
	}
	return json.Marshal(x)
}

// UnmarshalJSON sets a session of which nothing was folded.
func (s *Session) UnmarshalJSON(b []byte) error {
	var x savedSession
	if err := json.Unmarshal(b, &x); err != nil {
		return err
	}
	s.allowed = x.Allowed
	for _, d := range x.Messages {
		s.Message(d, "")
	}
	for tool, t := range x.Tools {
		s.of(tool).allowed = t.Allowed
		for i, r := range t.Runs {
			if i > 0 && r.Time < t.Runs[i-1].Time {
				return errSaved
			}
			s.Execute(Run{tool, r.Decision, r.Receipt, r.Entry, r.Time}, crypto.Value{}, Facts{Digest: r.Facts})
		}
	}
	return nil
}

// A savedMarks is what the marks of a [Marks] mean.
type savedMarks struct {
	Labels []string `json:"labels,omitempty"`
	Sets   []string `json:"sets,omitempty"` // bits, in hex
}

// MarshalJSON returns what the marks mean, and not which entries have them: see [Marks.Put].
func (m *Marks) MarshalJSON() ([]byte, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	x := savedMarks{Labels: m.labels}
	for _, s := range m.sets {
		x.Sets = append(x.Sets, hex.EncodeToString([]byte(s.bits)))
	}
	return json.Marshal(x)
}

// UnmarshalJSON sets what the marks mean of a Marks that has none.
func (m *Marks) UnmarshalJSON(b []byte) error {
	var x savedMarks
	if err := json.Unmarshal(b, &x); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, label := range x.Labels {
		if !contracts.IsWords(label, contracts.MaxWords) || m.numbers[label] != 0 {
			return errSaved
		}
		if m.numbers == nil {
			m.numbers = map[string]int{}
		}
		m.numbers[label] = i + 1
	}
	m.labels = x.Labels
	for i, text := range x.Sets {
		bits, err := hex.DecodeString(text)
		n := len(bits)
		if err != nil || n == 0 || bits[n-1] == 0 {
			return errSaved
		}
		for k := len(m.labels) + 1; k < 8*n; k++ {
			if isOn(string(bits), k) {
				return errSaved
			}
		}
		if m.markOf(bits) != Mark(i+1) {
			return errSaved // twice
		}
	}
	return nil
}

// Put sets the mark of an entry of the log's beginning that was saved, of which [Session.Mark] was
// not called. It reports false if there is no such mark.
func (m *Marks) Put(index uint64, x Mark) bool {
	if x == 0 || !m.has(x) {
		return x == 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.grow(index)
	if p.all == nil { // entries near it were forgotten
		all := new([pageSize]atomic.Uint32)
		for i := range all {
			all[i].Store(uint32(p.left.of(uint64(i))))
		}
		p = &page{all: all}
		(*m.pages.Load())[index/pageSize].Store(p)
	}
	p.all[index%pageSize].Store(uint32(x))
	return true
}

func (m *Marks) has(x Mark) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return uint64(x) <= uint64(len(m.sets))
}

// Resume sets the mark of a session of which nothing was folded by [Session.Mark]. It reports false
// if m has no such mark.
func (s *Session) Resume(m *Marks, x Mark) bool {
	if !m.has(x) {
		return false
	}
	s.mark = x
	return true
}
