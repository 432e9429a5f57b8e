package main

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/examples/frameworks/internal/office"
	"github.com/helmkernel/helm/executor"
)

// guard is the middleware of a server that serves one connection of one caller. It judges each call
// before the server looks for the tool, and a permitted call goes on with the bytes that were
// judged. Add it first: middleware that is added later runs earlier, and what it changes is judged.
// The host makes the session's name: the SDK's id of a session is empty over stdio.
func guard(o *office.Office, who helm.Caller, session string) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
			call, ok := request.(*mcp.CallToolRequest)
			if !ok {
				return next(ctx, method, request)
			}
			d, r := o.Guard(ctx, helm.Intent{Tool: call.Params.Name, Args: call.Params.Arguments, Caller: who,
				Session: session, Driver: own{next, method, call}})
			if r.Output != nil {
				var released mcp.CallToolResult
				return &released, json.Unmarshal(r.Output, &released)
			}
			text, _ := d.ForModel(r)
			return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
		}
	}
}

// own runs a call on the server itself.
type own struct {
	next   mcp.MethodHandler
	method string
	call   *mcp.CallToolRequest
}

func (s own) Run(ctx context.Context, c contracts.Call) (executor.Result, error) {
	call, params := *s.call, *s.call.Params
	call.Params, params.Arguments = &params, c.Args
	result, err := s.next(ctx, s.method, &call)
	if err != nil {
		return executor.Result{}, err
	}
	made, ok := result.(*mcp.CallToolResult)
	if !ok {
		return executor.Result{}, errors.New("the tool has no result")
	}
	output, err := json.Marshal(made)
	return executor.Result{Output: output, Failed: made.IsError || made.NeedsInput()}, err
}
