package proxy

// Members of requests, as the APIs documented them in November 2026. Another one is not forwarded.

func words(list ...string) map[string]bool {
	set := map[string]bool{}
	for _, w := range list {
		set[w] = true
	}
	return set
}

var (
	chatRequest = words("messages", "model", "audio", "frequency_penalty", "function_call", "functions", "logit_bias",
		"logprobs", "max_completion_tokens", "max_tokens", "metadata", "modalities", "moderation", "n",
		"parallel_tool_calls",
		"prediction", "presence_penalty", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention",
		"reasoning_effort",
		"response_format", "safety_identifier", "seed", "service_tier", "stop", "store", "stream", "stream_options",
		"temperature", "tool_choice", "tools", "top_logprobs", "top_p", "user", "verbosity", "web_search_options")

	responsesRequest = words("access_programs", "background", "conversation", "include", "input", "instructions",
		"max_output_tokens",
		"max_tool_calls", "metadata", "model", "moderation", "parallel_tool_calls", "previous_response_id", "prompt",
		"prompt_cache_options",
		"prompt_cache_key", "prompt_cache_retention", "reasoning", "safety_identifier", "service_tier", "store",
		"stream",
		"stream_options", "temperature", "text", "tool_choice", "tools", "top_logprobs", "top_p", "truncation", "user",
		"context_management")

	messagesRequest = words("model", "messages", "max_tokens", "cache_control", "container", "context_management",
		"inference_geo", "mcp_servers", "metadata", "output_config", "output_format", "service_tier", "speed",
		"stop_sequences", "stream", "system", "temperature", "thinking", "tool_choice", "tools", "top_k", "top_p")
)

// Roles of messages, types of input items, and types of blocks.
var (
	chatRoles = words("developer", "system", "user", "assistant", "tool", "function")

	messagesRoles  = words("user", "assistant", "system")
	messagesBlocks = words("text", "image", "document", "search_result", "thinking", "redacted_thinking", "tool_use",
		"tool_result", "server_tool_use", "web_search_tool_result", "web_fetch_tool_result",
		"code_execution_tool_result",
		"bash_code_execution_tool_result", "text_editor_code_execution_tool_result", "tool_search_tool_result",
		"advisor_tool_result", "mcp_tool_use", "mcp_tool_result", "container_upload", "compaction", "tool_reference")

	responsesRoles = words("user", "assistant", "system", "developer")
	responsesItems = words("message", "reasoning", "compaction", "item_reference", "function_call",
		"function_call_output",
		"custom_tool_call", "custom_tool_call_output", "local_shell_call", "local_shell_call_output", "shell_call",
		"shell_call_output", "apply_patch_call", "apply_patch_call_output", "computer_call", "computer_call_output",
		"mcp_approval_request", "mcp_approval_response", "mcp_call", "mcp_list_tools", "web_search_call",
		"file_search_call", "code_interpreter_call", "image_generation_call", "tool_search_call", "tool_search_output",
		"additional_tools")
)

// Types of tools, without their dates: those that the app runs though they have a type of their
// own, with their names for the policy ("" is the entry's own), and those that the provider runs.
var (
	clientTools = map[string]string{
		"local_shell": "local_shell", "apply_patch": "apply_patch", "computer": "computer",
		"computer_use_preview": "computer", "bash": "", "text_editor": "", "memory": "",
	}
	providerTools = words("web_search", "web_search_preview", "web_fetch", "file_search", "code_interpreter",
		"code_execution", "image_generation", "mcp", "mcp_toolset", "tool_search", "tool_search_tool_regex",
		"tool_search_tool_bm25", "advisor")
	families = map[string]string{"web_search_preview": "web_search", "tool_search_tool_regex": "tool_search",
		"tool_search_tool_bm25": "tool_search"}
	toolsets = words("computer_toolset", "browser_toolset")
)
