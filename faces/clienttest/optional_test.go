package clienttest

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ofTools are the members of requests that the proxy may change.
var ofTools = []string{"tools", "tool_choice", "functions", "function_call", "parallel_tool_calls", "web_search_options"}

// A stub answers each path with something valid, and keeps what it was asked.
type stub struct {
	*provider
	mu   sync.Mutex
	last map[string]string // bodies by paths; "GET" of one without
}

func newStub(t *testing.T) *stub {
	t.Helper()
	s := &stub{provider: &provider{responses: map[string]kept{"previous_response_id": {}}, items: map[string]object{}},
		last: map[string]string{}}
	answers := map[string]func(object) object{
		"/v1/chat/completions": func(r object) object {
			a, err := s.chat(object{"model": r["model"]})
			assert.NoError(t, err)
			return a.whole
		},
		"/v1/responses": func(r object) object {
			a, err := s.response(object{"model": r["model"]})
			assert.NoError(t, err)
			return a.whole
		},
		"/v1/embeddings": func(object) object {
			return object{"object": "list", "model": "m", "usage": object{"prompt_tokens": 1, "total_tokens": 1},
				"data": []object{{"object": "embedding", "index": 0, "embedding": []float64{0.5}}}}
		},
		"/v1/models":             func(object) object { return object{"object": "list", "data": []object{model}} },
		"/v1/models/gpt-6-astra": func(object) object { return model },
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		if answer := answers[r.URL.Path]; answer != nil {
			s.mu.Lock()
			s.last[r.URL.Path] = string(body)
			s.mu.Unlock()
			var request object
			_ = json.Unmarshal(body, &request)
			say(w, http.StatusOK, answer(request))
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

var model = object{"id": "gpt-6-astra", "object": "model", "created": 1_790_000_000, "owned_by": "nobody"}

// taken returns what the stub was asked since, without what is of tools.
func (s *stub) taken(t *testing.T) map[string]object {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]object{}
	for path, body := range s.last {
		all[path] = nil
		if body == "" {
			continue
		}
		d := json.NewDecoder(strings.NewReader(body))
		d.UseNumber() // digits, too, are as they were sent
		var request object
		require.NoError(t, d.Decode(&request))
		for _, name := range ofTools {
			delete(request, name)
		}
		all[path] = request
	}
	clear(s.last)
	return all
}

// own runs tests of openai-go itself against a server.
func own(t *testing.T, pkg, names, url string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-count=1", "-v", "-run", "^("+names+")$", pkg)
	cmd.Env = append(os.Environ(), "GOWORK=off", "TEST_API_BASE_URL="+url+"/v1")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestOptionalParams: openai-go's own tests of optional parameters pass through the proxy, and each
// parameter that is not a tool's arrives as it was sent.
func TestOptionalParams(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the tests of openai-go")
	}
	t.Parallel()
	const names = "TestChatCompletionNewWithOptionalParams|TestEmbeddingNewWithOptionalParams|TestModelGet|TestModelList"
	s := newStub(t)
	w := newWorld(t, s.provider, rules)
	out, err := own(t, "github.com/openai/openai-go/v3", names, s.url)
	require.NoError(t, err, "%s", out)
	direct := s.taken(t)
	require.Len(t, direct, 4)
	require.Contains(t, direct["/v1/chat/completions"], "seed")
	out, err = own(t, "github.com/openai/openai-go/v3", names, w.url)
	require.NoError(t, err, "%s", out)
	assert.Equal(t, 4, strings.Count(out, "--- PASS: "), "%s", out)
	assert.Equal(t, direct, s.taken(t))

	// That of responses asks for an answer in the background, and for what the provider keeps.
	out, err = own(t, "github.com/openai/openai-go/v3/responses", "TestResponseNewWithOptionalParams", w.url)
	require.Error(t, err)
	assert.Contains(t, out, "400 Bad Request")
	assert.Empty(t, s.taken(t), "it never leaves")
}

// TestOptionalResponse is openai-go's test of optional parameters without background, conversation
// and prompt.
func TestOptionalResponse(t *testing.T) {
	t.Parallel()
	s := newStub(t)
	w := newWorld(t, s.provider, rules)
	asks := func(url string) object {
		c := openai.NewClient(option.WithUnsafeAllowHTTP(), option.WithBaseURL(url+"/v1"), option.WithAPIKey("sk-none"))
		_, err := c.Responses.New(context.Background(), optional)
		require.NoError(t, err)
		return s.taken(t)["/v1/responses"]
	}
	direct := asks(s.url)
	require.Contains(t, direct, "truncation")
	assert.Equal(t, direct, asks(w.url))
}

var optional = responses.ResponseNewParams{
	AccessPrograms: responses.ResponseNewParamsAccessPrograms{Cyber: "standard"},
	ContextManagement: []responses.ResponseNewParamsContextManagement{
		{Type: "compaction", CompactThreshold: openai.Int(1000)}},
	Include:         []responses.ResponseIncludable{responses.ResponseIncludableFileSearchCallResults},
	Input:           responses.ResponseNewParamsInputUnion{OfString: openai.String("string")},
	Instructions:    openai.String("instructions"),
	MaxOutputTokens: openai.Int(16),
	MaxToolCalls:    openai.Int(0),
	Metadata:        shared.Metadata{"foo": "string"},
	Model:           shared.ResponsesModel("gpt-6-astra"),
	Moderation: responses.ResponseNewParamsModeration{Model: "model",
		Policy: responses.ResponseNewParamsModerationPolicy{
			Input:  responses.ResponseNewParamsModerationPolicyInput{Mode: "score"},
			Output: responses.ResponseNewParamsModerationPolicyOutput{Mode: "score"}}},
	ParallelToolCalls:  openai.Bool(true),
	PreviousResponseID: openai.String("previous_response_id"),
	PromptCacheKey:     openai.String("prompt-cache-key-1234"),
	PromptCacheOptions: responses.ResponseNewParamsPromptCacheOptions{
		ComparisonResponseID: openai.String("resp_123"), Mode: "implicit", Prewarm: openai.Bool(true), Ttl: "30m"},
	PromptCacheRetention: responses.ResponseNewParamsPromptCacheRetentionInMemory,
	Reasoning: shared.ReasoningParam{Context: shared.ReasoningContextAuto, Effort: shared.ReasoningEffortNone,
		GenerateSummary: shared.ReasoningGenerateSummaryAuto, Mode: shared.ReasoningModeStandard,
		Summary: shared.ReasoningSummaryAuto},
	SafetyIdentifier: openai.String("safety-identifier-1234"),
	ServiceTier:      responses.ResponseNewParamsServiceTierAuto,
	Store:            openai.Bool(true),
	StreamOptions:    responses.ResponseNewParamsStreamOptions{IncludeObfuscation: openai.Bool(true)},
	Temperature:      openai.Float(1),
	Text: responses.ResponseTextConfigParam{
		Format:    responses.ResponseFormatTextConfigUnionParam{OfText: &shared.ResponseFormatTextParam{}},
		Verbosity: responses.ResponseTextConfigVerbosityLow},
	ToolChoice: responses.ResponseNewParamsToolChoiceUnion{OfToolChoiceMode: openai.Opt(responses.ToolChoiceOptionsNone)},
	Tools: []responses.ToolUnionParam{{OfFunction: &responses.FunctionToolParam{Name: "name",
		Parameters: object{"foo": "bar"}, Strict: openai.Bool(true), AllowedCallers: []string{"direct"},
		Async: openai.Bool(true), DeferLoading: openai.Bool(true), Description: openai.String("description"),
		OutputSchema: object{"foo": "bar"}}}},
	TopLogprobs: openai.Int(0),
	TopP:        openai.Float(1),
	Truncation:  responses.ResponseNewParamsTruncationAuto,
	User:        openai.String("user-1234"),
}
