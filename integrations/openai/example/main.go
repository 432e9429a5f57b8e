// Command example is an agent over OpenAI's chat completions whose calls go through a kernel. The
// model is a script in this process.
//
//	GOWORK=off go run ./example
package main

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"log"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/shared"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/crypto"
	helmopenai "github.com/helmkernel/helm/integrations/openai"
	"github.com/helmkernel/helm/integrations/openai/internal/scripted"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/proofgraph"
)

//go:embed policy.yaml
var files embed.FS

func main() {
	k := must(helm.New(helm.Options{Policy: must(policy.LoadFS(files, "policy.yaml")), Key: must(crypto.GenerateKey()),
		Store: proofgraph.NewMemory()}))
	tools := must(helmopenai.NewTools(helmopenai.Function(shared.FunctionDefinitionParam{Name: "refund",
		Parameters: shared.FunctionParameters{"type": "object"}}, helm.Text(refund))))
	model := scripted.New("Done.", scripted.Call{Tool: "refund", Args: `{"order":"4711","amount":80}`},
		scripted.Call{Tool: "refund", Args: `{"order":"4711","amount":8000}`}, scripted.Call{Tool: "wipe", Args: `{}`})
	client := openai.NewClient(model.Options()...)
	ctx := helm.With(context.Background(), helm.Intent{Session: "kim/1",
		Caller: helm.Caller{ID: "kim", Roles: []string{"clerk"}}})
	params := openai.ChatCompletionNewParams{Model: "gpt-5", Tools: tools.Chat(),
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Refund order 4711.")}}
	answer := must(client.Chat.Completions.New(ctx, params))
	for len(answer.Choices[0].Message.ToolCalls) > 0 {
		results := helmopenai.Run(ctx, k, tools, answer)
		fmt.Println(results[0].OfTool.Content.OfString.Value)
		params.Messages = append(append(params.Messages, answer.Choices[0].Message.ToParam()), results...)
		answer = must(client.Chat.Completions.New(ctx, params))
	}
}

func refund(_ context.Context, args json.RawMessage) (string, error) {
	return "refunded " + string(args), nil
}

func must[T any](x T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return x
}
