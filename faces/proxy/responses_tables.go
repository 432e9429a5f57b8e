package proxy

// Members of the responses API, as it documented them in November 2026.

// responseCalls are the items that the app is to run, each with the member that has its arguments.
var responseCalls = map[string]struct {
	of        *shape
	arguments string
	text      bool // the arguments are a string
}{
	"function_call": {object([]string{"type", "id", "call_id", "name", "namespace", "arguments", "status", "caller*"},
		nil),
		"arguments", true},
	"custom_tool_call": {object([]string{"type", "id", "call_id", "name", "namespace", "input", "status", "caller*"},
		nil),
		"input", true},
	"local_shell_call": {object([]string{"type", "id", "call_id", "action*", "status"}, nil), "action", false},
	"shell_call": {object([]string{"type", "id", "call_id", "action*", "status", "environment*", "max_output_length",
		"caller*"}, nil), "action", false},
	"apply_patch_call": {object([]string{"type", "id", "call_id", "operation*", "status", "caller*"}, nil), "operation",
		false},
	"computer_call": {object([]string{"type", "id", "call_id", "action*", "actions*", "status",
		"pending_safety_checks*"}, nil),
		"action", false},
	"mcp_approval_request": {object([]string{"type", "id", "name", "server_label", "arguments"}, nil), "arguments",
		true},
}

// responsePassed are the items that are no calls.
var responsePassed = map[string]*shape{
	"message": object([]string{"type", "id", "role", "status", "phase"},
		map[string]*shape{"content": list(responsePart)}),
	"reasoning": object([]string{"type", "id", "summary*", "encrypted_content", "status"},
		map[string]*shape{"content": list(responsePart)}),
	"compaction": object([]string{"type", "id", "encrypted_content", "created_by"}, nil),
}

var responsePart = object([]string{"type", "text", "refusal", "annotations*", "logprobs*"}, nil)

// responseParts are the types of parts.
var responseParts = map[string]bool{"output_text": true, "refusal": true, "reasoning_text": true, "summary_text": true}

// responseHosted are the items of what the provider runs itself, with the tool that must have been
// permitted.
var responseHosted = map[string]string{
	"web_search_call": "web_search", "file_search_call": "file_search", "code_interpreter_call": "code_interpreter",
	"image_generation_call": "image_generation", "mcp_call": "mcp", "mcp_list_tools": "mcp",
	"tool_search_call": "tool_search", "tool_search_output": "tool_search", "shell_call_output": "shell",
}

var responseHostedItem = object([]string{
	"type", "id", "status", "action*", "queries*", "results*", "code", "container_id", "outputs*", "result",
	"arguments*",
	"name",
	"server_label", "output*", "error*", "approval_request_id", "tools*", "execution", "call_id", "created_by",
	"background", "output_format", "quality", "size", "revised_prompt", "max_output_length",
}, nil)

var responseMembers = object([]string{
	"id", "object", "created_at", "completed_at", "status", "background", "error*", "incomplete_details*",
	"instructions*",
	"max_output_tokens", "max_tool_calls", "model", "parallel_tool_calls", "previous_response_id", "prompt*",
	"prompt_cache_key", "prompt_cache_retention", "reasoning*", "safety_identifier", "service_tier", "store",
	"temperature",
	"text*", "tool_choice*", "tools*", "top_logprobs", "top_p", "truncation", "usage*", "user", "metadata*",
	"conversation*",
	"billing*", "frequency_penalty", "presence_penalty", "moderation*", "output*",
}, nil)

// responseEvents are events that are of an item, with the types of the items that have them, and of
// the response, which have none.
var responseEvents = map[string]responseEvent{
	"response.content_part.added":                  {[]string{"message", "reasoning"}, "part"},
	"response.content_part.done":                   {[]string{"message", "reasoning"}, "part"},
	"response.output_text.delta":                   {[]string{"message"}, ""},
	"response.output_text.done":                    {[]string{"message"}, ""},
	"response.output_text.annotation.added":        {[]string{"message"}, ""},
	"response.refusal.delta":                       {[]string{"message"}, ""},
	"response.refusal.done":                        {[]string{"message"}, ""},
	"response.reasoning_summary_part.added":        {[]string{"reasoning"}, "part"},
	"response.reasoning_summary_part.done":         {[]string{"reasoning"}, "part"},
	"response.reasoning_summary_text.delta":        {[]string{"reasoning"}, ""},
	"response.reasoning_summary_text.done":         {[]string{"reasoning"}, ""},
	"response.reasoning_text.delta":                {[]string{"reasoning"}, ""},
	"response.reasoning_text.done":                 {[]string{"reasoning"}, ""},
	"response.function_call_arguments.delta":       {[]string{"function_call"}, ""},
	"response.function_call_arguments.done":        {[]string{"function_call"}, ""},
	"response.custom_tool_call_input.delta":        {[]string{"custom_tool_call"}, ""},
	"response.custom_tool_call_input.done":         {[]string{"custom_tool_call"}, ""},
	"response.web_search_call.in_progress":         {[]string{"web_search_call"}, ""},
	"response.web_search_call.searching":           {[]string{"web_search_call"}, ""},
	"response.web_search_call.completed":           {[]string{"web_search_call"}, ""},
	"response.file_search_call.in_progress":        {[]string{"file_search_call"}, ""},
	"response.file_search_call.searching":          {[]string{"file_search_call"}, ""},
	"response.file_search_call.completed":          {[]string{"file_search_call"}, ""},
	"response.code_interpreter_call.in_progress":   {[]string{"code_interpreter_call"}, ""},
	"response.code_interpreter_call.interpreting":  {[]string{"code_interpreter_call"}, ""},
	"response.code_interpreter_call.completed":     {[]string{"code_interpreter_call"}, ""},
	"response.code_interpreter_call_code.delta":    {[]string{"code_interpreter_call"}, ""},
	"response.code_interpreter_call_code.done":     {[]string{"code_interpreter_call"}, ""},
	"response.image_generation_call.in_progress":   {[]string{"image_generation_call"}, ""},
	"response.image_generation_call.generating":    {[]string{"image_generation_call"}, ""},
	"response.image_generation_call.partial_image": {[]string{"image_generation_call"}, ""},
	"response.image_generation_call.completed":     {[]string{"image_generation_call"}, ""},
	"response.mcp_call_arguments.delta":            {[]string{"mcp_call"}, ""},
	"response.mcp_call_arguments.done":             {[]string{"mcp_call"}, ""},
	"response.mcp_call.in_progress":                {[]string{"mcp_call"}, ""},
	"response.mcp_call.completed":                  {[]string{"mcp_call"}, ""},
	"response.mcp_call.failed":                     {[]string{"mcp_call"}, ""},
	"response.mcp_list_tools.in_progress":          {[]string{"mcp_list_tools"}, ""},
	"response.mcp_list_tools.completed":            {[]string{"mcp_list_tools"}, ""},
	"response.mcp_list_tools.failed":               {[]string{"mcp_list_tools"}, ""},
}

var responseError = object([]string{"type", "sequence_number", "code", "message", "param", "error*"}, nil)

// A responseEvent is an event of an item: the types of items that have it, and the member that is a
// part of a message.
type responseEvent struct {
	items []string
	part  string
}

var responseEventMembers = object([]string{
	"type", "sequence_number", "item_id", "output_index", "content_index", "summary_index", "annotation_index", "delta",
	"text", "refusal", "arguments", "input", "name", "code", "logprobs*", "annotation*", "obfuscation", "part*",
	"partial_image_b64", "partial_image_index", "background", "output_format", "quality", "size",
}, nil)
