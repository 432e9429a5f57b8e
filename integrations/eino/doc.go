// Package eino guards the tools of Eino agents (github.com/cloudwego/eino).
//
// Each call of a tool that [Tool] wrapped is governed, by whatever way it comes: ToolsNode, ReAct
// agent, ChatModelAgent, a sub-agent, an alias, a direct call. No code of the framework runs
// between the judgement and the tool. Tools that are not wrapped are not governed: those that a
// call option (WithToolList) or a middleware of an agent (BeforeAgent, AdditionalTools) adds, and
// the framework's own (transfer_to_agent, exit). [Middleware] governs these too, if it is the last
// middleware of the ToolsNode. [UnknownTool] judges calls of tools that do not exist, which no
// middleware sees. [Config] does all three. Here helmeino is this package, and k a *helm.Kernel:
//
//	config, err := helmeino.Config(k, compose.ToolsNodeConfig{Tools: tools})
//	a, err := react.NewAgent(ctx, &react.AgentConfig{ToolCallingModel: m, ToolsConfig: config})
//	ctx = helm.With(ctx, helm.Intent{Caller: helm.Caller{ID: "bob"}, Session: "bob/chat-1"})
//	answer, err := a.Generate(ctx, messages)
//
// What a tool does besides its result is not governed: the events that an agent in a tool emits
// while it runs (EmitInternalEvents) are out before there is a receipt, and one that reads the
// whole history (WithFullChatHistoryAsInput) works on more than the arguments that were judged.
// Options of the host (tool.Option) are no arguments, and are not judged.
//
// Caller and session come from the context with which the host runs the agent, as above. Nothing of
// a call's identity comes from the model, and a call's ID is no idempotency key.
//
// # What is judged, and what is shown
//
// Arguments are judged as the text that the model wrote, and the tool gets the judged bytes. If the
// host has argument aliases, the framework decodes and encodes the arguments that have one before
// they are judged, and drops duplicate keys of them. Empty arguments are no JSON, and are denied.
//
// A denial is the result of the call, with the text of [helm.Decision.ForModel], and no Go error:
// it neither ends a turn nor loses the results of other calls. So is the error of a tool. The model
// is shown the released output: JSON in canonical form, other text as the tool returned it. A
// stream is read to its end before there is a receipt, and is shown in one piece. If it has an
// error, or the context ends first, the call is TOOL_ERROR or TOOL_CANCELED. The output of an
// enhanced tool is the JSON of its schema.ToolResult.
//
// # Approvals
//
// A call that waits for an approver interrupts the run. The information of the interrupt is a
// string
//
//	{"helm": {"nonce": "…", "tool": "…", "session": "…", …}}
//
// that holds the whole [contracts.ApprovalRequest] and no arguments. The graph, or the runner,
// needs a checkpoint store, and each call of a turn an ID of its own. The host resumes by the ID of
// the interrupt, with what the approver signed as the data:
//
//	{"approvals": [ENVELOPE, …]}
//
// in a string, in bytes, or decoded. The call is judged again then, so an approval fits the same
// arguments of the same caller only, and data of any other form approves nothing. A call is
// interrupted once: if it is still denied after that, the model is told so. A call that is
// interrupted and not resumed stays so, and is not judged again. Under [WithoutInterrupts], and in
// a direct call, the model is told of the denial at once.
//
// While a run is interrupted the framework keeps the results of the other calls in the checkpoint,
// by the IDs of the calls. Of two calls with one ID the one that waits is taken for the one that
// ran: it is not run, and the model is shown the other's result. And who may write to the
// checkpoint store may change these results.
//
// A tool may interrupt its run itself, as an agent in a tool does whose own calls wait. That is a
// TOOL_ERROR in its receipt, and when it is resumed the call is judged again. So a tool that asks
// in this way should not need an approval too.
//
// # Definitions
//
// A policy may pin the definition of a tool that Tool or Config wrapped. It is the digest of
//
//	{"description": DESC, "inputSchema": SCHEMA, "name": NAME}
//
// in canonical JSON, as an MCP server would list it: see [List]. The name is that at construction.
// A tool that has another one later has no Info, and keeps being judged by the first.
//
// Everything in this package is safe for concurrent use if the tools are. Eino v0.9.13 has a data
// race of its own if an agent is streamed and one answer has several calls of enhanced tools:
// ToolsNode.Stream keeps the errors of all their results in one variable. This package returns no
// result that has such an error.
package eino
