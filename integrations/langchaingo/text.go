package langchaingo

import (
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"
)

// arguments returns the arguments that a text of the model is judged as: the text itself if it is
// to be an object, else {"input": text}. What is not UTF-8 stays what it is, which is no JSON.
func arguments(s string) json.RawMessage {
	if isObject(s) || !utf8.ValidString(s) {
		return json.RawMessage(s)
	}
	b, err := json.Marshal(map[string]string{"input": s})
	if err != nil {
		return nil // no arguments, which are denied
	}
	return b
}

// isObject reports whether a reader of JSON, a lenient one too, may take a text for an object.
func isObject(s string) bool {
	s = strings.TrimLeftFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || r == '\uFEFF'
	})
	return strings.HasPrefix(s, "{")
}

// text returns the text that the tool gets for judged arguments, which are canonical. It reverses
// arguments.
func text(args json.RawMessage) string {
	var members map[string]json.RawMessage
	if json.Unmarshal(args, &members) == nil && len(members) == 1 {
		var s *string // nil of null
		if json.Unmarshal(members["input"], &s) == nil && s != nil && !isObject(*s) {
			return *s
		}
	}
	return string(args)
}
