// Command genkit shows HELM under Genkit: Genkit asks the model and returns its tool calls, which
// are made through a kernel. The model plays a script.
//
//	go run ./genkit
package main

import (
	"context"

	"github.com/firebase/genkit/go/ai"
	"github.com/firebase/genkit/go/genkit"

	"github.com/helmkernel/helm/examples/frameworks/internal/office"
)

func main() { office.Main(office.Open, play) }

func play(ctx context.Context, o *office.Office) error {
	g := genkit.Init(ctx)
	m := genkit.DefineModel(g, "script", &ai.ModelOptions{Supports: &ai.ModelSupports{Tools: true, Multiturn: true}},
		scripted(o.Script))
	return converse(ctx, g, m, o, office.Bob(), "bob/chat-1", "Refund 80 of invoice 4711.")
}
