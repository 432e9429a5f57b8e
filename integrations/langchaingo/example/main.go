// Command example is an agent of langchaingo whose calculator is under guard. Its model plays a
// script, and uses no network.
package main

import (
	"context"
	_ "embed"
	"fmt"
	"log"

	"github.com/tmc/langchaingo/agents"
	"github.com/tmc/langchaingo/chains"
	"github.com/tmc/langchaingo/tools"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	helmlc "github.com/helmkernel/helm/integrations/langchaingo"
	"github.com/helmkernel/helm/integrations/langchaingo/internal/script"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/proofgraph"
)

//go:embed policy.yaml
var rules []byte

func main() {
	document, err := policy.Parse("policy.yaml", rules)
	must(err)
	stack, err := guardian.Compile(document)
	must(err)
	key, err := crypto.GenerateKey()
	must(err)
	k, err := helm.New(helm.Options{Policy: stack, Key: key, Store: proofgraph.NewMemory()})
	must(err)
	defer k.Close()
	model := &script.Model{Text: true, Steps: [][]script.Call{{{Tool: "calculator", Input: "6*7"}},
		{{Tool: "calculator", Input: "'A' * 1000000000"}}, {{Tool: "shell", Input: "id"}}}}
	agent, err := helmlc.Agent(k, agents.NewOneShotAgent(model, []tools.Tool{tools.Calculator{}}))
	must(err)
	ctx := helm.With(context.Background(), helm.Intent{Caller: helm.Caller{ID: "bob"}, Session: "chat-1"})
	_, err = chains.Run(ctx, agents.NewExecutor(agent), "What is six times seven?")
	must(err)
	for _, told := range model.Told() {
		fmt.Println(told)
	}
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
