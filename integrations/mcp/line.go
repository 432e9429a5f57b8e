package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Limits of what an upstream server may send. An output has at most 16 MiB by any policy.
const (
	maxMessage     = 17 << 20
	maxUnasked     = 1000 // messages in a second that answer nothing
	legacyProtocol = "2025-11-25"
)

// A line is a connection to an upstream server: a small client of JSON-RPC that keeps the bytes as
// they come, takes one answer to each call, and holds nothing that was not asked for.
type line interface {
	// call returns the result as it came. The error is a *jsonrpc.Error if the server answered with
	// one, that of the context if it ended, errEnded if the line did, when nobody knows whether the
	// server did it.
	call(ctx context.Context, method string, params []byte, p progress) (json.RawMessage, error)
	notify(ctx context.Context, method string, params []byte) error
	ended() <-chan struct{}
	close()
}

// A progress is told how far a call is, in numbers. It may be nil, and must return at once.
type progress func(done, total float64)

var (
	errEnded = errors.New("the server ended, and nobody knows what it did")
	errDown  = errors.New("the server does not run")
	errFlood = errors.New("the server sends more than it is asked for")
)

// calls are the calls that wait for an answer, by id.
type calls struct {
	mu      sync.Mutex
	last    int64
	waiting map[int64]*waiter
	changed func() // the list of tools

	second  int64
	unasked int
}

type waiter struct {
	answer   chan *jsonrpc.Response // of one
	progress progress
	failed   error // of the request over HTTP
}

func newCalls(changed func()) *calls { return &calls{waiting: map[int64]*waiter{}, changed: changed} }

// begin makes a call's id and the message.
func (c *calls) begin(method string, params []byte, p progress) (id int64, w *waiter, message []byte, err error) {
	c.mu.Lock()
	c.last++
	id = c.last
	w = &waiter{answer: make(chan *jsonrpc.Response, 1), progress: p}
	c.waiting[id] = w
	c.mu.Unlock()
	if p != nil {
		params, err = withMeta(params, "progressToken", id)
	}
	if err == nil {
		message, err = request(id, method, params)
	}
	if err != nil {
		c.forget(id)
	}
	return id, w, message, err
}

func (c *calls) forget(id int64) {
	c.mu.Lock()
	delete(c.waiting, id)
	c.mu.Unlock()
}

func request(id int64, method string, params []byte) ([]byte, error) {
	r := &jsonrpc.Request{Method: method, Params: params}
	if id != 0 {
		var err error
		if r.ID, err = jsonrpc.MakeID(float64(id)); err != nil {
			return nil, err
		}
	}
	return jsonrpc.EncodeMessage(r)
}

// withMeta adds a member to the _meta of parameters.
func withMeta(params []byte, key string, value any) ([]byte, error) {
	members, meta := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	if err := json.Unmarshal(params, &members); err != nil {
		return nil, err
	}
	if of := members["_meta"]; of != nil {
		if err := json.Unmarshal(of, &meta); err != nil {
			return nil, err
		}
	}
	var err error
	if meta[key], err = encode(value); err != nil {
		return nil, err
	}
	if members["_meta"], err = encode(meta); err != nil {
		return nil, err
	}
	return encode(members)
}

// take handles a message that came. It returns what to answer, or nil. An answer with another id,
// and a second one, is dropped, as are logs, and the words of progress.
func (c *calls) take(message []byte) (reply []byte, err error) {
	m, err := jsonrpc.DecodeMessage(message)
	if err != nil {
		return nil, c.count()
	}
	switch m := m.(type) {
	case *jsonrpc.Response:
		id, _ := m.ID.Raw().(int64)
		c.mu.Lock()
		w := c.waiting[id]
		delete(c.waiting, id)
		c.mu.Unlock()
		if w != nil {
			w.answer <- m
			return nil, nil
		}
	case *jsonrpc.Request:
		if m.IsCall() {
			answer := &jsonrpc.Response{ID: m.ID, Result: json.RawMessage("{}")}
			if m.Method != "ping" {
				answer.Result, answer.Error = nil, refusal(jsonrpc.CodeMethodNotFound, "not offered")
			}
			if reply, err = jsonrpc.EncodeMessage(answer); err != nil {
				return nil, err
			}
			return reply, c.count()
		}
		switch m.Method {
		case "notifications/tools/list_changed":
			c.changed()
		case "notifications/progress":
			c.progress(m.Params)
		}
	}
	return nil, c.count()
}

// count ends a line that floods.
func (c *calls) count() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now().Unix(); now != c.second {
		c.second, c.unasked = now, 0
	}
	if c.unasked++; c.unasked > maxUnasked {
		return errFlood
	}
	return nil
}

func (c *calls) progress(params json.RawMessage) {
	var p struct {
		ProgressToken   int64
		Progress, Total float64
	}
	if json.Unmarshal(params, &p) != nil {
		return
	}
	c.mu.Lock()
	w := c.waiting[p.ProgressToken]
	c.mu.Unlock()
	if w != nil && w.progress != nil {
		w.progress(p.Progress, p.Total)
	}
}

// result returns what an answer says.
func result(r *jsonrpc.Response) (json.RawMessage, error) {
	if r.Error != nil {
		return nil, r.Error
	}
	return r.Result, nil
}

// hello begins a session with the server. It advertises nothing, so nothing may be asked of it.
func hello(ctx context.Context, l line, greeted func(version string)) error {
	params, err := encode(map[string]any{
		"protocolVersion": legacyProtocol, "capabilities": struct{}{},
		"clientInfo": map[string]string{"name": "helm", "version": "1"},
	})
	if err != nil {
		return err
	}
	r, err := l.call(ctx, "initialize", params, nil)
	if err != nil {
		return err
	}
	var got struct {
		ProtocolVersion string `json:"protocolVersion"`
	}
	if err := json.Unmarshal(r, &got); err != nil || !supported(got.ProtocolVersion) {
		return errors.New("the server speaks another protocol")
	}
	greeted(got.ProtocolVersion)
	return l.notify(ctx, "notifications/initialized", []byte("{}"))
}

func supported(version string) bool {
	for _, v := range sdk.SupportedProtocolVersions() {
		if v == version && v <= legacyProtocol {
			return true
		}
	}
	return false
}
