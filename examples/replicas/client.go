package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/helmkernel/helm/contracts"
)

// A client calls tools, and knows the balancer alone.
type client struct{ url string }

// call makes a call. The key may be empty.
func (c client) call(ctx context.Context, x call, key string) (a answer, err error) {
	body, err := json.Marshal(x)
	if err != nil {
		return a, err
	}
	return c.post(ctx, "/call", body, key)
}

// govern hands a trust event to whichever replica it comes to.
func (c client) govern(ctx context.Context, event contracts.Envelope) (answer, error) {
	return c.post(ctx, "/trust", event, "")
}

func (c client) post(ctx context.Context, path string, body []byte, key string) (a answer, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+path, bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	if key != "" {
		req.Header.Set(idempotencyKey, key)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return a, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(res.Body, 1<<10))
		return a, fmt.Errorf("%s: %s: %s", path, res.Status, bytes.TrimSpace(text))
	}
	return a, json.NewDecoder(res.Body).Decode(&a)
}

// look and pay are the calls that an agent makes in a session.
func look(session, to string) call {
	return call{Tool: "bank.look", Args: fmt.Appendf(nil, `{"to":%q}`, to), Caller: "agent", Session: session}
}

func pay(session, to string, euros int) call {
	args := fmt.Appendf(nil, `{"to":%q,"euros":%d}`, to, euros)
	return call{Tool: "bank.pay", Args: args, Caller: "agent", Session: session}
}
