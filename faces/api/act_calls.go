package api

import (
	"cmp"
	"encoding/base64"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/faces/auth"
	"github.com/helmkernel/helm/faces/state"
	"github.com/helmkernel/helm/handoff"
)

// ticket returns the call that a request names. One of another caller does not exist. If there is
// none it answers.
func (a *acting) ticket(w http.ResponseWriter, r *http.Request) *handoff.Ticket {
	t := a.o.Desk.Ticket(r.PathValue("id"))
	if t == nil || !same(t.Call().Caller, auth.From(r.Context()).Caller) {
		absent(w, r, "there is no such call: it was settled long ago, or never was")
		return nil
	}
	return t
}

// An opened call is one that waits for its outcome.
type opened struct {
	Call     string `json:"call"`
	Tool     string `json:"tool"`
	Session  string `json:"session"`
	Decision string `json:"decision"`
	Expires  string `json:"expires"`
}

// calls answers with the open calls of the caller, by the times at which they expire.
func (a *acting) calls(w http.ResponseWriter, r *http.Request) {
	who := auth.From(r.Context()).Caller
	list := []opened{}
	for _, t := range a.o.Desk.Tickets() {
		if c := t.Call(); same(c.Caller, who) {
			list = append(list, opened{t.ID(), c.Tool, c.Session, c.Permit.DecisionID, c.Permit.Expires.String()})
		}
	}
	slices.SortFunc(list, func(x, y opened) int {
		return cmp.Or(strings.Compare(x.Expires, y.Expires), strings.Compare(x.Call, y.Call))
	})
	auth.Answer(w, map[string]any{"items": list})
}

const outcomeForm = `{"output": "…", "encoding": "base64", "raw": true, "failed": false}, output at least, ` +
	`or {"error": "…"}`

// outcome records what became of a call.
func (a *acting) outcome(w http.ResponseWriter, r *http.Request) {
	t := a.ticket(w, r)
	if t == nil {
		a.o.Telemetry.Tell(state.Fact{Kind: state.Unknown})
		return
	}
	var output, encoding, fault *string
	var raw, failed *bool
	back, ok := a.asked(w, r, outcomeForm, map[string]any{
		"output": &output, "encoding": &encoding, "raw": &raw, "failed": &failed, "error": &fault,
	})
	if !ok {
		return
	}
	defer back()
	if (output == nil) == (fault == nil) || fault != nil && (encoding != nil || raw != nil || failed != nil) {
		bad(w, r, "want "+outcomeForm)
		return
	}
	var o handoff.Outcome
	if fault != nil {
		o.Err = errors.New(*fault)
	} else {
		o = handoff.Outcome{Output: []byte(*output), Raw: raw != nil && *raw, Failed: failed != nil && *failed}
	}
	if encoding != nil {
		b, err := base64.StdEncoding.Strict().DecodeString(*output)
		if err != nil || *encoding != "base64" || strings.ContainsAny(*output, "\r\n") {
			bad(w, r, "encoding is base64, and the output is not written in it")
			return
		}
		o.Output = b
	}
	d, receipt, recorded := t.Settle(o)
	settled(w, d, receipt, &recorded)
}

// drop says that nobody will report what became of a call.
func (a *acting) drop(w http.ResponseWriter, r *http.Request) {
	if t := a.ticket(w, r); t != nil {
		d, receipt := t.Drop()
		settled(w, d, receipt, nil)
	}
}

// settled answers with the last word on a call that was handed over. recorded says whether the
// report was the one that counts; nil: there was none.
func settled(w http.ResponseWriter, d helm.Decision, receipt helm.Receipt, recorded *bool) {
	auth.Answer(w, struct {
		Recorded *bool                `json:"recorded,omitempty"`
		Verdict  contracts.Verdict    `json:"verdict"`
		Reason   contracts.ReasonCode `json:"reason"`
		Outcome  contracts.Outcome    `json:"outcome,omitempty"`
		Released bool                 `json:"released"`
		Receipt  *auth.ToldReceipt    `json:"receipt"`
	}{recorded, d.Verdict, d.Reason, receipt.Record.Outcome, receipt.Output != nil, refOf(receipt)})
}
