package genkit

import (
	"testing"

	"github.com/firebase/genkit/go/ai"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/integrations/genkit/internal/script"
)

// References of calls are the model's. A call never gets the content of another one that had its
// reference, in an earlier step or in the same one.
func TestContentOfAnother(t *testing.T) {
	t.Parallel()
	ran := script.Call{Ref: "1", Tool: "note", Args: `{"text":"a"}`}
	denied := script.Call{Ref: "1", Tool: "note", Args: `{"text":1}`}
	waits := script.Call{Ref: "2", Tool: "pay", Args: `{"amount":7}`}
	for name, steps := range map[string][][]script.Call{
		"earlier step":           {{ran}, {denied, waits}},
		"same step":              {{ran, denied, waits}},
		"same step, other order": {{denied, ran, waits}},
	} {
		w := newWorld(t)
		pay := w.guarded("pay")
		note, err := DefineMultipartTool(w.k, w.g, "note", "Does it.",
			func(*ai.ToolContext, any) (*ai.MultipartToolResponse, error) {
				return &ai.MultipartToolResponse{Output: "did it", Content: []*ai.Part{ai.NewTextPart("a part")}}, nil
			})
		require.NoError(t, err)
		m := &script.Model{Last: "done", Steps: steps}
		made, _, err := w.play(m, w.use(), []ai.Tool{pay, note}, ai.WithPrompt("Go on."))
		require.NoError(t, err)
		require.Len(t, made.Interrupts(), 1)
		made, _, err = w.play(m, w.use(), []ai.Tool{pay, note}, ai.WithMessages(made.History()...),
			ai.WithToolRestarts(pay.Restart(made.Interrupts()[0], nil)))
		require.NoError(t, err)
		seen := 0
		for _, message := range made.Request.Messages {
			for _, p := range message.Content {
				if p.IsToolResponse() && p.ToolResponse.Output != "did it" {
					seen++
					assert.Empty(t, p.ToolResponse.Content, "%s: %v", name, p.ToolResponse.Output)
				}
			}
		}
		assert.Equal(t, 2, seen, name)
	}
}
