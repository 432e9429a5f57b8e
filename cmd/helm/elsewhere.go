package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/faces/state"
)

// An elsewhere is a kernel that helm serve serves.
type elsewhere struct{ base, token string }

func isURL(s string) bool { return strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://") }

// newElsewhere returns the kernel at a URL. Its token is in a file; empty: there is none.
func newElsewhere(to, tokenFile string) (*elsewhere, error) {
	u, err := url.Parse(to)
	if err != nil || u.Host == "" || u.User != nil || strings.ContainsAny(to, "?#") {
		return nil, usageError{errors.New("--to: no URL such as https://helm.example:8080")}
	}
	ip := net.ParseIP(u.Hostname())
	if u.Scheme == "http" && u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, usageError{errors.New("--to: http beyond this machine, where others read the token: write https")}
	}
	e := &elsewhere{base: strings.TrimSuffix(to, "/")}
	if tokenFile != "" {
		if e.token, err = (state.Secret{File: tokenFile}).Read(); err != nil {
			return nil, err
		}
	}
	return e, nil
}

const maxAnswer = 16 << 20 // bytes of what a kernel answers

// ask makes a request, and reads what is answered into v.
func (e *elsewhere) ask(ctx context.Context, method, path string, body []byte, v any) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, e.base+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	if e.token != "" {
		r.Header.Set("Helm-Token", e.token)
	}
	resp, err := new(http.Transport).RoundTrip(r) // which follows no redirect, and asks no proxy
	if err != nil {
		return fmt.Errorf("%s: %w", e.base, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", e.base, err)
	case len(b) > maxAnswer:
		return fmt.Errorf("%s: the answer is longer than %d bytes", e.base, maxAnswer)
	case resp.StatusCode != http.StatusOK:
		var said struct{ Error struct{ Message string } }
		_ = json.Unmarshal(b, &said)
		return fmt.Errorf("%s: %d: %s", e.base, resp.StatusCode, ascii(said.Error.Message))
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%s: the answer is not that of a kernel", e.base)
	}
	return nil
}

// A waitingThere is a request as a kernel elsewhere has it.
type waitingThere struct {
	Request   contracts.ApprovalRequest `json:"request"`
	Answers   []state.Answer            `json:"answers"`
	Arguments *string                   `json:"arguments"`
}

// get returns the request with a nonce.
func (e *elsewhere) get(ctx context.Context, nonce string) (p pending, err error) {
	var w waitingThere
	if err := e.ask(ctx, http.MethodGet, "/api/v1/approvals/"+nonce, nil, &w); err != nil {
		return p, err
	}
	if w.Arguments == nil {
		return p, fmt.Errorf("%s: the arguments are not told: use a token of the scopes approve and inputs", e.base)
	}
	p = pending{w.Request, json.RawMessage(*w.Arguments)}
	if err := p.Request.About(p.Args); err != nil {
		return p, fmt.Errorf("%s: %w", e.base, err)
	}
	if p.Request.Nonce != nonce {
		return p, fmt.Errorf("%s: another request than the one that was asked for", e.base)
	}
	return p, nil
}

// pending returns the requests that wait.
func (e *elsewhere) pending(ctx context.Context) (list []state.Pending, err error) {
	var all struct{ Items []waitingThere }
	if err := e.ask(ctx, http.MethodGet, "/api/v1/approvals", nil, &all); err != nil {
		return nil, err
	}
	for _, w := range all.Items {
		list = append(list, state.Pending{Request: w.Request, Answers: w.Answers})
	}
	return list, nil
}

// answer hands an envelope over.
func (e *elsewhere) answer(ctx context.Context, envelope contracts.Envelope) error {
	return e.ask(ctx, http.MethodPost, "/api/v1/approvals", envelope, new(waitingThere))
}
