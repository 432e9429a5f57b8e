// Command eino shows HELM under Eino: each tool of a ReAct agent makes its calls through a kernel,
// and so does the handler of unknown tools. The model plays a script.
//
//	go run ./eino
package main

import (
	"context"

	"github.com/cloudwego/eino/flow/agent/react"
	"github.com/cloudwego/eino/schema"

	"github.com/helmkernel/helm/examples/frameworks/internal/office"
)

func main() { office.Main(office.Open, play) }

func play(ctx context.Context, o *office.Office) error {
	config, err := tools(o, office.Bob(), "bob/chat-1")
	if err != nil {
		return err
	}
	agent, err := react.NewAgent(ctx, &react.AgentConfig{ToolCallingModel: scripted{script: o.Script},
		ToolsConfig: config, MaxStep: 40})
	if err != nil {
		return err
	}
	_, err = agent.Generate(ctx, []*schema.Message{schema.UserMessage("Refund 80 of invoice 4711.")})
	return err
}
