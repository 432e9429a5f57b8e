package adapt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/contain"
)

// Published returns a tool as an MCP server would list it, in canonical form, and the digest of
// that, which a policy pins as the tool's definition:
//
//	{"description": "…", "inputSchema": {…}, "name": "…"}
//
// An empty description, and a schema that is nil or encodes as null, are left out. So one pin fits
// the tool in every framework that publishes the same words. The schema is any value that package
// json encodes, a [json.RawMessage] too. An error means that it is no JSON object, or one that
// canonical JSON cannot hold.
func Published(name, description string, schema any) (entry json.RawMessage, definition contracts.Digest, err error) {
	var of struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		InputSchema json.RawMessage `json:"inputSchema,omitempty"`
	}
	refused := func() (json.RawMessage, contracts.Digest, error) {
		return nil, contracts.Digest{}, fmt.Errorf("adapt: the definition of %s is no strict JSON of at most %d bytes",
			contracts.Hashed(name), maxDefinition)
	}
	of.Name, of.Description = name, description
	if of.InputSchema, err = encoded(schema); err != nil || !utf8.ValidString(name) || !utf8.ValidString(description) {
		return refused()
	}
	b, err := json.Marshal(of)
	if err != nil {
		return refused()
	}
	var tree crypto.Tree
	limits := crypto.Limits{Bytes: maxDefinition, Depth: contracts.MaxRecordDepth, Object: true}
	if tree.Parse(b, limits) != nil {
		return refused()
	}
	if s := tree.Root().Get("inputSchema"); s.Kind() != crypto.Missing && s.Kind() != crypto.Object {
		return refused()
	}
	entry = tree.Root().Append(nil)
	return entry, crypto.Sum(entry), nil
}

const maxDefinition = 4 << 20 // as contracts.DefinitionOf reads it

// encoded returns the JSON of a schema, or nil for none.
func encoded(schema any) (b json.RawMessage, err error) {
	switch x := schema.(type) {
	case nil:
		return nil, nil
	case json.RawMessage:
		b = x
	default:
		defer contain.Error(&err, "adapt: a method of the schema's type")
		if b, err = json.Marshal(schema); err != nil {
			return nil, err
		}
	}
	if string(b) == "null" {
		return nil, nil
	}
	return b, nil
}

// Decode returns the arguments that a driver was called with, as a framework's map. Numbers are
// json.Number: the digits that were judged, which a float64 need not keep for the tool.
func Decode(args []byte) (map[string]any, error) {
	var m map[string]any
	d := json.NewDecoder(bytes.NewReader(args))
	d.UseNumber()
	if err := d.Decode(&m); err == nil && m != nil {
		if _, err = d.Token(); err == io.EOF {
			return m, nil
		}
	}
	return nil, errors.New("adapt: arguments: not one JSON object")
}
