package policy

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
)

// isPlain reports whether a scalar has no quotes and is no block scalar.
func isPlain(n *yaml.Node) bool {
	return n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0
}

func (c *converter) scalar(n *yaml.Node) *guardian.LoadError {
	switch s := n.Value; {
	case !isPlain(n):
		c.out = crypto.AppendString(c.out, s)
	case s == "":
		return refuse(place(n), "a value that is not there", `write null, "" or a value`)
	case s == "true", s == "false", s == "null":
		c.out = append(c.out, s...)
	case isJSONNumber(s):
		if err := c.number.Parse([]byte(s), crypto.Limits{Bytes: len(s), Depth: 1}); err != nil {
			return refuse(place(n), "a number that changes when it is read: a double cannot hold it",
				"quote it to mean the string, or write one of fewer digits")
		}
		c.out = append(c.out, s...)
	case isAmbiguous(s), n.ShortTag() != "!!str": // ambiguous too if the library itself reads it otherwise
		return refuse(place(n), "the plain scalar "+shown(s)+" means different things to different readers of YAML",
			"quote it to mean the string, or write true, false, null or a JSON number")
	default:
		c.out = crypto.AppendString(c.out, s)
	}
	return nil
}

// shown returns a scalar as a message shows it: the text of a policy is no secret.
func shown(s string) string {
	const most = 40
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…" // not within a character
	}
	for _, r := range s {
		if !strconv.IsPrint(r) {
			return strconv.Quote(s)
		}
	}
	return s
}

// isJSONNumber is the grammar of RFC 8259, section 6.
func isJSONNumber(s string) bool {
	s = strings.TrimPrefix(s, "-")
	whole, s := digits(s)
	if whole == "" || len(whole) > 1 && whole[0] == '0' {
		return false
	}
	if strings.HasPrefix(s, ".") {
		fraction, rest := digits(s[1:])
		if fraction == "" {
			return false
		}
		s = rest
	}
	return s == "" || isExponent(s)
}

func isExponent(s string) bool {
	if s == "" || s[0] != 'e' && s[0] != 'E' {
		return false
	}
	s = s[1:]
	if s != "" && (s[0] == '+' || s[0] == '-') {
		s = s[1:]
	}
	power, rest := digits(s)
	return power != "" && rest == ""
}

func digits(s string) (number, rest string) { return span(s, "0123456789") }

// span cuts s before the first character that is not in set.
func span(s, set string) (head, rest string) {
	rest = strings.TrimLeft(s, set)
	return s[:len(s)-len(rest)], rest
}

// isAmbiguous reports whether some version of YAML, or a common reader of one, takes a plain scalar
// for something else than a string. It knows YAML 1.1 (https://yaml.org/type/) and the core schema
// of 1.2, and errs on the side of quotes. It is not called for true, false, null and JSON numbers.
func isAmbiguous(s string) bool {
	switch strings.ToLower(s) {
	case "~", "<<", "=", "y", "n", "yes", "no", "on", "off", "true", "false", "null":
		return true
	}
	if s[0] == '+' || s[0] == '-' {
		s = s[1:]
	}
	switch strings.ToLower(s) {
	case "":
		return false
	case ".inf", ".nan":
		return true
	}
	if len(s) > 1 && s[0] == '0' && strings.ContainsRune("xXoObB", rune(s[1])) { // 0x1f, 0o17, 0b11
		_, rest := span(s[2:], "0123456789abcdefABCDEF_")
		return rest == ""
	}
	// 007, 1_000, 1,000, 1., .5, 1:30, 1:30.5; and 10.0.0.1, by the letter of 1.1
	if number, rest := span(s, "0123456789_.,:"); number != "" && number[0] != ':' && number[0] != '_' &&
		number[0] != ',' {
		if rest == "" || isExponent(rest) {
			return true
		}
	}
	// a date of YAML 1.1, such as 2026-1-31, alone or before a time
	year, s := digits(s)
	month, s := digits(strings.TrimPrefix(s, "-"))
	day, s := digits(strings.TrimPrefix(s, "-"))
	return len(year) == 4 && month != "" && len(month) <= 2 && day != "" && len(day) <= 2 && (s == "" ||
		strings.ContainsRune("Tt \t", rune(s[0])))
}
