// Command openai shows HELM under the official OpenAI client: the loop that makes a model's tool
// calls makes them through a kernel. The model is a server in this process, and plays a script.
//
//	go run ./openai
package main

import (
	"context"
	"net/http/httptest"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/helmkernel/helm/examples/frameworks/internal/office"
)

func main() { office.Main(office.Open, play) }

func play(ctx context.Context, o *office.Office) error {
	server := httptest.NewServer(scripted{o.Script})
	defer server.Close()
	client := openai.NewClient(option.WithBaseURL(server.URL), option.WithAPIKey("none"), option.WithMaxRetries(0))
	return converse(ctx, client, o, office.Bob(), "bob/chat-1", "Refund 80 of invoice 4711.")
}
