package value

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Location is an absolute URL in one spelling: scheme and host in lower case, the usual port left
// out, an empty path written /. Its path is as it was.
type Location struct {
	Text     []byte // without query and fragment
	Host     []byte
	Query    bool
	Fragment bool
}

// ReadURL reads a location, and appends its text to buf.
func ReadURL(buf, b []byte) (u Location, out []byte, ok bool) {
	if !plainURL(b) {
		return u, buf, false
	}
	if at := bytes.IndexByte(b, '#'); at >= 0 {
		b, u.Fragment = b[:at], true
	}
	if at := bytes.IndexByte(b, '?'); at >= 0 {
		b, u.Query = b[:at], true
	}
	at := bytes.IndexByte(b, ':')
	if at <= 0 || len(b) < at+3 || b[at+1] != '/' || b[at+2] != '/' || !isScheme(b[:at]) {
		return u, buf, false
	}
	from := len(buf)
	buf = append(AppendLower(buf, b[:at]), "://"...)
	scheme := buf[from : from+at]
	b = b[at+3:]
	path := []byte("/")
	if at := bytes.IndexByte(b, '/'); at >= 0 {
		b, path = b[:at], b[at:]
	}
	host, port, ok := splitPort(b)
	if !ok {
		return u, buf, false
	}
	start := len(buf)
	buf, ok = AppendHost(buf, host)
	if !ok {
		return u, buf, false
	}
	end := len(buf)
	if len(port) > 0 && string(port) != usualPorts[string(scheme)] {
		buf = append(append(buf, ':'), port...)
	}
	seg, rest := path, path[1:]
	for more := true; more; {
		seg, rest, more = bytes.Cut(rest, []byte{'/'})
		if isDots(seg) {
			return u, buf, false
		}
	}
	buf = append(buf, path...)
	u.Text, u.Host = buf[from:], buf[start:end]
	return u, buf, true
}

// plainURL reports whether b is free of characters that two readers take differently.
func plainURL(b []byte) bool {
	for i := 0; i < len(b); i++ {
		c := b[i]
		switch {
		case c <= ' ', c == 0x7f, c == '\\':
			return false
		case c == '%':
			if i+2 >= len(b) || unhex(b[i+1]) < 0 || unhex(b[i+2]) < 0 {
				return false
			}
			if d := unhex(b[i+1])<<4 | unhex(b[i+2]); d == '.' || d == '/' || d == '\\' {
				return false
			}
		case c >= utf8.RuneSelf:
			r, n := utf8.DecodeRune(b[i:])
			if unicode.IsSpace(r) || unicode.IsControl(r) || r == utf8.RuneError && n == 1 {
				return false
			}
			i += n - 1
		}
	}
	return true
}

func unhex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case lower(c) >= 'a' && lower(c) <= 'f':
		return int(lower(c)-'a') + 10
	}
	return -1
}

// usualPorts are the ports of URLs that name none.
var usualPorts = map[string]string{"https": "443", "wss": "443", "http": "80", "ws": "80", "ftp": "21"}

func isScheme(b []byte) bool {
	for i, c := range b {
		letter := lower(c) >= 'a' && lower(c) <= 'z'
		if !letter && (i == 0 || (c < '0' || c > '9') && c != '+' && c != '-' && c != '.') {
			return false
		}
	}
	return true
}

// splitPort splits an authority. It leaves a user in the host, which has no @ and so is refused.
func splitPort(b []byte) (host, port []byte, ok bool) {
	at := len(b)
	for i := len(b) - 1; i >= 0 && b[i] != ']'; i-- {
		if b[i] == ':' {
			at = i
			break
		}
	}
	if at == len(b) {
		return b, nil, true
	}
	host, port = b[:at], b[at+1:]
	if len(port) == 0 || len(port) > 5 || port[0] == '0' {
		return nil, nil, false
	}
	n := 0
	for _, c := range port {
		if c < '0' || c > '9' {
			return nil, nil, false
		}
		n = n*10 + int(c-'0')
	}
	return host, port, n <= 65535
}

// ReadURLTree reads an operand https://host[:port]/path/? and reports whether it permits a query. A
// path without a final slash is itself in the subtree.
func ReadURLTree(s string) (t Subtree, query, ok bool) {
	s, query = strings.CutSuffix(s, "?")
	u, _, ok := ReadURL(nil, []byte(s))
	if !ok || u.Query || u.Fragment {
		return t, false, false
	}
	path := string(u.Text)
	below := strings.TrimSuffix(path, "/")
	return Subtree{Below: below + "/", Self: below == path}, query, true
}
