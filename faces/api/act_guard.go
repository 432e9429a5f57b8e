package api

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/faces/auth"
	"github.com/helmkernel/helm/faces/state"
)

// A wish is the body of a request to guard a call.
type wish struct {
	Tool, Arguments, Session, Idempotency, Run *string
	After                                      []json.RawMessage
	Delegation, Approvals, Attestations        []contracts.Envelope
	Definition                                 *contracts.Digest
}

const wishForm = `{"tool": "…", "arguments": "{…}", "session": "…", "idempotency": "…", "run": "here", "after": ` +
	`[{"index": 1, "hash": "…"}], "delegation": […], "approvals": […], "attestations": […], "definition": "…"}, ` +
	`tool and arguments at least, arguments a string that has JSON`

// guard asks for a call.
func (a *acting) guard(w http.ResponseWriter, r *http.Request) {
	var x wish
	back, ok := a.asked(w, r, wishForm, map[string]any{
		"tool": &x.Tool, "arguments": &x.Arguments, "session": &x.Session, "idempotency": &x.Idempotency, "run": &x.Run,
		"after": &x.After, "delegation": &x.Delegation, "approvals": &x.Approvals, "attestations": &x.Attestations,
		"definition": &x.Definition,
	})
	if !ok {
		return
	}
	defer back()
	in, there, fault := a.intent(r, &x)
	if fault != "" {
		bad(w, r, fault)
		return
	}
	if !a.o.Auth.MayAsk(in.Caller) {
		w.Header().Set("Retry-After", "60")
		unavailable(w, r, "too many calls were denied in this minute")
		return
	}
	if in.After, ok = a.after(w, r, in.After); !ok {
		return
	}
	w.Header().Set("Helm-Session", in.Session)
	in.Approvals = a.present(r.Context(), &in)
	if !there {
		a.here(w, r, in)
		return
	}
	var definition contracts.Digest
	if x.Definition != nil {
		definition = *x.Definition
	}
	a.handOver(w, r, in, definition)
}

// intent returns the call that is wished, of the caller who asks, and whether it runs there. fault
// is what is wrong with the wish.
func (a *acting) intent(r *http.Request, x *wish) (in helm.Intent, there bool, fault string) {
	switch {
	case x.Tool == nil || *x.Tool == "" || x.Arguments == nil:
		return in, false, "want " + wishForm
	case x.Session != nil && *x.Session == "":
		return in, false, "session has no name: leave it out for a session of this call alone"
	case x.Idempotency != nil && *x.Idempotency == "":
		return in, false, "idempotency is empty: leave it out"
	case x.Idempotency != nil && x.Session == nil && !a.o.Auth.Named(r):
		return in, false, "idempotency holds in a session: name one"
	case x.Run != nil && *x.Run != "here" && *x.Run != "caller":
		return in, false, "run is here or caller"
	}
	there = x.Run != nil && *x.Run == "caller"
	if x.Definition != nil && !there {
		return in, false, "definition goes with run: caller"
	}
	given := ""
	if x.Session != nil {
		given = *x.Session
	}
	session, err := a.o.Auth.Session(r, given)
	if err != nil {
		return in, false, err.Error()
	}
	in = helm.Intent{
		Tool: *x.Tool, Args: []byte(*x.Arguments), Caller: auth.From(r.Context()).Caller, Session: session,
		Delegation: x.Delegation, Approvals: x.Approvals, Attestations: x.Attestations,
	}
	if x.Idempotency != nil {
		in.Idempotency = *x.Idempotency
	}
	for _, b := range x.After {
		var index *uint64
		var hash *contracts.Digest
		if !auth.Object(b, map[string]any{"index": &index, "hash": &hash}) || index == nil || hash == nil {
			return in, false, `after has {"index": 1, "hash": "…"}, each once, and nothing else`
		}
		in.After = append(in.After, contracts.Ref{Index: *index, Hash: *hash})
	}
	return in, there, ""
}

// after returns the entries that a call names as its causes. If one of them may not be read by who
// asks, they are those of a call that names an entry that is not there. If the log cannot be read
// it answers.
func (a *acting) after(w http.ResponseWriter, r *http.Request, refs []contracts.Ref) ([]contracts.Ref, bool) {
	if len(refs) == 0 {
		return nil, true
	}
	s, ok := a.reads.look(w, r)
	if !ok {
		return nil, false
	}
	who := auth.From(r.Context())
	all := who.May(auth.Read)
	for _, ref := range refs {
		if !s.may(ref.Index) || !all && !s.isOf(ref.Index, who.Caller) {
			return []contracts.Ref{{}}, true
		}
	}
	return refs, true
}

// isOf reports whether an entry is of a call of that caller.
func (s *sight) isOf(i uint64, c helm.Caller) bool {
	o := s.owners[s.view.slots[s.entries[i].slot()].owner]
	return o == owner{oneCaller, c.ID, c.Tenant}
}

const mostApprovals = 16 // of a call; one with more is denied

// present returns the approvals of a call: those that came with it, and those that are kept for it.
func (a *acting) present(ctx context.Context, in *helm.Intent) []helm.Envelope {
	p := a.o.Kernel.Policy()
	if p == nil {
		return in.Approvals
	}
	list := in.Approvals
	for _, e := range a.o.Approvals.For(ctx, in.Caller, in.Session, in.Tool, in.Args, p.Hash()) {
		has := slices.ContainsFunc(list, func(f helm.Envelope) bool { return bytes.Equal(e, f) })
		if !has && len(list) < mostApprovals {
			list = append(list, e)
		}
	}
	return list
}

