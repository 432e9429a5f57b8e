package value

import (
	"strings"

	"github.com/helmkernel/helm/crypto"
)

// Star is the segment that stands for each element of an array.
const Star = "*"

// SplitPointer reads an RFC 6901 pointer into its decoded segments.
func SplitPointer(s string) (segments []string, ok bool) {
	if s == "" {
		return nil, true
	}
	if s[0] != '/' {
		return nil, false
	}
	segments = strings.Split(s[1:], "/")
	for i, seg := range segments {
		for rest := seg; ; {
			at := strings.IndexByte(rest, '~')
			if at < 0 {
				break
			}
			if at+1 == len(rest) || rest[at+1] != '0' && rest[at+1] != '1' {
				return nil, false
			}
			rest = rest[at+2:]
		}
		segments[i] = strings.ReplaceAll(strings.ReplaceAll(seg, "~1", "/"), "~0", "~")
	}
	return segments, true
}

// JoinPointer is the inverse of SplitPointer.
func JoinPointer(segments []string) string {
	var b strings.Builder
	for _, seg := range segments {
		b.WriteString("/" + EscapeSegment(seg))
	}
	return b.String()
}

// EscapeSegment returns a segment as it stands in a pointer.
func EscapeSegment(s string) string {
	if !strings.ContainsAny(s, "~/") {
		return s
	}
	return strings.ReplaceAll(strings.ReplaceAll(s, "~", "~0"), "/", "~1")
}

// Follow returns the value at the segments below v. It is Missing if there is none, and below a
// scalar.
func Follow(v crypto.Value, segments []string) crypto.Value {
	for _, seg := range segments {
		if v.Kind() == crypto.Array {
			v = v.At(index(seg))
		} else {
			v = v.Get(seg)
		}
	}
	return v
}

// index returns the index of an array's element, without leading zeros as in RFC 6901 section 4, or
// -1.
func index(seg string) int {
	if seg == "" || len(seg) > 9 || seg[0] == '0' && len(seg) > 1 {
		return -1
	}
	n := 0
	for _, c := range []byte(seg) {
		if c < '0' || c > '9' {
			return -1
		}
		n = n*10 + int(c-'0')
	}
	return n
}

// Overlap reports whether two pointers may lead to one value: a star stands for every segment.
func Overlap(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] && a[i] != Star && b[i] != Star {
			return false
		}
	}
	return true
}
