// Package openai runs the tool calls in answers of OpenAI's API, as the official Go client
// decodes them, and has a kernel judge each.
//
// Governed: the function calls and the custom tool calls of chat completions and of responses, the
// legacy function call too, plain and accumulated from a stream, whatever tool they name. Each has
// a receipt, and an answer for the model. Arguments are judged as the model wrote them.
//
// Denied, with a receipt each: the calls of a response that ask the host for a computer, a shell, a
// patch or the approval of an MCP call. Their outputs are of other kinds, and no tool of this
// package makes them. A call of the computer has no answer in words, so the conversation ends
// there. Do not offer these tools.
//
// Not governed: what the provider runs itself (web search, code interpreter, remote MCP servers),
// because it has run before there is an answer; and what the host does with an answer without this
// package: nothing in the client runs a tool, so a loop that does so itself goes past the kernel.
//
// The tools are declared once. The same value offers them and runs them. Here helmopenai is this
// package, k a *helm.Kernel, and who a helm.Caller:
//
//	refund := shared.FunctionDefinitionParam{Name: "refund", Parameters: schema}
//	tools, err := helmopenai.NewTools(helmopenai.Function(refund, helm.Text(pay)))
//	…
//	params := openai.ChatCompletionNewParams{Model: model, Messages: asked, Tools: tools.Chat()}
//	ctx = helm.With(ctx, helm.Intent{Caller: who, Session: "chat-1"})
//	for {
//		answer, err := client.Chat.Completions.New(ctx, params)
//		…
//		results := helmopenai.Run(ctx, k, tools, answer)
//		if len(results) == 0 {
//			break
//		}
//		params.Messages = append(params.Messages, answer.Choices[0].Message.ToParam())
//		params.Messages = append(params.Messages, results...)
//	}
//
// # Who asks
//
// Caller and session come from [helm.With] alone. Nothing of them is read from an answer, and a
// model's call id is no idempotency key.
//
// # What is judged
//
// The name is that of the call, with the namespace of a responses item before it and a dot between.
// A name that [Tools] does not have is judged without a driver, and so denied, unless the kernel
// has a driver of that tool itself ([helm.Options].Drivers): then the policy decides alone. A
// function call of a custom tool, or the reverse, is a call without a driver, and so is one that
// claims to be both.
//
// The arguments of a function are the bytes that the model wrote; no bytes are {}. The input of a
// custom tool is judged as {"input": "…"}, and the policy declares it so. A text of arguments or
// input that is no Unicode is judged as no arguments, since the client has replaced a part of it.
//
// An answer that was cut short may have half a call, which can be a whole call of something else.
// So its calls are judged with no arguments, which is a denial: those of a choice whose finish
// reason is not stop, tool_calls or function_call, those of a response whose status is not
// completed, and an item that says that it is not complete.
//
// The definition that a policy may pin is the SHA-256 of the canonical JSON of
// {"name", "description", "inputSchema"}, as for a tool of an MCP server. [Tools.List] returns the
// definitions for policy.New.
//
// # Denials and approvals
//
// What a model is told is [helm.Decision.ForModel], byte for byte, as the result of its call: a
// denial ends no turn and costs no other call its result. A call that a person must approve is a
// denial with the number of the request; [Tools.Ask] hands the request to the host. Once it is
// signed the host goes on with the conversation, with the envelope in the context:
//
//	ctx = helm.With(ctx, helm.Intent{Tool: "refund", Approvals: []helm.Envelope{signed}})
//
// When the model makes the same call again it runs, once. Name the tool, as here: an approval that
// is presented with another call makes a denial of it that asks nobody.
package openai