// here runs a call here.
func (a *acting) here(w http.ResponseWriter, r *http.Request, in helm.Intent) {
	run := a.o.Run
	if run == nil {
		run = a.o.Kernel.Guard
	}
	d, receipt := run(r.Context(), in)
	a.tell(w, r, in.Session, d, receipt)
}

// A told is what is answered of a call that was not denied.
type told struct {
	auth.ToldCall
	Session  string  `json:"session"`
	Released bool    `json:"released"`
	Output   *string `json:"output,omitempty"`
	Encoding string  `json:"encoding,omitempty"` // base64: the output is not UTF-8
	Text     string  `json:"text"`
	Failed   bool    `json:"failed"`
}

// tell answers with the last word on a call.
func (a *acting) tell(w http.ResponseWriter, r *http.Request, session string, d helm.Decision, receipt helm.Receipt) {
	if errors.Is(d.Err(), helm.ErrDenied) {
		a.deny(w, r, session, d, receipt)
		return
	}
	x := told{ToldCall: auth.Tell("", d, receipt), Session: session}
	x.Text, x.Failed = d.ForModel(receipt)
	if receipt.Output != nil {
		x.Released = true
		x.Output, x.Encoding = text(receipt.Output)
	}
	auth.Answer(w, x)
}

// text returns bytes as a text, and how it is encoded.
func text(b []byte) (s *string, encoding string) {
	t := string(b)
	if !utf8.Valid(b) {
		t, encoding = base64.StdEncoding.EncodeToString(b), "base64"
	}
	return &t, encoding
}

// deny answers a call that did not run. 403 says that it was judged, and has its receipt.
func (a *acting) deny(w http.ResponseWriter, r *http.Request, session string, d helm.Decision, receipt helm.Receipt) {
	if receipt.Entry == nil {
		if a.o.Kernel.Err() == nil {
			w.Header().Set("Retry-After", "1") // there were too many calls at once
		}
		unavailable(w, r, "no calls are taken now")
		return
	}
	a.o.Auth.Denied(auth.From(r.Context()).Caller)
	w.Header().Set("Helm-Denied", "1")
	a.ask(w, r, &d)
	message, _ := d.ForModel(receipt)
	auth.RefuseCall(w, r, string(d.Reason), message,
		auth.Told{Session: session, Calls: []auth.ToldCall{auth.Tell("", d, receipt)}})
}

// ask keeps the request of a call that waits for a person. The answer names the one that is kept.
func (a *acting) ask(w http.ResponseWriter, r *http.Request, d *helm.Decision) {
	if d.Pending == nil {
		return
	}
	nonce, err := a.o.Approvals.Ask(d.Pending, d.Args)
	if err != nil {
		return // the request is in the answer all the same
	}
	if nonce != d.Pending.Nonce {
		kept, err := a.o.Approvals.Get(r.Context(), nonce)
		if err != nil {
			return
		}
		d.Pending = &kept.Request
	}
	w.Header().Set("Location", "/api/v1/approvals/"+nonce)
}

// A permission is what is answered of a call that the caller runs.
type permission struct {
	Call      string `json:"call"`
	Tool      string `json:"tool"`
	Session   string `json:"session"`
	Arguments string `json:"arguments"` // that were judged: to be run are these bytes, and no others
	Expires   string `json:"expires"`
	Decision  string `json:"decision"`
	Entry     []byte `json:"entry"` // the signed permission
}

// elsewhere is the driver of a tool that a server here has, in a call that the caller would run. It
// is never run: the desk takes no call with a driver.
var elsewhere helm.Func = func(context.Context, json.RawMessage) (json.RawMessage, error) {
	return nil, errors.New("api: the caller runs it")
}

// handOver permits a call that the caller runs.
func (a *acting) handOver(w http.ResponseWriter, r *http.Request, in helm.Intent, definition contracts.Digest) {
	bound := a.o.Serves != nil && a.o.Serves(r.Context(), in.Tool)
	if bound {
		in.Driver = elsewhere
	}
	began := time.Now()
	d, receipt, t := a.o.Desk.Begin(r.Context(), in, definition)
	a.o.Telemetry.Tell(state.Fact{Kind: state.Judged, Took: time.Since(began)})
	if t == nil {
		if bound && (d.Reason == contracts.ReasonDriverNotBound || d.Reason == contracts.ReasonSandboxViolation) {
			d.Why = "a server here has the tool: ask with run: here"
		}
		a.tell(w, r, in.Session, d, receipt)
		return
	}
	call := t.Call()
	b, err := json.Marshal(permission{
		Call: t.ID(), Tool: call.Tool, Session: call.Session, Arguments: string(call.Args),
		Expires: call.Permit.Expires.String(), Decision: call.Permit.DecisionID, Entry: call.Permit.Decision,
	})
	if err == nil {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		if _, err = w.Write(append(b, '\n')); err == nil {
			err = flush(w)
		}
	}
	if (err != nil || r.Context().Err() != nil) && in.Idempotency == "" {
		t.Drop() // nobody has the permission; with a key the same request gets it again
	}
}

// flush sends what was written. A writer that holds nothing back has nothing to send.
func flush(w http.ResponseWriter) error {
	err := http.NewResponseController(w).Flush()
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}
