package office

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// A desk has the questions that calls wait for, and Ann, who answers them. Frameworks make calls
// side by side.
type desk struct {
	out io.Writer
	key crypto.PrivateKey

	mu       sync.Mutex
	open     []question
	answered map[call]helm.Envelope
}

// A call is of one conversation, with the arguments as the model wrote them.
type call struct{ session, tool, args string }

func callOf(in helm.Intent) call { return call{in.Session, in.Tool, string(in.Args)} }

// A question is a request with the arguments that it is about, as they were judged.
type question struct {
	call    call
	request contracts.ApprovalRequest
	args    json.RawMessage
}

// answers returns the approvals to present. Answers to other calls are left out: one of them would
// make the reason APPROVAL_INVALID, and then there is no question to ask.
func (d *desk) answers(c call) []helm.Envelope {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e, ok := d.answered[c]; ok {
		return []helm.Envelope{e}
	}
	return nil
}

// note takes down what became of a call: it waits for an answer, or its answer is of no more use.
func (d *desk) note(c call, made helm.Decision) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case made.Pending != nil:
		d.drop(c)
		d.open = append(d.open, question{c, *made.Pending, made.Args})
	case made.Reason.Ran() || made.Reason == contracts.ReasonApprovalExpired ||
		made.Reason == contracts.ReasonApprovalInvalid:
		delete(d.answered, c)
	}
}

// drop removes what was asked of a call before.
func (d *desk) drop(c call) {
	d.open = slices.DeleteFunc(d.open, func(q question) bool { return q.call == c })
}

// answer has Ann read what is asked, and sign.
func (d *desk) answer() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, q := range d.open {
		if err := q.request.About(q.args); err != nil { // she signs nothing that she was not shown
			return err
		}
		yes, err := q.request.Approve(d.key)
		if err != nil {
			return err
		}
		fmt.Fprintf(d.out, "ann    approves %s %s for %s\n", q.request.Tool, q.args, q.request.Caller.ID)
		d.answered[q.call] = yes
	}
	d.open = nil
	return nil
}
