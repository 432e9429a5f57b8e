package openai

import (
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
)

// itemCall returns the call of an item, and false if it is none that waits for the host.
func itemCall(item *responses.ResponseOutputItemUnion) (made call, ok bool) {
	made = call{id: item.CallID, name: item.Name, cut: item.Status != "" && item.Status != "completed",
		caller: item.Caller}
	made.lossy = lossy(item.JSON.Name.Raw()) || lossy(item.JSON.Namespace.Raw())
	if item.Namespace != "" {
		made.name = item.Namespace + "." + item.Name
	}
	switch item.Type {
	case "function_call":
		made.kind, made.text = functionCall, item.Arguments.OfString
		made.lossy = made.lossy || lossy(item.JSON.Arguments.Raw())
	case "custom_tool_call":
		made.kind, made.text = customCall, item.Input
		made.lossy = made.lossy || lossy(item.JSON.Input.Raw())
	case "local_shell_call":
		made.kind, made.name = localShell, "local_shell"
	case "shell_call":
		if item.Environment.Type == "container_reference" {
			return call{}, false // the provider has run it
		}
		made.kind, made.name = shell, "shell"
	case "apply_patch_call":
		made.kind, made.name = applyPatch, "apply_patch"
	case "computer_call":
		made.kind, made.name = computer, "computer"
	case "mcp_approval_request":
		made.kind, made.id, made.name = mcpApproval, item.ID, item.ServerLabel+"__"+item.Name
	default:
		return call{}, false
	}
	return made, true
}

// answer returns the item that answers a call, and false if no text can. It goes where the call
// came from: to the model, or to a program that the provider runs.
func (c *call) answer(text string) (item responses.ResponseInputItemUnionParam, ok bool) {
	program := c.caller.Type == "program"
	switch c.kind {
	case functionCall:
		item = responses.ResponseInputItemParamOfFunctionCallOutput(text)
		item.OfFunctionCallOutput.CallID = openai.String(c.id)
		if program {
			item.OfFunctionCallOutput.Caller.OfProgram =
				&responses.ResponseInputItemFunctionCallOutputCallerProgramParam{CallerID: c.caller.CallerID}
		}
	case customCall:
		item = responses.ResponseInputItemParamOfCustomToolCallOutput(c.id, text)
		if program {
			item.OfCustomToolCallOutput.Caller.OfProgram =
				&responses.ResponseCustomToolCallOutputCallerProgramParam{CallerID: c.caller.CallerID}
		}
	case localShell:
		item = responses.ResponseInputItemParamOfLocalShellCallOutput(c.id, text)
	case shell:
		said := responses.ResponseFunctionShellCallOutputContentParam{Stderr: text}
		said.Outcome.OfExit = &responses.ResponseFunctionShellCallOutputContentOutcomeExitParam{ExitCode: 1}
		item = responses.ResponseInputItemParamOfShellCallOutput(c.id,
			[]responses.ResponseFunctionShellCallOutputContentParam{said})
		if program {
			item.OfShellCallOutput.Caller.OfProgram =
				&responses.ResponseInputItemShellCallOutputCallerProgramParam{CallerID: c.caller.CallerID}
		}
	case applyPatch:
		item = responses.ResponseInputItemParamOfApplyPatchCallOutput(c.id, "failed")
		item.OfApplyPatchCallOutput.Output = openai.String(text)
		if program {
			item.OfApplyPatchCallOutput.Caller.OfProgram =
				&responses.ResponseInputItemApplyPatchCallOutputCallerProgramParam{CallerID: c.caller.CallerID}
		}
	case mcpApproval:
		item = responses.ResponseInputItemParamOfMcpApprovalResponse(c.id, false)
		item.OfMcpApprovalResponse.Reason = openai.String(text)
	default:
		return item, false
	}
	return item, true
}
