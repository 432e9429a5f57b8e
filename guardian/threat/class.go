package threat

// A class is a set of bytes, as a bit in the table of all bytes.
type class uint32

const (
	letter    class = 1 << iota // ASCII letters
	mark                        // ASCII that is a signal, or that a signal may begin or end with
	lead                        // first bytes of code points that the scanner looks at
	blank                       // \s
	token                       // what a key is not next to
	first                       // what a key may begin with
	alnum                       // the classes of the keys
	alnumDash                   //
	base32                      //
	bech32                      //
	digit                       //
	hexLower                    //
	hubKind                     //
	slackKind                   //
	lower                       //
	base64                      // of a private key's body
	labels                      // of a private key's label
	scheme                      // of a URL's scheme
	segment                     // of a path segment that may carry data
	urlEnd                      // what no URL in a text contains
	authEnd                     // what ends the authority of a URL
	hostEnd                     // what ends a host in a text
)

// classes has the classes of each byte.
var classes = classTable([]struct {
	class
	bytes string // a-z is a range; a dash at the end is a dash
}{
	{letter, "A-Za-z"},
	{mark, "\x00-\x08\x0b\x0c\x0e-\x1f!&(/:;<=>@[]|\x7f-"},
	{lead, "\xc2\xcd\xd8\xe1\xe2\xe3\xef\xf0\xf3"},
	{blank, "\t\n\f\r "},
	{token, "A-Za-z0-9_-"},
	{first, "ASdghnprsx"},
	{alnum, "A-Za-z0-9"},
	{alnumDash, "A-Za-z0-9-"},
	{base32, "A-Z2-7"},
	{bech32, "02-9AC-HJ-NP-Z"},
	{digit, "0-9"},
	{hexLower, "0-9a-f"},
	{hubKind, "pousr"},
	{slackKind, "abeoprs"},
	{lower, "a-z"},
	{base64, "A-Za-z0-9+/"},
	{labels, "A-Za-z0-9 "},
	{scheme, "A-Za-z0-9+.-"},
	{segment, "A-Za-z0-9_+=%-"},
	{urlEnd, "\t\n\f\r <>"},
	{authEnd, "\t\n\f\r /?#\\\"<>"},
	{hostEnd, "\t\n\f\r /?#\\\"'<>(){}[],;"},
})

func classTable(list []struct {
	class
	bytes string
}) (t [256]class) {
	for _, c := range list {
		for i := 0; i < len(c.bytes); i++ {
			from, to := int(c.bytes[i]), int(c.bytes[i])
			if i+2 < len(c.bytes) && c.bytes[i+1] == '-' {
				to = int(c.bytes[i+2])
				i += 2
			}
			for b := from; b <= to; b++ {
				t[b] |= c.class
			}
		}
	}
	return t
}

// is reports whether a text has a byte of a class at an index. The index may be beyond the text.
func is(text []byte, i int, c class) bool { return i < len(text) && classes[text[i]]&c != 0 }

// run returns the number of bytes of a class that a text begins with, at most most.
func run(text []byte, c class, most int) int {
	n := 0
	for n < most && is(text, n, c) {
		n++
	}
	return n
}

// fold returns the lower case of an ASCII letter, and other bytes as they are.
func fold(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

// hasFold reports whether a text begins with a prefix, in any case. The prefix is in lower case.
func hasFold(text []byte, prefix string) bool {
	if len(text) < len(prefix) {
		return false
	}
	for i := range len(prefix) {
		if fold(text[i]) != prefix[i] {
			return false
		}
	}
	return true
}

// endsFold reports whether a text ends with a suffix, in any case. The suffix is in lower case.
func endsFold(text []byte, suffix string) bool {
	return len(text) >= len(suffix) && hasFold(text[len(text)-len(suffix):], suffix)
}
