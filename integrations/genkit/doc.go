// Package genkit guards the tools of agents that are written with Genkit.
//
// Every call of a tool that [DefineTool] or [DefineMultipartTool] made is governed, whatever calls
// it: Generate, a prompt, a flow, the developer UI, or the program by RunRaw. With [Use] this holds
// for all tools of one Generate, those of plugins and other middleware too, and for calls of tools
// that were not offered to the model. Not governed is what the host says in a tool's place: the
// answer to an interrupted call (WithToolResponses), the outputs in a history that it hands over,
// and calls that it asked to get back (WithReturnToolRequests). Nor are the messages that a tool or
// middleware adds to a request by itself: read_file of Genkit's Filesystem is judged, but the model
// is shown the file by such a message, and the receipt is of a summary. Genkit's own traces have
// arguments and outputs of tools that run, before there is a receipt.
//
// Lossy: Genkit decodes the arguments that a model wrote before any tool or middleware sees them.
// Of a repeated name the last is left, numbers are doubles, and lone surrogates are U+FFFD. What is
// left is judged, and runs. No arguments, or null, are judged as {}.
//
// Here helmgenkit is this package, k a *helm.Kernel, and who a helm.Caller:
//
//	g := genkit.Init(ctx)
//	find, err := helmgenkit.DefineTool(k, g, "order_find", "Finds an order.", findOrder)
//	if err != nil {
//		return err
//	}
//	ctx = helm.With(ctx, helm.Intent{Caller: who, Session: "chat-1"})
//	answer, err := genkit.Generate(ctx, g, ai.WithPrompt(question),
//		ai.WithTools(find), ai.WithUse(helmgenkit.Use(k)))
//
// Use may stand anywhere among the middleware: a call is judged with the arguments that all of it
// has made of them. A tool that Genkit's own DefineTool made, and that is called without Use, is
// not guarded; so define tools here, and add Use. Give Use to Execute of a prompt, not to
// DefinePrompt: Genkit passes over middleware that a prompt was defined with.
//
// # Results
//
// The output of a tool that returns a string is text. The output of any other is JSON, and the
// model is shown its canonical form. The output of a multipart tool is the whole response, output
// and content. If the policy pins the output of a tool, it is the output alone, as JSON, and the
// content is dropped. JSON that has no canonical form, because of a number beyond a double, is
// shown as text; under Use numbers are doubles by then.
//
// A denial, and the tool's own error, are an output part too: the text of [helm.Decision.ForModel].
// Genkit would end Generate at an error, and lose the results of the other calls. If the tool
// itself interrupts, the receipt says TOOL_ERROR, the interrupt goes to the host, and the call is
// judged again when it is restarted.
//
// # Approvals
//
// A call that waits for an approval interrupts Generate; of a direct call the interrupt is the
// error. [Pending] reads the request from the part. The host restarts the call with the answers:
//
//	part := answer.Interrupts()[0]
//	request, err := helmgenkit.Pending(part)
//	// an approver reads the request and the arguments, and signs
//	resumed := map[string]any{"approvals": []helm.Envelope{signed}}
//	again := pay.Restart(part, &ai.RestartOptions{ResumedMetadata: resumed})
//	answer, err = genkit.Generate(ctx, g, ai.WithMessages(answer.History()...),
//		ai.WithToolRestarts(again), ai.WithTools(pay), ai.WithUse(helmgenkit.Use(k)))
//
// It is judged again, by the arguments that it has then; nothing but a signed approval of these
// approves it. A call that was restarted and is denied is told to the model. Of calls that ran next
// to an interrupted one Genkit keeps the outputs in the history, and Use the content of multipart
// tools; not that of two calls of one step that the model wrote with the same reference.
//
// # Definitions
//
// The definition of a tool, which a policy may pin, is the digest of
//
//	{"description": DESCRIPTION, "inputSchema": SCHEMA, "name": NAME}
//
// with the schema as Genkit shows it to the model, and without what is empty.
package genkit
