// Command example is an agent of Anthropic's tool runner whose calls go through a kernel. The model
// is a script in this process.
//
//	GOWORK=off go run ./example
package main

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"log"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/toolrunner"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/crypto"
	helmanthropic "github.com/helmkernel/helm/integrations/anthropic"
	"github.com/helmkernel/helm/integrations/anthropic/internal/scripted"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/proofgraph"
)

//go:embed policy.yaml
var files embed.FS

func main() {
	k := must(helm.New(helm.Options{Policy: must(policy.LoadFS(files, "policy.yaml")), Key: must(crypto.GenerateKey()),
		Store: proofgraph.NewMemory()}))
	tool := must(toolrunner.NewBetaToolFromBytes("refund", "Refunds a part of an order.", []byte(`{"type":"object",
		"properties":{"order":{"type":"string"},"amount":{"type":"integer"}},"required":["order","amount"]}`), refund))
	model := scripted.New("Done.", scripted.Call{Tool: "refund", Args: `{"order":"4711","amount":80}`},
		scripted.Call{Tool: "refund", Args: `{"order":"4711","amount":8000}`}, scripted.Call{Tool: "wipe", Args: `{}`})
	client := anthropic.NewClient(model.Options()...)
	say := anthropic.NewBetaUserMessage(anthropic.NewBetaTextBlock("Refund order 4711."))
	runner := must(helmanthropic.NewToolRunner(k, &client.Beta.Messages, []anthropic.BetaTool{tool},
		anthropic.BetaToolRunnerParams{BetaMessageNewParams: anthropic.BetaMessageNewParams{Model: "claude-sonnet-4-5",
			MaxTokens: 1024, Messages: []anthropic.BetaMessageParam{say}}}))
	ctx := helm.With(context.Background(), helm.Intent{Session: "kim/1",
		Caller: helm.Caller{ID: "kim", Roles: []string{"clerk"}}})
	must(runner.RunToCompletion(ctx))
	for _, told := range model.Told() {
		fmt.Println(told.Text)
	}
}

func refund(_ context.Context, args json.RawMessage) (anthropic.BetaToolResultBlockParamContentUnion, error) {
	text := &anthropic.BetaTextBlockParam{Text: "refunded " + string(args)}
	return anthropic.BetaToolResultBlockParamContentUnion{OfText: text}, nil
}

func must[T any](x T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return x
}
