package mcp

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A mirror is a parameter of a tool that a request repeats in a header, since 2026-07-28.
type mirror struct {
	header string
	path   []string
}

const mirrored = "x-mcp-header"

// mirrors returns what the schema of a tool's input has repeated. A schema with a fault in one of
// them has none: clients leave its tool out.
func mirrors(schema json.RawMessage) []mirror {
	if !bytes.Contains(schema, []byte(mirrored)) {
		return nil
	}
	list, ok := findMirrors(schema, nil, nil)
	if !ok {
		return nil
	}
	return list
}

func findMirrors(schema json.RawMessage, path []string, list []mirror) ([]mirror, bool) {
	var of, properties map[string]json.RawMessage
	if json.Unmarshal(schema, &of) != nil || of["properties"] == nil {
		return list, true
	}
	if json.Unmarshal(of["properties"], &properties) != nil {
		return list, true
	}
	for name, raw := range properties {
		var property map[string]json.RawMessage
		if json.Unmarshal(raw, &property) != nil {
			continue
		}
		at := append(slices.Clone(path), name)
		if property[mirrored] != nil {
			var header, kind string
			if json.Unmarshal(property[mirrored], &header) != nil || !isToken(header) ||
				json.Unmarshal(property["type"], &kind) != nil ||
				!slices.Contains([]string{"string", "integer", "boolean"}, kind) ||
				slices.ContainsFunc(list, func(m mirror) bool { return strings.EqualFold(m.header, header) }) {
				return nil, false
			}
			list = append(list, mirror{header, at})
		}
		var ok bool
		if list, ok = findMirrors(raw, at, list); !ok {
			return nil, false
		}
	}
	return list, true
}

func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') &&
			!strings.ContainsRune("!#$%&'*+-.^_`|~", c)
	})
}

// value returns the argument that is repeated, if it is there and not null.
func (m mirror) value(args map[string]json.RawMessage) (raw json.RawMessage, ok bool) {
	for i, name := range m.path {
		if raw, ok = args[name]; !ok {
			return nil, false
		}
		if i < len(m.path)-1 {
			if args = nil; json.Unmarshal(raw, &args) != nil {
				return nil, false
			}
		}
	}
	return raw, string(raw) != "null"
}

const wordBegins, wordEnds = "=?base64?", "?="

// says reports whether the value of a header says what an argument does.
func says(header string, arg json.RawMessage) bool {
	if word, ok := strings.CutPrefix(header, wordBegins); ok {
		if word, ok = strings.CutSuffix(word, wordEnds); ok {
			b, err := base64.StdEncoding.Strict().DecodeString(word)
			if err != nil {
				return false
			}
			header = string(b)
		}
	}
	var v any
	if json.Unmarshal(arg, &v) != nil {
		return false
	}
	switch v := v.(type) {
	case string:
		return header == v
	case bool:
		return header == strconv.FormatBool(v)
	case float64:
		n, err := strconv.ParseFloat(header, 64)
		return err == nil && n == v && n == math.Trunc(n) && math.Abs(n) < 1<<53
	}
	return false
}

// codeHeaders is the error of a request whose headers do not say what its body does.
const codeHeaders = sdk.CodeHeaderMismatch

// contradiction returns what is wrong with the headers of a call of a tool that repeat its
// arguments, or nil. What is judged, and sent on, is the body; but what stands before HELM may go
// by the headers. Nothing is said of a tool that the client is not shown, and of arguments that are
// no strict JSON: those the kernel denies, with a receipt.
func (c *client) contradiction(ctx context.Context, body []byte, h http.Header) *jsonrpc.Error {
	message, ok := membersOf(body)
	params, once := membersOf(message["params"])
	if !ok || !once {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest,
			Message: "helm: the call has no parameters, or a name of them twice"}
	}
	args := map[string]json.RawMessage{}
	if raw := params["arguments"]; raw != nil && string(raw) != "null" {
		var err error
		if _, args, err = canonical(raw); err != nil {
			return nil
		}
	}
	var name string
	if json.Unmarshal(params["name"], &name) != nil {
		return nil // which the SDK refuses
	}
	for _, m := range c.mirrors(ctx, name) {
		arg, given := m.value(args)
		said := h.Values("Mcp-Param-" + m.header)
		wrong := ""
		switch {
		case given && len(said) == 0:
			wrong = "an argument is not repeated in its header Mcp-Param"
		case !given && len(said) > 0:
			wrong = "a header Mcp-Param repeats an argument that is not there"
		case given && (len(said) > 1 || !says(said[0], arg)):
			wrong = "a header Mcp-Param does not say what its argument does"
		}
		if wrong != "" {
			return &jsonrpc.Error{Code: codeHeaders, Message: "helm: " + wrong}
		}
	}
	return nil
}

// mirrors returns what the requests of a tool repeat, if the client is shown it.
func (c *client) mirrors(ctx context.Context, name string) []mirror {
	u, own := c.find(name)
	if u == nil {
		return nil
	}
	l, err := u.tools(ctx)
	if err != nil {
		return nil
	}
	list := mirrors(l.tools[own].members["inputSchema"])
	if list == nil {
		return nil
	}
	all, err := c.visible(ctx)
	if err != nil || !slices.ContainsFunc(all, func(t shown) bool { return t.name == name }) {
		return nil
	}
	return list
}

// refuseHeaders answers a request whose headers contradict its body.
func refuseHeaders(w http.ResponseWriter, body []byte, e *jsonrpc.Error) {
	id := json.RawMessage("null")
	if message, ok := membersOf(body); ok && message["id"] != nil {
		id = message["id"]
	}
	b, err := encode(map[string]any{"jsonrpc": "2.0", "id": id, "error": map[string]any{
		"code": e.Code, "message": e.Message}})
	if err != nil {
		http.Error(w, "", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = w.Write(b)
}
