package main

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/helmkernel/helm/examples/frameworks/internal/office"
)

// scripted is a server that answers requests for chat completions from a script.
type scripted struct{ script *office.Script }

func (m scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Messages []struct{ Role, Content string }
		Tools    []struct {
			Function struct{ Name, Description string }
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if len(request.Tools) != 2 || request.Tools[0].Function.Description == "" {
		http.Error(w, "the model gets no tools", http.StatusBadRequest)
		return
	}
	told := request.Messages[len(request.Messages)-1].Content
	call, ok, err := m.script.Next(told)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	message := map[string]any{"role": "assistant", "content": "Done."}
	if ok {
		message["tool_calls"] = []any{map[string]any{"id": fmt.Sprintf("call_%d", len(request.Messages)),
			"type": "function", "function": map[string]any{"name": call.Tool, "arguments": call.Args}}}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"object": "chat.completion",
		"choices": []any{map[string]any{"index": 0, "message": message}}})
}
