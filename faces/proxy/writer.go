package proxy

import (
	"net/http"
	"sync"
	"time"
)

// A writer writes a streamed answer to the app. While nothing is written for a while it writes a
// sign of life. It is safe for concurrent use.
type writer struct {
	w     http.ResponseWriter
	c     *http.ResponseController
	begin func()        // sets the headers
	alive []byte        // a sign of life; nil: none
	keep  time.Duration // between two
	taken time.Duration // in which the app takes what is written

	mu    sync.Mutex
	begun bool
	timer *time.Timer
	err   error
}

func newWriter(w http.ResponseWriter, l limits, begin func(), alive []byte) *writer {
	out := &writer{w: w, c: http.NewResponseController(w), begin: begin, alive: alive, keep: l.keep, taken: l.taken}
	if alive != nil {
		out.mu.Lock() // tick may be called before there is a timer
		defer out.mu.Unlock()
		out.timer = time.AfterFunc(out.keep, out.tick)
	}
	return out
}

// tick writes a sign of life.
func (w *writer) tick() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil {
		w.send(w.alive)
	}
}

// write writes events, and returns when the app, or the network before it, has them.
func (w *writer) write(b []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.send(b)
	return w.err
}

func (w *writer) send(b []byte) {
	if w.err != nil || len(b) == 0 {
		return
	}
	if !w.begun {
		w.begun = true
		w.begin()
	}
	for len(b) > 0 && w.err == nil { // who takes a part is not gone
		part := b[:min(len(b), 64<<10)]
		_ = w.c.SetWriteDeadline(time.Now().Add(w.taken)) // a writer of tests may have none
		_, w.err = w.w.Write(part)
		b = b[len(part):]
	}
	if w.err == nil {
		w.err = w.c.Flush()
	}
	if w.timer != nil {
		w.timer.Reset(w.keep)
	}
}

// close ends the signs of life, and reports whether something was written.
func (w *writer) close() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
	if w.begun {
		_ = w.c.SetWriteDeadline(time.Time{}) // the connection may have further requests
	}
	return w.begun
}
