// Package anthropic puts the tools of Anthropic's Go SDK under guard: those of its tool runners,
// which are beta.
//
// Governed: with [NewToolRunner] and [NewToolRunnerStreaming] each call that the runner would run
// or refuse, whatever tool it names, with the input as the model wrote it. [Tool] guards one tool
// for a runner that the host makes itself: there the arguments are Lossy, because the SDK decodes
// them before a tool gets them (of a duplicate key the first is left, digits beyond a double are
// lost, half a surrogate pair becomes another character, and a streamed input that is no JSON
// becomes {}). What is judged is what runs, and not always what the model wrote. And calls of tools
// that such a runner does not have are refused by the SDK, without a receipt.
//
// Not governed: server tools (web search, code execution, remote MCP servers), which run before
// there is an answer; calls of a message whose stop reason is not tool_use, which no runner runs;
// and the host's own loop over messages, because nothing but a runner calls a tool.
//
// Here helmanthropic is this package, k a *helm.Kernel, and who a helm.Caller:
//
//	runner, err := helmanthropic.NewToolRunner(k, &client.Beta.Messages, tools, params)
//	…
//	ctx = helm.With(ctx, helm.Intent{Caller: who, Session: "chat-1"})
//	answer, err := runner.RunToCompletion(ctx)
//
// # What is judged
//
// The name is that of the call. A member of a toolset is judged as TOOLSET.NAME, which is a tool
// that the runner does not have: the SDK would run the tool of that name alone. A call of a tool
// that the runner does not have is judged without a driver, and so denied, unless the kernel has a
// driver of that tool itself ([helm.Options].Drivers): then the policy decides alone. Caller and
// session come from [helm.With] over the context of a step. Nothing of them is read from a message,
// and the id of a call is no idempotency key.
//
// The history that the runner sends repeats each input as the model wrote it, too. The SDK would
// send what it decoded, and end the conversation with an error over a number such as 1e400.
//
// A call runs once. If the request that follows it fails, the SDK's runner would make it again when
// the host repeats the step; here the step has the same results.
//
// The definition that a policy may pin is the SHA-256 of the canonical JSON of
// {"name", "description", "inputSchema"}, as for a tool of an MCP server. It is that of the tool
// when it was put under guard, which is what the runner offers. [List] returns the definitions for
// policy.New.
//
// # Results
//
// A result that is one block of text is released as a text, and as canonical JSON if the policy
// pins an output. Other results are released as a JSON list of their blocks. A call without a
// result, denied or failed, is a tool_result with is_error: "Error: ", which the SDK puts there,
// and [helm.Decision.ForModel]. It ends no turn and costs no other call its result.
//
// A call that a person must approve is such a denial, with the number of the request; [Ask] hands
// the request to the host. Once it is signed the host goes on with the conversation, with the
// envelope in the context:
//
//	ctx = helm.With(ctx, helm.Intent{Tool: "refund", Approvals: []helm.Envelope{signed}})
//
// When the model makes the same call again it runs, once. Name the tool, as here: an approval that
// is presented with another call makes a denial of it that asks nobody.
package anthropic
