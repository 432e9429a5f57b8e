package filestore

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"sync"

	"github.com/helmkernel/helm/contracts"
)

// A note is what somebody outside the process knows of it: what its tools did, and what it answered. Nothing of it is undone by a crash.
type note struct {
	Kind     string               // of those below
	Life     int                  // of the process: 1, 2, 3 …
	ID       string               `json:",omitempty"` // of the decision: session/seq
	Hash     string               `json:",omitempty"` // of an entry: the leaf hash, which covers every byte
	Index    uint64               `json:",omitempty"` // of that entry
	Reason   contracts.ReasonCode `json:",omitempty"` // as the caller was told
	Released bool                 `json:",omitempty"` // the caller got the output
	Session  string               `json:",omitempty"`
	Mark     string               `json:",omitempty"` // a checkpoint
	What     string               `json:",omitempty"` // went wrong
	Secret   string               `json:",omitempty"` // of a call that was made in confidence
}

const (
	noteBegun     = "begun"     // New returned: Hash is genesis
	noteEffect    = "effect"    // a tool did what it is for: ID and Hash are of the decision in its permit
	noteReceipt   = "receipt"   // Guard returned a receipt: Hash and Index are its entry's
	noteSurely    = "surely"    // Guard returned none and said that the call ID surely did not run
	noteClosed    = "closed"    // CloseSession returned
	noteMark      = "mark"      // Checkpoint returned
	noteSeen      = "seen"      // an auditor who reads beside the writer saw entry Index
	noteErasing   = "erasing"   // EraseBlob is called: Hash is the blob's
	noteErased    = "erased"    // and returned
	noteForgotten = "forgotten" // everything that has Secret was erased
	noteTrouble   = "trouble"   // what must not happen
)

// notebook is where notes go. It is safe for concurrent use.
type notebook interface{ add(n note) }

// pages is a notebook in memory.
type pages struct {
	mu    sync.Mutex
	notes []note
}

func (p *pages) add(n note) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notes = append(p.notes, n)
}

func (p *pages) all() []note {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]note(nil), p.notes...)
}

func (p *pages) copy() *pages { return &pages{notes: p.all()} }

// diary is a notebook in a file, which a killed process leaves as it is: each note is one write to the end of the file, of a size that
// divides a page, since a signal may end a longer one between two pages.
type diary struct{ f *os.File }

const noteSize = 1024

func openDiary(path string) (diary, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	return diary{f}, err
}

func (d diary) add(n note) {
	b, err := json.Marshal(n)
	if err == nil && len(b) >= noteSize {
		err = fmt.Errorf("a note of %d bytes", len(b))
	}
	if err == nil {
		b = append(b, bytes.Repeat([]byte{' '}, noteSize-1-len(b))...)
		_, err = d.f.Write(append(b, '\n'))
	}
	if err != nil {
		panic("the harness cannot write: " + err.Error())
	}
}

// readDiary gives the notes of a file, none where there is no file.
func readDiary(path string) ([]note, error) {
	b, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if len(b)%noteSize != 0 {
		return nil, fmt.Errorf("%s: half a note at the end, of %d bytes", path, len(b))
	}
	var notes []note
	for len(b) > 0 {
		var n note
		if err := json.Unmarshal(b[:noteSize], &n); err != nil {
			return nil, fmt.Errorf("%s: note %d: %v", path, len(notes), err)
		}
		notes, b = append(notes, n), b[noteSize:]
	}
	return notes, nil
}
