// Command example is an agent of Genkit whose tools are under guard. Its model plays a script, and
// uses no network.
package main

import (
	"context"
	"embed"
	"fmt"
	"log"

	"github.com/firebase/genkit/go/ai"
	"github.com/firebase/genkit/go/genkit"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/crypto"
	helmgenkit "github.com/helmkernel/helm/integrations/genkit"
	"github.com/helmkernel/helm/integrations/genkit/internal/script"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/proofgraph"
)

//go:embed policy.yaml
var files embed.FS

func main() {
	stack, err := policy.LoadFS(files, "policy.yaml")
	must(err)
	key, err := crypto.GenerateKey()
	must(err)
	k, err := helm.New(helm.Options{Policy: stack, Key: key, Store: proofgraph.NewMemory()})
	must(err)
	defer k.Close()
	ctx := helm.With(context.Background(), helm.Intent{Caller: helm.Caller{ID: "bob"}, Session: "chat-1"})
	g := genkit.Init(ctx)
	refund, err := helmgenkit.DefineTool(k, g, "refund", "Pays money back.", pay)
	must(err)
	model := &script.Model{Last: "Done.", Steps: [][]script.Call{{{Tool: "refund", Args: `{"amount":80}`}},
		{{Tool: "refund", Args: `{"amount":9000}`}}, {{Tool: "shell", Args: `{"command":"id"}`}}}}
	_, err = genkit.Generate(ctx, g, ai.WithModel(model.Define(g)), ai.WithPrompt("Refund 80 of order 4711."),
		ai.WithTools(refund), ai.WithUse(helmgenkit.Use(k)))
	must(err)
	for _, told := range model.Told() {
		fmt.Println(told.Output)
	}
}

func pay(_ *ai.ToolContext, in map[string]float64) (string, error) {
	return fmt.Sprintf("refunded %v", in["amount"]), nil
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
