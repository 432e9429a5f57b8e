package proxy

// Members of chat completions, as the API documented them in November 2026: of a chunk of a stream,
// and of a plain answer.

var (
	chatFunction = object([]string{"name", "arguments"}, nil)
	chatCustom   = object([]string{"name", "input"}, nil)
	chatLogprobs = leaf

	chatCall = object([]string{"id", "type"}, map[string]*shape{"function": chatFunction, "custom": chatCustom})

	chatDelta = object([]string{"role", "content", "refusal", "annotations*", "audio*"}, map[string]*shape{
		"function_call": chatFunction,
		"tool_calls": list(object([]string{"index", "id", "type"}, map[string]*shape{
			"function": chatFunction, "custom": chatCustom})),
	})
	chatChunk = object([]string{
		"id", "object", "created", "model", "system_fingerprint", "service_tier", "usage*", "obfuscation",
	}, map[string]*shape{
		"choices": list(object([]string{"index", "finish_reason"}, map[string]*shape{
			"delta": chatDelta, "logprobs": chatLogprobs})),
	})

	chatMessage = object([]string{"role", "content", "refusal", "annotations*", "audio*"}, map[string]*shape{
		"function_call": chatFunction, "tool_calls": list(chatCall)})
	chatAnswer = object([]string{
		"id", "object", "created", "model", "system_fingerprint", "service_tier", "usage*",
	}, map[string]*shape{
		"choices": list(object([]string{"index", "finish_reason"}, map[string]*shape{
			"message": chatMessage, "logprobs": chatLogprobs})),
	})
)

// cutShort are finishes of an answer that is not whole: of calls that were held, empty arguments
// may be arguments that never came.
var cutShort = map[string]bool{"length": true, "content_filter": true}

// finishes are the others.
var finishes = map[string]bool{"stop": true, "tool_calls": true, "function_call": true}
