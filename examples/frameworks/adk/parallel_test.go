package main

import (
	"context"
	"fmt"
	"io"
	"iter"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/adk/v2/model"
	"google.golang.org/genai"

	"github.com/helmkernel/helm/examples/frameworks/internal/office"
)

// many is a model that makes many calls in one answer, every other one of an unknown tool.
type many struct {
	n    int
	told []map[string]any
}

func (m *many) Name() string { return "many" }

func (m *many) GenerateContent(_ context.Context, r *model.LLMRequest, _ bool) iter.Seq2[*model.LLMResponse, error] {
	answer := genai.NewContentFromText("Done.", genai.RoleModel)
	last := r.Contents[len(r.Contents)-1]
	if last.Parts[0].FunctionResponse == nil {
		answer.Parts = nil
		for i := range m.n {
			answer.Parts = append(answer.Parts, genai.NewPartFromFunctionCall([]string{"invoice_find", "invoice_delete"}[i%2],
				map[string]any{"number": fmt.Sprint(i)}))
		}
	}
	for _, part := range last.Parts {
		if part.FunctionResponse != nil {
			m.told = append(m.told, part.FunctionResponse.Response)
		}
	}
	return func(yield func(*model.LLMResponse, error) bool) { yield(&model.LLMResponse{Content: answer}, nil) }
}

// TestSideBySide makes calls of one answer, which ADK runs side by side: a denial does not touch
// the results of the others.
func TestSideBySide(t *testing.T) {
	o, err := office.Open(io.Discard)
	require.NoError(t, err)
	defer o.Close()
	m := &many{n: 32}
	require.NoError(t, converse(t.Context(), o, m, office.Bob().ID))
	require.Len(t, m.told, m.n)
	for i, told := range m.told {
		if i%2 == 0 {
			assert.Equal(t, map[string]any{"output": fmt.Sprintf(`{"number":"%d","total":120}`, i)}, told)
			continue
		}
		assert.Equal(t, map[string]any{"error": "invoice_delete was denied: DENY_TOOL_NOT_FOUND. " +
			"There is no such tool. Use one of the tools you were given. (no bundle declares the tool)"}, told)
	}
	assert.Len(t, o.Shop.Ran(), m.n/2)
	require.NoError(t, o.Audit(t.Context()))
	assert.EqualValues(t, m.n, o.Report.Receipts)
}
