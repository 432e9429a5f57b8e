package proxy

// Members of the messages API, version 2023-06-01, as it documented them in November 2026.

// messageBlocks are the blocks of an answer, by their type. One of another type is refused.
var messageBlocks = map[string]*shape{
	"text":              object([]string{"type", "text", "citations*"}, nil),
	"thinking":          object([]string{"type", "thinking", "signature"}, nil),
	"redacted_thinking": object([]string{"type", "data"}, nil),
	"tool_use":          object([]string{"type", "id", "name", "input*", "caller*"}, nil),
}

// hostedBlocks are blocks of what the provider runs itself. They have the kind of the tool that
// must have been permitted; the result's is that of its call.
var hostedBlocks = map[string]string{
	"server_tool_use": "", "mcp_tool_use": "mcp", "mcp_tool_result": "mcp",
	"web_search_tool_result": "web_search", "web_fetch_tool_result": "web_fetch",
	"code_execution_tool_result": "code_execution", "bash_code_execution_tool_result": "code_execution",
	"text_editor_code_execution_tool_result": "code_execution", "container_upload": "code_execution",
	"tool_search_tool_result": "tool_search", "advisor_tool_result": "advisor",
}

// serverTools are the tools of server_tool_use by their name.
var serverTools = map[string]string{
	"web_search": "web_search", "web_fetch": "web_fetch", "code_execution": "code_execution",
	"bash_code_execution": "code_execution", "text_editor_code_execution": "code_execution",
	"tool_search_tool_regex": "tool_search", "tool_search_tool_bm25": "tool_search", "advisor": "advisor",
}

var (
	messageHosted = object([]string{
		"type", "id", "name", "input*", "caller*", "server_name", "tool_use_id", "content*", "is_error", "file_id",
	}, nil)

	messageError = object([]string{"type", "error*", "request_id"}, nil)

	messageMembers = []string{"id", "type", "role", "model", "stop_reason", "stop_sequence", "usage*", "container*",
		"context_management*", "stop_details*"}
	messageOpening = object(append([]string{"content*"}, messageMembers...), nil)

	messageDeltas = map[string]*shape{
		"text_delta":       object([]string{"type", "text"}, nil),
		"input_json_delta": object([]string{"type", "partial_json"}, nil),
		"thinking_delta":   object([]string{"type", "thinking"}, nil),
		"signature_delta":  object([]string{"type", "signature"}, nil),
		"citations_delta":  object([]string{"type", "citation*"}, nil),
	}

	messageEvents = map[string]*shape{
		"message_start":       object([]string{"type"}, map[string]*shape{"message": messageOpening}),
		"content_block_start": object([]string{"type", "index", "content_block*"}, nil), // its block by messageBlocks
		"content_block_delta": object([]string{"type", "index", "delta*"}, nil),         // by messageDeltas
		"content_block_stop":  object([]string{"type", "index"}, nil),
		"message_delta": object([]string{"type", "usage*", "context_management*"}, map[string]*shape{
			"delta": object([]string{"stop_reason", "stop_sequence", "container*", "stop_details*"}, nil)}),
		"message_stop": object([]string{"type"}, nil),
		"ping":         object([]string{"type"}, nil),
	}
)

// messageCut are finishes of an answer that is not whole, messageEnds the others.
var (
	messageCut  = map[string]bool{"max_tokens": true, "refusal": true, "model_context_window_exceeded": true}
	messageEnds = map[string]bool{"end_turn": true, "tool_use": true, "stop_sequence": true, "pause_turn": true}
)
