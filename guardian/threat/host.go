package threat

import "unicode/utf8"

const maxHost = 255 // code points of a host that are looked at

// mixedHost reports whether the host that a text begins with has a label of Latin letters and of
// others that look like them. If the text is an authority, what @ follows is userinfo, and no host.
func mixedHost(text []byte, authority bool) bool {
	var latin, other, mixed bool // of the label; of the host
	points := 0
	for i := 0; i < len(text) && (authority || points < maxHost && !mixed); points++ {
		c, size := text[i], 1
		switch {
		case classes[c]&hostEnd != 0:
			return mixed
		case c == '@':
			return mixed && !authority
		case c == '.':
			latin, other = false, false
		case classes[c]&letter != 0:
			latin = true
		case c >= utf8.RuneSelf:
			var r rune
			r, size = utf8.DecodeRune(text[i:])
			other = other || lookalike(r)
		}
		mixed = mixed || points < maxHost && latin && other
		i += size
	}
	return mixed
}

// lookalike reports whether r is of a script with letters that look like Latin ones: Greek, Coptic,
// Cyrillic, Armenian, Georgian, Cherokee.
func lookalike(r rune) bool {
	switch {
	case r < 0x1000:
		return 0x370 <= r && r <= 0x58f
	case r < 0x2c00:
		return 0x10a0 <= r && r <= 0x10ff || 0x13a0 <= r && r <= 0x13ff || 0x1c80 <= r && r <= 0x1cbf ||
			0x1f00 <= r && r <= 0x1fff
	}
	return r <= 0x2c5f || 0x2c80 <= r && r <= 0x2d2f || 0x2de0 <= r && r <= 0x2dff || 0xa640 <= r && r <= 0xa69f ||
		0xab70 <= r && r <= 0xabbf
}

// metadata are the hosts from which machines in a cloud read their credentials, in lower case.
var metadata = [...]string{
	"169.254.169.254", "169.254.170.2", "100.100.100.200", "metadata.google.internal", "metadata.goog",
	"[fd00:ec2::254]", "2852039166", "0xa9fea9fe", "0xa9.0xfe.0xa9.0xfe", "0251.0376.0251.0376",
}

// metadataName returns the length of the host of metadata that a text begins with, with one final
// dot, or 0 if there is none. The text may go on.
func metadataName(text []byte) int {
	for _, host := range metadata {
		if hasFold(text, host) {
			n := len(host)
			if n < len(text) && (text[n] == '.') {
				n++
			}
			if n == len(text) || text[n] == ':' || text[n] == '@' || classes[text[n]]&hostEnd != 0 {
				return n
			}
		}
	}
	return 0
}

// authority returns the signals of the authority that a text begins with. Before it are :// and a
// text that may end with a scheme.
func authority(before, text []byte) (seen Set) {
	if mixedHost(text, true) {
		seen |= mixedScriptHost
	}
	if !endsWithScheme(before) {
		return seen
	}
	for i := 0; i < len(text); i++ {
		if i == 0 || text[i-1] == '@' {
			if n := metadataName(text[i:]); n > 0 && !userinfo(text[i+n:]) {
				return seen | metadataHost
			}
		}
		if classes[text[i]]&authEnd != 0 {
			break
		}
	}
	return seen
}

// userinfo reports whether @ is in a text before the end of a host.
func userinfo(text []byte) bool {
	for _, c := range text {
		if c == '@' || classes[c]&hostEnd != 0 {
			return c == '@'
		}
	}
	return false
}

// endsWithScheme reports whether a text ends with the scheme of a URL: a letter, and letters,
// digits, plus, dots and dashes.
func endsWithScheme(text []byte) bool {
	for i := len(text) - 1; i >= 0 && classes[text[i]]&scheme != 0; i-- {
		if classes[text[i]]&letter != 0 {
			return true
		}
	}
	return false
}
