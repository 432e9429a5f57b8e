package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/faces/state"
)

// A forward is the driver of one call: the server, as it was when the call came.
type forward struct {
	tell       state.Telemetry
	asked      time.Time   // when the call was given to the kernel
	decided    atomic.Bool // how long that took was told
	upstream   *upstream
	own        string // name of the tool
	method     string // "": tools/call; else the arguments are the parameters
	digest     contracts.Digest
	structured bool
	how        progress
	cancel     context.CancelFunc // of the call's context
}

var _ executor.Defined = (*forward)(nil)

// Definition returns the digest of the server's entry.
func (f *forward) Definition() contracts.Digest { return f.digest }

var (
	errMoved  = errors.New("the server's tool changed, and was not called")
	errStrict = errors.New("the server's result is no object of strict JSON")
	errInput  = errors.New("the server asks for input, which it is not given")
	errForged = errors.New("the server's result has what only a verdict has")
)

// Run calls the tool with the bytes that were judged, if it is still what was judged. If the server
// ends, or its connection, the call's context ends first: nobody knows what the server did.
func (f *forward) Run(ctx context.Context, c contracts.Call) (executor.Result, error) {
	f.judged()
	l, err := f.upstream.tools(ctx)
	if err != nil {
		return executor.Result{}, err
	}
	method, params := f.method, []byte(c.Args)
	if method == "" {
		if t, ok := l.tools[f.own]; !ok || t.digest != f.digest {
			return executor.Result{}, errMoved
		}
		name, err := encode(f.own)
		if err != nil {
			return executor.Result{}, err
		}
		method = "tools/call"
		if params, err = encode(map[string]json.RawMessage{"name": name, "arguments": c.Args}); err != nil {
			return executor.Result{}, err
		}
		for key, value := range f.tell.Carry(ctx) {
			if params, err = withMeta(params, key, value); err != nil {
				return executor.Result{}, err
			}
		}
	}
	raw, err := l.line.call(ctx, method, params, f.how)
	var refused *jsonrpc.Error
	switch {
	case errors.Is(err, errEnded):
		f.cancel()
		<-ctx.Done()
		return executor.Result{}, ctx.Err()
	case errors.As(err, &refused):
		return executor.Result{}, fmt.Errorf("the server answered with error %d", refused.Code)
	case err != nil:
		return executor.Result{}, err
	}
	return f.result(raw)
}

// result reads what the server answered.
func (f *forward) result(raw []byte) (executor.Result, error) {
	output, members, err := canonical(raw)
	if err != nil {
		return executor.Result{}, errStrict
	}
	if kind := members["resultType"]; kind != nil && string(kind) != `"complete"` {
		return executor.Result{}, errInput
	}
	var meta map[string]json.RawMessage
	if members["_meta"] != nil && json.Unmarshal(members["_meta"], &meta) != nil {
		return executor.Result{}, errStrict
	}
	for key := range meta {
		if strings.HasPrefix(key, "helmkernel/") {
			return executor.Result{}, errForged
		}
	}
	var failed bool
	if members["isError"] != nil && json.Unmarshal(members["isError"], &failed) != nil {
		return executor.Result{}, errStrict
	}
	if f.structured && !failed {
		return executor.Result{Output: members["structuredContent"]}, nil
	}
	return executor.Result{Output: output, Failed: failed}, nil
}
