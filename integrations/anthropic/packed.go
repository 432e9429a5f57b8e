package anthropic

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/helmkernel/helm"
)

// The runner decodes the input of a call before a tool gets it. So the bytes as the model wrote
// them are packed into an input that decodes to the same, under a key that no model knows.

// key is that of a packed call.
var key = "helm-" + rand.Text()

// A packed call has the name and the input as the model wrote them.
type packed struct {
	name  string
	input []byte
	at    int // its block
}

func (p packed) json() []byte {
	b, err := json.Marshal(map[string][]byte{key: p.input, "name": []byte(p.name), "at": []byte(strconv.Itoa(p.at))})
	if err != nil {
		panic(err) // of bytes
	}
	return b
}

// unpack reads what json wrote.
func unpack(input json.RawMessage) (p packed, ok bool) {
	var m map[string]any
	if json.Unmarshal(input, &m) != nil || len(m) != 3 || m[key] == nil {
		return p, false
	}
	read := func(name string) []byte {
		text, has := m[name].(string)
		b, err := base64.StdEncoding.DecodeString(text)
		ok = ok && has && err == nil
		return b
	}
	ok = true
	p.input, p.name = read(key), string(read("name"))
	var err error
	p.at, err = strconv.Atoi(string(read("at")))
	return p, ok && err == nil
}

// An absent tool stands for those that the runner does not have. It is not offered to the model.
type absent struct{ kernel *helm.Kernel }

func (absent) Name() string                              { return key }
func (absent) Description() string                       { return "" }
func (absent) InputSchema() sdk.BetaToolInputSchemaParam { return sdk.BetaToolInputSchemaParam{} }

func (a absent) Execute(
	ctx context.Context, input json.RawMessage,
) ([]sdk.BetaToolResultBlockParamContentUnion, error) {
	c, _ := unpack(input) // without a name it is denied
	return once(ctx, c, func() ([]sdk.BetaToolResultBlockParamContentUnion, error) {
		return call(ctx, a.kernel, helm.Intent{Tool: c.name, Args: c.input}, nil)
	})
}

// pack returns the blocks of a message with its calls packed. partial has the inputs that came in
// pieces, by block.
func (s *tools) pack(content []sdk.BetaContentBlockUnion, partial map[int64][]byte) []sdk.BetaContentBlockUnion {
	content = slices.Clone(content)
	for i := range content {
		b := &content[i]
		if b.Type != "tool_use" {
			continue
		}
		use := b.AsToolUse()
		p := packed{name: use.Name, input: []byte(b.Input), at: i}
		if pieces, ok := partial[int64(i)]; ok {
			p.input = pieces
		}
		known := s.names[p.name] && use.ToolsetName == ""
		if use.ToolsetName != "" {
			p.name = use.ToolsetName + "." + p.name
		}
		shown := map[string]any{"type": "tool_use", "id": use.ID, "name": use.Name, "input": json.RawMessage(p.json())}
		if !known {
			shown["name"] = key
		}
		raw, err := json.Marshal(shown)
		if err != nil {
			panic(err) // of strings
		}
		*b = sdk.BetaContentBlockUnion{}
		if err := b.UnmarshalJSON(raw); err != nil {
			panic(err) // of a block
		}
	}
	return content
}
