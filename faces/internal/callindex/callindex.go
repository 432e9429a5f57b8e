// Package callindex remembers which session the calls of an answer belong to, and which of them
// were denied, over restarts.
//
// It is no evidence, and may be lost: then a conversation begins a session again. So its file is
// written without sync, and a line that is not whole, or faulty, is passed over. What is older than
// a session may be idle is dropped when the file is opened.
package callindex

import (
	"bufio"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/helmkernel/helm/crypto"
)

// An Entry is what is known of a call, or of an answer of the provider.
type Entry struct {
	Session string
	Denied  bool
	Kind    string // of a denied call: the type of its item
	Refusal string // of a denied call: what the model is told
	Answer  string // the id of the answer that a denied call is of, if the provider keeps it
	Tool    string // of a call that was judged
}

// An Index is safe for concurrent use.
type Index struct {
	idle time.Duration
	now  func() time.Time

	mu      sync.Mutex
	file    *os.File
	entries map[key]known
	answers map[key][]string // ids of denied calls, by that of their answer
}

// A key is the hash of a caller and an id, so that long ids take no more memory.
type key [16]byte

type known struct {
	Entry
	at int64 // seconds
}

// line is an entry in the file.
type line struct {
	Caller  string `json:"c"`
	ID      string `json:"i"`
	Session string `json:"s"`
	Denied  bool   `json:"d,omitempty"`
	Kind    string `json:"k,omitempty"`
	Refusal string `json:"r,omitempty"`
	Answer  string `json:"a,omitempty"`
	Tool    string `json:"n,omitempty"`
	At      int64  `json:"t"`
}

const maxLine = 64 << 10

// Open reads the index in a file, which it makes if it is not there. Entries that were put longer
// ago than idle are dropped. With no name nothing is kept.
func Open(name string, idle time.Duration, now func() time.Time) (*Index, error) {
	x := &Index{idle: idle, now: now, entries: map[key]known{}, answers: map[key][]string{}}
	if name == "" {
		return x, nil
	}
	kept, err := x.load(name)
	if err != nil {
		return nil, err
	}
	whole := name + ".new" // so that the file does not grow without end
	if err := os.WriteFile(whole, kept, 0o600); err != nil {
		return nil, err
	}
	if err := os.Rename(whole, name); err != nil {
		return nil, err
	}
	x.file, err = os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0o600)
	return x, err
}

func (x *Index) load(name string) (kept []byte, err error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	oldest := x.now().Add(-x.idle).Unix()
	r := bufio.NewScanner(f)
	r.Buffer(nil, maxLine)
	for r.Scan() {
		var l line
		if json.Unmarshal(r.Bytes(), &l) != nil || l.ID == "" || l.At < oldest {
			continue
		}
		x.add(l)
		kept = append(append(kept, r.Bytes()...), '\n')
	}
	return kept, nil // what cannot be read is lost
}

func keyOf(caller, id string) (k key) {
	sum := crypto.Sum(crypto.AppendString(crypto.AppendString(nil, caller), id))
	copy(k[:], sum[:])
	return k
}

func (x *Index) add(l line) {
	k := keyOf(l.Caller, l.ID)
	_, had := x.entries[k]
	x.entries[k] = known{Entry{l.Session, l.Denied, l.Kind, l.Refusal, l.Answer, l.Tool}, l.At}
	if l.Denied && l.Answer != "" && !had {
		a := keyOf(l.Caller, l.Answer)
		x.answers[a] = append(x.answers[a], l.ID)
	}
}

// Put notes an entry of a caller, which is a name of them. What is there already stays.
func (x *Index) Put(caller, id string, e Entry) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, ok := x.get(caller, id); ok || id == "" {
		return
	}
	l := line{caller, id, e.Session, e.Denied, e.Kind, e.Refusal, e.Answer, e.Tool, x.now().Unix()}
	x.add(l)
	b, err := json.Marshal(l)
	if err != nil || len(b) >= maxLine || x.file == nil {
		return
	}
	_, _ = x.file.Write(append(b, '\n')) // it may be lost
}

// Get returns the entry of an id.
func (x *Index) Get(caller, id string) (Entry, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	e, ok := x.get(caller, id)
	return e.Entry, ok
}

func (x *Index) get(caller, id string) (known, bool) {
	e, ok := x.entries[keyOf(caller, id)]
	if ok && x.now().Unix()-e.at > int64(x.idle/time.Second) {
		delete(x.entries, keyOf(caller, id))
		delete(x.answers, keyOf(caller, id))
		return known{}, false
	}
	return e, ok
}

// A Denied is a denied call of an answer.
type Denied struct {
	ID string
	Entry
}

// Denied returns the denied calls of an answer that the provider keeps, in their order.
func (x *Index) Denied(caller, answer string) (list []Denied) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, id := range x.answers[keyOf(caller, answer)] {
		if e, ok := x.get(caller, id); ok {
			list = append(list, Denied{id, e.Entry})
		}
	}
	return list
}

// Close closes the file. What is put later is not kept.
func (x *Index) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.file == nil {
		return nil
	}
	err := x.file.Close()
	x.file = nil
	return err
}
