package proxy

import (
	"bytes"
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/helmkernel/helm/faces/state"
)

// An account is what is told of an exchange when it has ended. Nothing is counted if nobody is
// told.
type account struct {
	on        bool
	began     time.Time
	firstByte atomic.Int64 // after so many nanoseconds; 0: none was written
	since     time.Time    // something is held back; zero: nothing is
	held      time.Duration
	model     string // as the app names it; "" until the request was read
	in, out   int64  // tokens
}

func (a *account) begin(on bool) { a.on, a.began = on, time.Now() }

// writes is called before the first byte is written.
func (a *account) writes() {
	a.firstByte.CompareAndSwap(0, int64(time.Since(a.began)))
}

// holds says whether a part of the answer is held back now.
func (a *account) holds(now bool) {
	switch {
	case !a.on || now == !a.since.IsZero():
	case now:
		a.since = time.Now()
	default:
		a.held += time.Since(a.since)
		a.since = time.Time{}
	}
}

// tokenCounts are those of the three APIs.
type tokenCounts struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	Input      int64 `json:"input_tokens"`
	Output     int64 `json:"output_tokens"`
}

// count looks for the tokens that a provider says it used, in an answer or an event of one. Later
// counts are of the whole answer.
func (a *account) count(data []byte) {
	if !a.on || !bytes.Contains(data, []byte(`"usage"`)) {
		return
	}
	var said struct {
		Usage    tokenCounts
		Message  struct{ Usage tokenCounts }
		Response struct{ Usage tokenCounts }
	}
	if json.Unmarshal(data, &said) != nil {
		return
	}
	for _, t := range []tokenCounts{said.Usage, said.Message.Usage, said.Response.Usage} {
		a.in = max(a.in, t.Prompt, t.Input)
		a.out = max(a.out, t.Completion, t.Output)
	}
}

// report tells of an exchange whose request was read.
func (x *exchange) report() {
	a := &x.account
	a.holds(false)
	if !a.on || a.model == "" {
		return
	}
	x.tell.Answered(x.r.Context(), state.ModelAnswer{Model: a.model, Input: a.in, Output: a.out,
		Calls: len(x.told), Denied: x.denied, FirstByte: time.Duration(a.firstByte.Load()), Held: a.held})
}
