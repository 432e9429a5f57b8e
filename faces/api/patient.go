package api

import (
	"net/http"
	"time"
)

// A patient writer waits so long for a client that takes nothing, and no longer.
type patient struct {
	http.ResponseWriter
	within time.Duration
}

// Unwrap is for http.ResponseController.
func (p *patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }

func (p *patient) Write(b []byte) (int, error) {
	p.until(time.Now().Add(p.within))
	return p.ResponseWriter.Write(b)
}

// until sets when a write fails; zero: never. What cannot have a deadline is no connection.
func (p *patient) until(t time.Time) {
	_ = http.NewResponseController(p.ResponseWriter).SetWriteDeadline(t)
}
