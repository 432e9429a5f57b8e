package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/faces/auth"
)

// shared returns the session of a request that begins none, for a caller who may ask for calls. If
// it cannot it answers. The caller calls leave.
func (h *Handler) shared(w http.ResponseWriter, r *http.Request, given string) (s *session, leave func(), ok bool) {
	c := auth.From(r.Context()).Caller
	var name string
	var err error
	if given != "" {
		name, err = h.o.Auth.Session(r, given) // which a header must not contradict
	} else {
		name, err = h.name(r, ownSession)
	}
	if err == nil {
		s, err = h.enter(keyOf(c, name), c, name, "", false, true)
	}
	if err != nil {
		h.refuse(w, r, err)
		return nil, nil, false
	}
	w.Header().Set("Helm-Session", name)
	return s, func() { h.leave(s) }, true
}

// capabilities answers with the tools that some call of the caller may be allowed to.
func (h *Handler) capabilities(w http.ResponseWriter, r *http.Request) {
	if !auth.Method(w, r, http.MethodGet, http.MethodHead) || !may(w, r) {
		return
	}
	s, leave, ok := h.shared(w, r, "")
	if !ok {
		return
	}
	defer leave()
	list, err := s.visible(r.Context())
	if err != nil {
		auth.Refuse(w, r, http.StatusServiceUnavailable, "helm_unavailable", "the tools cannot be listed now")
		return
	}
	type tool struct {
		Name        string               `json:"name"`
		Description json.RawMessage      `json:"description"`
		InputSchema json.RawMessage      `json:"inputSchema"`
		Effect      contracts.EffectType `json:"effect"`
		Risk        contracts.Risk       `json:"risk"`
		Definition  contracts.Digest     `json:"definition"`
	}
	tools := []tool{}
	for _, t := range list {
		var of map[string]json.RawMessage // by its exact name: a struct would take another letter case
		if err := json.Unmarshal(t.raw, &of); err != nil {
			continue
		}
		tools = append(tools, tool{t.name, of["description"], of["inputSchema"], t.tool.Effect, t.tool.Risk, t.digest})
	}
	auth.Answer(w, map[string]any{"server_name": "helm", "version": "1", "governance": "helm",
		"protocol_versions": sdk.SupportedProtocolVersions(), "tools": tools})
}

// An execution is the body of a request to execute a tool.
type execution struct {
	tool, session string
	args          json.RawMessage
}

// readExecution reads {"tool", "arguments", "session"}, or {"method", "params"} for the first two.
// The arguments are an object, of which the bytes as they came are judged, or a string that has
// them: what is wrong with them is for the kernel to deny.
func readExecution(body []byte) (x execution, ok bool) {
	members, ok := membersOf(body)
	if !ok {
		return x, false
	}
	for name, raw := range members {
		switch name {
		case "tool", "method":
			ok = x.tool == "" && json.Unmarshal(raw, &x.tool) == nil && x.tool != ""
		case "arguments", "params":
			var text string
			switch {
			case x.args != nil:
				ok = false
			case json.Unmarshal(raw, &text) == nil && raw[0] == '"':
				x.args = json.RawMessage(text)
			case raw[0] == '{':
				x.args = raw
			default:
				ok = false
			}
		case "session":
			ok = json.Unmarshal(raw, &x.session) == nil && x.session != ""
		default:
			ok = false
		}
		if !ok {
			return x, false
		}
	}
	return x, x.tool != "" && len(x.args) > 0
}

// membersOf returns the members of an object as they came, each of which is there once. Below them
// nothing is looked at.
func membersOf(body []byte) (members map[string]json.RawMessage, ok bool) {
	d := json.NewDecoder(bytes.NewReader(body))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, false
	}
	members = map[string]json.RawMessage{}
	for d.More() {
		t, err := d.Token()
		name, isName := t.(string)
		if err != nil || !isName || members[name] != nil {
			return nil, false
		}
		var raw json.RawMessage
		if d.Decode(&raw) != nil {
			return nil, false
		}
		members[name] = raw
	}
	if _, err := d.Token(); err != nil || len(bytes.TrimSpace(body[d.InputOffset():])) > 0 {
		return nil, false
	}
	return members, true
}

// execute makes one call. Of one that is denied it answers 403, which always says that it did not
// run, with the reason and the receipt.
func (h *Handler) execute(w http.ResponseWriter, r *http.Request) {
	if !auth.Method(w, r, http.MethodPost) || !may(w, r) {
		return
	}
	b, back, ok := h.body(w, r)
	if !ok {
		return
	}
	defer back()
	x, ok := readExecution(b)
	if !ok {
		auth.Refuse(w, r, http.StatusBadRequest, "helm_bad_request",
			`want {"tool": "…", "arguments": {…}, "session": "…"}, each once; session may be left out, `+
				`arguments may be a text of JSON, and tool and arguments may be named method and params`)
		return
	}
	s, leave, ok := h.shared(w, r, x.session)
	if !ok {
		return
	}
	defer leave()
	if !h.o.Auth.MayAsk(s.caller) {
		w.Header().Set("Retry-After", "60")
		auth.Refuse(w, r, http.StatusServiceUnavailable, "helm_unavailable",
			"too many calls were denied in this minute")
		return
	}
	d, receipt := s.call(r.Context(), x.tool, x.args)
	told := auth.Tell("", d, receipt)
	if errors.Is(d.Err(), helm.ErrDenied) {
		h.o.Auth.Denied(s.caller)
		w.Header().Set("Helm-Denied", "1")
		if d.Reason == contracts.ReasonKernelSealed {
			auth.Refuse(w, r, http.StatusServiceUnavailable, "helm_unavailable", "no calls are taken now")
			return
		}
		text, _ := d.ForModel(receipt)
		auth.RefuseCall(w, r, string(d.Reason), text, auth.Told{Session: s.name, Calls: []auth.ToldCall{told}})
		return
	}
	answer := struct {
		Result   json.RawMessage `json:"result"`
		Failed   bool            `json:"failed"`
		Released bool            `json:"released"`
		auth.ToldCall
		Session string `json:"session"`
	}{json.RawMessage("null"), true, false, told, s.name}
	if receipt.Output != nil {
		answer.Result, answer.Released = receipt.Output, true
		_, answer.Failed = d.ForModel(receipt)
	}
	auth.Answer(w, answer)
}
