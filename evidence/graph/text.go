package graph

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/helmkernel/helm/contracts"
)

// said holds what an entry says about its call. A field that the entry does not have is empty.
type said struct{ tool, verdict, outcome, reason, risk string }

func (s *shown) said() said {
	if x := s.Stub; x != nil {
		c := said{verdict: contracts.Allow.String()} // there are no stubs of what was denied
		if x.Receipt != nil {
			c.outcome = string(x.Receipt.Outcome)
		} else {
			c.tool = x.Decision.Tool
		}
		return c
	}
	st := s.Entry
	if r := st.Receipt; r != nil && r.Decision == nil {
		return said{r.Tool, r.Verdict.String(), string(r.Outcome), string(r.Reason), ""}
	}
	d := st.Judgement()
	if d == nil {
		return said{}
	}
	c := said{d.Tool, d.Verdict.String(), "", string(d.Reason), string(d.Risk)}
	if st.Receipt != nil {
		c.outcome = string(st.Receipt.Outcome)
	}
	return c
}

func (e edge) kind() string {
	if e.parent {
		return "parent"
	}
	return "prev"
}

func appendJSON(b []byte, s *shown) []byte {
	text := func(key, value string) {
		b = appendJSONText(append(append(append(b, `,"`...), key...), `":"`...), value)
		b = append(b, '"')
	}
	b = strconv.AppendUint(append(b, "\n{\"index\":"...), s.index, 10)
	session, seq, at := s.Place()
	text("kind", string(s.Kind()))
	if s.Stub != nil {
		b = append(b, `,"stub":true`...)
	}
	text("session", session)
	b = strconv.AppendUint(append(b, `,"seq":`...), seq, 10)
	text("time", at.String())
	c := s.said()
	for _, f := range [...][2]string{{"tool", c.tool}, {"verdict", c.verdict}, {"outcome", c.outcome},
		{"reason", c.reason}, {"risk", c.risk}} {
		if f[1] != "" {
			text(f[0], f[1])
		}
	}
	text("hash", s.Hash.String())
	b = append(b, `,"edges":[`...)
	for i, e := range s.edges {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(append(b, `{"to":`...), uint64(e.to), 10)
		b = append(append(append(b, `,"kind":"`...), e.kind()...), `","cause":`...)
		b = append(strconv.AppendBool(b, e.cause), '}')
	}
	return append(b, "]}"...)
}

// appendJSONText escapes everything that is not printable ASCII, and the characters that mean
// something in HTML.
func appendJSONText(b []byte, s string) []byte {
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r >= ' ' && r <= '~' && r != '<' && r != '>' && r != '&':
			b = append(b, byte(r))
		case r <= 0xffff:
			b = fmt.Appendf(b, `\u%04x`, r)
		default:
			high, low := utf16.EncodeRune(r)
			b = fmt.Appendf(b, `\u%04x\u%04x`, high, low)
		}
	}
	return b
}

func appendDOT(b []byte, s *shown) []byte {
	c := s.said()
	session, seq, at := s.Place()
	b = fmt.Appendf(b, "\te%d [group=\"", s.index)
	b = appendDOTText(b, session)
	b = fmt.Appendf(b, "\" label=\"%d %s", s.index, s.Kind())
	if s.Stub != nil {
		b = append(b, ", a stub"...)
	}
	b = fmt.Appendf(appendDOTText(append(b, `\n`...), session), "/%d\\n%s", seq, at)
	for _, text := range []string{c.tool, c.summary()} {
		if text != "" {
			b = appendDOTText(append(b, `\n`...), text)
		}
	}
	b = append(b, '"')
	if s.Stub != nil {
		b = append(b, " style=dashed"...)
	}
	if c.verdict == contracts.Deny.String() {
		b = append(b, " color=red"...)
	}
	b = append(b, "];\n"...)
	for _, e := range s.edges {
		b = fmt.Appendf(b, "\te%d -> e%d [label=%s", s.index, e.to, e.kind())
		if !e.cause {
			b = append(b, " style=dotted"...)
		}
		b = append(b, "];\n"...)
	}
	return b
}

// summary returns the text for people, such as "DENIED POLICY_VIOLATION, high risk".
func (c said) summary() string {
	s := cmp.Or(c.outcome, c.verdict)
	if c.reason != "" && c.reason != string(contracts.ReasonAllow) {
		s += " " + c.reason
	}
	if c.risk != "" {
		s += ", " + c.risk + " risk"
	}
	return s
}

// appendDOTText escapes the characters that end a string or are markup in a label of any shape, and
// the ampersand, because Graphviz reads entities too. Characters that are not printable ASCII are
// spelled out, because they could reorder or hide text; so is the backslash, which begins such a
// spelling.
func appendDOTText(b []byte, s string) []byte {
	for _, r := range s {
		switch {
		case strings.ContainsRune(`"{}|<>`, r):
			b = append(b, '\\', byte(r))
		case r == '&':
			b = append(b, "&amp;"...)
		case r >= ' ' && r <= '~' && r != '\\':
			b = append(b, byte(r))
		default:
			b = fmt.Appendf(b, `\\u%06x`, r)
		}
	}
	return b
}
