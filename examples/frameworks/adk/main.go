// Command adk shows HELM under Google's ADK: each tool of an agent makes its calls through a
// kernel, and so does the callback that ADK has for tools it does not know. The model plays a
// script.
//
//	go run ./adk
package main

import (
	"context"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/runner"
	"google.golang.org/adk/v2/session"
	"google.golang.org/genai"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/examples/frameworks/internal/office"
)

func main() { office.Main(office.Open, play) }

func play(ctx context.Context, o *office.Office) error {
	return converse(ctx, o, scripted{o.Script}, office.Bob().ID)
}

// converse has an agent with a model work for a user.
func converse(ctx context.Context, o *office.Office, m model.LLM, user string) error {
	root, err := llmagent.New(guard{o, caller}.config(llmagent.Config{Name: "refunds", Model: m}))
	if err != nil {
		return err
	}
	r, err := runner.New(runner.Config{AppName: "shop", Agent: root, SessionService: session.InMemoryService(),
		AutoCreateSession: true})
	if err != nil {
		return err
	}
	say := genai.NewContentFromText("Refund 80 of invoice 4711.", genai.RoleUser)
	for _, err := range r.Run(ctx, user, "chat-1", say, agent.RunConfig{}) {
		if err != nil {
			return err
		}
	}
	return nil
}

// caller returns the caller that a user of ADK is. A user that it does not know is anonymous.
func caller(user string) helm.Caller {
	if bob := office.Bob(); user == bob.ID {
		return bob
	}
	return helm.Caller{}
}
