// Package adk guards the tools of agents of Google's ADK for Go, version 2.2.0.
//
// The calls of tools that [Tool] or [Toolset] wrapped are governed, plain and streaming ones, by
// whatever way ADK comes to them, with the arguments that reach the tool. It is Lossy: the client
// of the model decodes arguments to maps before ADK has them. Of a duplicate key the last is left,
// digits beyond a double are rounded, a lone surrogate is replaced, and arguments that are no JSON
// object end the run. The call that is judged is the one that runs, and not always the one that the
// model wrote.
//
// Tools that are not wrapped are not governed, because the hooks of ADK do not see all of them: no
// hook sees a streaming tool, and an agent's own hook may change arguments after a plugin judged
// them. [Plugin] refuses what is not wrapped, and says what it cannot see. Without the plugin ADK
// answers calls of tools that an agent does not have, and there is no receipt. Two
// more things are not governed: stop_streaming, which ADK answers itself, without an effect on
// wrapped tools and without a receipt; and what a hook of the host makes of a result after the
// call.
//
//	refund, err := adk.Tool(k, refund) // k is a *helm.Kernel, who below a helm.Caller
//	guard, err := adk.Plugin(k)
//	clerk, err := llmagent.New(llmagent.Config{
//		Name: "clerk", Model: m, Tools: []tool.Tool{refund},
//	})
//	r, err := runner.New(runner.Config{
//		AppName: "shop", Agent: clerk, SessionService: sessions,
//		PluginConfig: runner.PluginConfig{Plugins: []*plugin.Plugin{guard}},
//	})
//
//	ctx = helm.With(ctx, helm.Intent{Caller: who, Session: "chat-1"})
//	for event, err := range r.Run(ctx, user, "chat-1", message, agent.RunConfig{}) {
//
// Caller and session are those of helm.With, in the context with which the host runs the runner;
// ADK hands it down to every tool. Without it calls are anonymous, in the session main. ADK's own
// names of user and session are not used, because a client may choose them: a host that trusts them
// puts them there. The server of ADK runs with the context of the HTTP request, so a handler around
// it can do that. Idempotency never comes from the model's call ids.
//
// Inside a tool the context is ADK's, with the kernel's time limit, cancellation and chain on it.
// The kernel's options must have no driver for a wrapped tool: with two the call is denied.
//
// # Streams
//
// A streaming tool is read to its end, and then there is a receipt, and the result. In a live
// session it is therefore a tool like any other, for which the model waits; policies limit how
// long. A stream that breaks off is a failure, and nothing of it is shown.
//
// # Approvals
//
// A call that waits for an approver asks for a confirmation of ADK, with the payload
//
//	{"helm": REQUEST}
//
// REQUEST is the [contracts.ApprovalRequest], which an approver reads together with the arguments
// and signs by Approve or Refuse. The user's answer resumes the call if its payload has what was
// signed:
//
//	{"confirmed": true, "payload": {"approvals": [ENVELOPE]}}
//
// It is then judged again, and runs if the envelopes are for this call. "confirmed" alone approves
// nothing; if it is false, nothing runs, whatever the payload has. A call that was resumed and
// denied does not ask again: the model is told, and may make the call again.
//
// # Definitions
//
// A policy may pin the definition of a tool: the digest of its published form, as [Declared] writes
// it. Tools that ADK comes with, such as exit_loop, load_memory, transfer_to_agent and agents that
// run as tools, are tools of the policy like any other.
package adk
