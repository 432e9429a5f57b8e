// Package mcp guards the tools of MCP servers. A [Gateway] is a server in front of other servers,
// in whatever language they are written. Here helmmcp is this package, and k a *helm.Kernel:
//
//	g, err := helmmcp.NewGateway(helmmcp.GatewayOptions{
//		Kernel:  k,
//		Servers: []helmmcp.Server{{Name: "files", Command: []string{"files-server"}}},
//	})
//	err = g.Run(ctx, &sdk.StdioTransport{})
//
// The upstream server gets exactly the bytes that were judged, and what it says reaches the client
// only in a result, after its receipt: logs, the words of progress and requests for input are
// dropped or refused. Tools are listed from the bytes whose digest the policy may pin, and the
// lists are read again when they change, and every minute. If a server ends during a call, the
// receipt says that the outcome is unknown. The server is started again after 1 s, and after up to
// 60 s if it keeps ending.
//
// Middleware guards a server that is written in Go, with the official SDK.
//
//	server.AddReceivingMiddleware(helmmcp.Middleware(k, helmmcp.Options{Caller: who}))
//
// It governs calls of tools (tools/call). Each is judged before the server looks for the tool, so a
// call of a tool that the server does not have has a receipt, too. A permitted call goes on with
// the bytes that were judged. A client is shown the tools that the policy lets its caller call.
// Whatever else a client may ask a server for, resources, prompts and completions, is refused,
// unless [Options] lets it pass unguarded.
//
// What a handler does itself is not governed: what it sends to the client while it runs (progress,
// logs, requests for input) is out before there is a receipt. Middleware that is added later runs
// earlier, and what it changes is judged; so add this one first.
package mcp
