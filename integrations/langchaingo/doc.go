// Package langchaingo guards the tools of agents that are written with langchaingo.
//
// Every call of a tool that [Tool] returned is governed, whatever calls it: an executor, a chain,
// or the program itself. With [Agent] this holds for all tools of an agent, and for calls of tools
// that the agent does not have. Not governed are chains that act by themselves: SQLDatabaseChain,
// LLMMathChain and APIChain run what the model wrote, and no tool is called. Nor is what a tool
// does itself: it may call its own callbacks.Handler with its result before there is a receipt.
//
// Here helmlc is this package, k a *helm.Kernel, and who a helm.Caller:
//
//	search, err := helmlc.Tool(k, duckduckgo)
//	if err != nil {
//		return err
//	}
//	agent, err := helmlc.Agent(k, agents.NewOneShotAgent(model, []tools.Tool{search}))
//	if err != nil {
//		return err
//	}
//	ctx = helm.With(ctx, helm.Intent{Caller: who, Session: "chat-1"})
//	answer, err := chains.Run(ctx, agents.NewExecutor(agent), question)
//
// # Arguments
//
// A tool of langchaingo takes a text. It becomes arguments like this:
//
//   - If its first character is {, after white space and byte order marks, it is judged as it is.
//     If it is no strict JSON, because it repeats a name for instance, the call is denied.
//   - Any other text is judged as {"input": text}: no text, numbers, arrays and strings in quotes
//     too. A text that is not UTF-8 is denied.
//
// What the tool gets follows from the judged arguments alone, and so from its receipt: if they are
// one member named input, a string that by the rule above is no object, it gets that string;
// otherwise it gets their canonical JSON, with the defaults of the policy's schema. So a tool that
// reads JSON must not have input as the one member that it takes.
//
// Lossy: OpenAIFunctionsAgent reads a call {"__arg1": text} itself, and passes on the text alone.
// Of a repeated __arg1 the last is left, other members next to it are dropped, and of a lone
// surrogate U+FFFD is left. All other arguments arrive as the model wrote them.
//
// # Results
//
// The model is shown the text of [helm.Decision.ForModel], never an error, which would end the
// executor and lose the results of the same step. The output of a tool is text. If the policy pins
// the output of the tool it is read as JSON, and the model is shown the canonical form.
//
// A call that waits for an approval is a denial, too. The host is told of it through [OnPending],
// and runs the agent again under a context with the answer, for that tool alone:
//
//	ctx = helm.With(ctx, helm.Intent{Tool: request.Tool, Approvals: []helm.Envelope{answer}})
//
// The same call of the model then runs, once.
//
// # Definitions
//
// The definition of a tool, which a policy may pin, is the digest of
//
//	{"description": DESCRIPTION, "name": NAME}
//
// as they were when Tool was called, which is what the agent shows to its model. If the tool has
// others by then, it has no definition.
package langchaingo
