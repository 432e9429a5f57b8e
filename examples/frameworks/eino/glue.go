package main

import (
	"context"
	"encoding/json"

	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"
	"github.com/eino-contrib/jsonschema"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/examples/frameworks/internal/office"
)

// A guarded tool is one of the policy, in one conversation.
type guarded struct {
	info *schema.ToolInfo
	call func(ctx context.Context, tool, args string) (string, error)
}

func (g guarded) Info(context.Context) (*schema.ToolInfo, error) { return g.info, nil }

func (g guarded) InvokableRun(ctx context.Context, args string, _ ...tool.Option) (string, error) {
	return g.call(ctx, g.info.Name, args)
}

// tools returns the tools of a conversation. Without UnknownToolsHandler a call of a tool that does
// not exist would end the agent with an error, and leave no receipt.
func tools(o *office.Office, who helm.Caller, session string) (compose.ToolsNodeConfig, error) {
	call := func(ctx context.Context, tool, args string) (string, error) {
		d, r := o.Guard(ctx, helm.Intent{Tool: tool, Args: json.RawMessage(args), Caller: who, Session: session})
		text, _ := d.ForModel(r)
		return text, nil // a denial is no error: that would end the agent
	}
	config := compose.ToolsNodeConfig{UnknownToolsHandler: call}
	for _, t := range o.Tools() {
		input, err := office.Schema[*jsonschema.Schema](t)
		if err != nil {
			return config, err
		}
		config.Tools = append(config.Tools, guarded{call: call, info: &schema.ToolInfo{Name: t.Name,
			Desc: office.Description(t), ParamsOneOf: schema.NewParamsOneOfByJSONSchema(input)}})
	}
	return config, nil
}
