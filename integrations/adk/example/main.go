// Command example puts an agent of ADK under guard. Its model follows a script, without network: it
// adds a note, and tries to open the vault.
package main

import (
	"context"
	"embed"
	"fmt"
	"log"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/plugin"
	"google.golang.org/adk/v2/runner"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/functiontool"
	"google.golang.org/genai"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/integrations/adk"
	"github.com/helmkernel/helm/integrations/adk/internal/script"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/proofgraph"
)

//go:embed policy.yaml
var files embed.FS

func main() {
	k := must(helm.New(helm.Options{Policy: must(policy.LoadFS(files, "policy.yaml")),
		Key: must(crypto.GenerateKey()), Store: proofgraph.NewMemory()}))
	defer k.Close()
	note := must(functiontool.New(functiontool.Config{Name: "note_add", Description: "Adds a note."}, add))
	vault := must(functiontool.New(functiontool.Config{Name: "vault_open", Description: "Opens the vault."}, add))
	m := script.New("Done.", script.Step{{Tool: "note_add", Args: `{"text":"tea"}`}}, script.Step{{Tool: "vault_open"}})
	clerk := must(llmagent.New(llmagent.Config{Name: "clerk", Model: m,
		Tools: []tool.Tool{must(adk.Tool(k, note)), must(adk.Tool(k, vault))}}))
	r := must(runner.New(runner.Config{AppName: "shop", Agent: clerk, SessionService: session.InMemoryService(),
		AutoCreateSession: true, PluginConfig: runner.PluginConfig{Plugins: []*plugin.Plugin{must(adk.Plugin(k))}}}))
	who := helm.Intent{Caller: helm.Caller{ID: "ann", Roles: []string{"clerk"}}, Session: "chat-1"}
	say := genai.NewContentFromText("Note: tea.", genai.RoleUser)
	for _, err := range r.Run(helm.With(context.Background(), who), "ann", "chat-1", say, agent.RunConfig{}) {
		must(m, err)
	}
	for _, told := range m.Told() {
		fmt.Println(told.Tool, told.Result)
	}
}

func add(_ agent.Context, args map[string]any) (string, error) {
	return fmt.Sprint("did ", args["text"]), nil
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
