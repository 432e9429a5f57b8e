// Package mcp guards the tools of MCP servers. A [Gateway] is a server before others, in whatever
// they are written:
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
// lists are read again when they change, and every minute. A server that ends in a call leaves a
// receipt that says that nobody knows what happened, and is started again after 1 s, and up to 60 s
// if it keeps ending.
//
// Middleware guards a server that is written in Go, with the official SDK.
//
//	server.AddReceivingMiddleware(helmmcp.Middleware(k, helmmcp.Options{Caller: who}))
//
// With it, governed are the calls of tools, by tools/call. Each is judged before the server looks
// for the tool, so one of a tool that the server does not have leaves a receipt, too. A permitted
// call goes on with the bytes that were judged. A client is shown the tools that the policy lets
// its caller call. Whatever else a client may ask a server for, resources, prompts and
// completions, is refused, unless [Options] lets it pass unguarded.
//
// Not governed is what a handler does itself: what it sends to the client while it runs, progress,
// logs, requests for input, is out before there is a receipt. Middleware that is added later runs
// earlier, and what it changes is judged; so add this one first.
package mcp
