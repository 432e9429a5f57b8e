// Command example is a ReAct agent of Eino whose tools are under guard. Its model plays a script,
// so that it needs no network.
//
//	go run ./example
package main

import (
	"context"
	"embed"
	"fmt"
	"log"

	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/components/tool/utils"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/flow/agent/react"
	"github.com/cloudwego/eino/schema"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/crypto"
	helmeino "github.com/helmkernel/helm/integrations/eino"
	"github.com/helmkernel/helm/integrations/eino/internal/script"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/proofgraph"
)

//go:embed policy.yaml
var files embed.FS

type refund struct {
	Number string `json:"number"`
	Amount int    `json:"amount"`
}

func main() {
	ctx := helm.With(context.Background(), helm.Intent{Session: "bob/chat-1",
		Caller: helm.Caller{ID: "bob", Roles: []string{"staff"}}})
	k := must(helm.New(helm.Options{Policy: must(policy.LoadFS(files, "policy.yaml")),
		Key: must(crypto.GenerateKey()), Store: proofgraph.NewMemory()}))
	defer k.Close()
	pay := must(utils.InferTool("refund", "Pays back.", func(_ context.Context, r refund) (string, error) {
		return fmt.Sprintf("%d paid back for %s", r.Amount, r.Number), nil
	}))
	model := script.New("That is all.", script.Calls("refund", `{"number":"4711","amount":40}`),
		script.Calls("refund", `{"number":"4711","amount":4000}`, "drop_all", `{}`))
	config := must(helmeino.Config(k, compose.ToolsNodeConfig{Tools: []tool.BaseTool{pay}}))
	agent := must(react.NewAgent(ctx, &react.AgentConfig{ToolCallingModel: model, ToolsConfig: config}))
	answer := must(agent.Generate(ctx, []*schema.Message{schema.UserMessage("Pay back invoice 4711.")}))
	for _, m := range append(model.Shown(), answer) {
		fmt.Println(m.Content)
	}
}

func must[T any](x T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return x
}
