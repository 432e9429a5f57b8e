// Package mcp guards the tools of an MCP server that is written in Go, with the official SDK.
//
//	server.AddReceivingMiddleware(helmmcp.Middleware(k, helmmcp.Options{Caller: who}))
//
// Governed are the calls of tools, by tools/call. Each is judged before the server looks for the
// tool, so one of a tool that the server does not have leaves a receipt, too. A permitted call goes
// on with the bytes that were judged. A client is shown the tools that the policy lets its caller
// call. Whatever else a client may ask a server for, resources, prompts and completions, is
// refused, unless [Options] lets it pass unguarded.
//
// Not governed is what a handler does itself: what it sends to the client while it runs, progress,
// logs, requests for input, is out before there is a receipt. Middleware that is added later runs
// earlier, and what it changes is judged; so add this one first.
package mcp
