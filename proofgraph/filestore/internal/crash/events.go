package crash

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"sync"

	"github.com/helmkernel/helm/contracts"
)

// An event is an observation from outside the process: an effect of a tool, or an answer of the
// kernel. A crash undoes none of them.
type event struct {
	Kind       string               // one of those below
	Process    int                  // its number: 1, 2, 3 …
	ID         string               `json:",omitempty"` // of the decision: session/seq
	Hash       string               `json:",omitempty"` // of an entry: the leaf hash, which covers every byte
	Index      uint64               `json:",omitempty"` // of that entry
	Reason     contracts.ReasonCode `json:",omitempty"` // as the caller was told
	Released   bool                 `json:",omitempty"` // the caller got the output
	Session    string               `json:",omitempty"`
	Checkpoint string               `json:",omitempty"` // a checkpoint
	What       string               `json:",omitempty"` // of eventTrouble: what went wrong
	Secret     string               `json:",omitempty"` // of a call with a secret
}

const (
	eventBegun      = "begun"     // New returned: Hash is genesis
	eventEffect     = "effect"    // a tool ran: ID and Hash are of the decision in its permit
	eventReceipt    = "receipt"   // Guard returned a receipt: Hash and Index are its entry's
	eventDenied     = "surely"    // Guard returned no receipt, and an answer by which the call ID surely did not run
	eventClosed     = "closed"    // CloseSession returned
	eventCheckpoint = "mark"      // Checkpoint returned
	eventSeen       = "seen"      // an auditor saw entry Index
	eventErasing    = "erasing"   // EraseBlob is called: Hash is the blob's
	eventErased     = "erased"    // EraseBlob returned nil
	eventForgotten  = "forgotten" // every blob with Secret was erased
	eventTrouble    = "trouble"   // an answer that must not happen
)

// A recorder records events. It is safe for concurrent use.
type recorder interface{ add(n event) }

// memoryEvents are recorded in memory.
type memoryEvents struct {
	mu     sync.Mutex
	events []event
}

func (p *memoryEvents) add(n event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, n)
}

func (p *memoryEvents) all() []event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]event(nil), p.events...)
}

func (p *memoryEvents) copy() *memoryEvents { return &memoryEvents{events: p.all()} }

// fileEvents are recorded in a file, which outlives a killed process. Each event is one write to
// the end of the file. Its size divides a page, because a signal may cut a longer write at a page.
type fileEvents struct{ f *os.File }

const eventSize = 1024

func openEvents(path string) (fileEvents, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	return fileEvents{f}, err
}

func (d fileEvents) add(n event) {
	b, err := json.Marshal(n)
	if err == nil && len(b) >= eventSize {
		err = fmt.Errorf("an event of %d bytes", len(b))
	}
	if err == nil {
		b = append(b, bytes.Repeat([]byte{' '}, eventSize-1-len(b))...)
		_, err = d.f.Write(append(b, '\n'))
	}
	if err != nil {
		panic("the harness cannot write: " + err.Error())
	}
}

// readEvents returns the events in a file, or none if there is no file.
func readEvents(path string) ([]event, error) {
	b, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if len(b)%eventSize != 0 {
		return nil, fmt.Errorf("%s: half an event at the end, of %d bytes", path, len(b))
	}
	var events []event
	for len(b) > 0 {
		var n event
		if err := json.Unmarshal(b[:eventSize], &n); err != nil {
			return nil, fmt.Errorf("%s: event %d: %v", path, len(events), err)
		}
		events, b = append(events, n), b[eventSize:]
	}
	return events, nil
}
