package value

import (
	"bytes"
	"net/netip"
	"strings"
)

// What is wrong with a value that an operator cannot read. It is an error, never false: false would
// let the value pass a deny rule.
const (
	BadPath = "not an absolute path without empty, . and .. segments, backslash and NUL"
	BadURL  = "not an absolute URL without user, white space, control characters, backslash, %2e, %2f, %5c and " +
		"dot segments"
	BadHost  = "not a host name of ASCII letters, digits, hyphens and dots"
	BadEmail = "not one bare mailbox@domain"
	BadIP    = "not an IP address"
)

// IsPath reports whether b is an absolute path that nothing can read in two ways. A path that would
// need cleaning is none.
func IsPath[T string | []byte](b T) bool {
	if len(b) == 0 || b[0] != '/' {
		return false
	}
	if len(b) == 1 {
		return true
	}
	from := 1
	for i := 1; i <= len(b); i++ {
		if i < len(b) && b[i] != '/' {
			if b[i] == '\\' || b[i] == 0 {
				return false
			}
			continue
		}
		if i == from || isDots(b[from:i]) {
			return false
		}
		from = i + 1
	}
	return true
}

func isDots[T string | []byte](seg T) bool {
	return len(seg) <= 2 && len(seg) > 0 && seg[0] == '.' && seg[len(seg)-1] == '.'
}

// AppendHost appends a host in its one spelling: a name in lower case, an IP address as the
// standard library writes it, IPv6 in brackets. Some resolvers read a name whose last label is a
// number as an address (127.1, 0x7f.1), so such a name must be a plain IPv4 address.
func AppendHost(dst, b []byte) ([]byte, bool) {
	if len(b) > 2 && b[0] == '[' && b[len(b)-1] == ']' {
		a, ok := ReadIP(b[1 : len(b)-1])
		switch {
		case !ok || bytes.IndexByte(b, ':') < 0:
			return dst, false
		case a.Is4():
			return a.AppendTo(dst), true
		}
		return append(a.AppendTo(append(dst, '[')), ']'), true
	}
	const longest = 253
	if len(b) == 0 || len(b) > longest {
		return dst, false
	}
	label, rest := b, b
	for more := true; more; {
		label, rest, more = bytes.Cut(rest, []byte{'.'})
		if !isLabel(label) {
			return dst, false
		}
	}
	if isNumber(label) {
		if _, ok := readIPv4(b); !ok {
			return dst, false
		}
	}
	return AppendLower(dst, b), true
}

// isLabel reports whether b is one label of a host name.
func isLabel(b []byte) bool {
	const longest = 63
	for _, c := range b {
		c = lower(c)
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && c != '-' && c != '_' {
			return false
		}
	}
	return len(b) > 0 && len(b) <= longest && b[0] != '-' && b[len(b)-1] != '-'
}

// isNumber reports whether a resolver may read a label as a number: it is decimal or, after 0x,
// hexadecimal.
func isNumber(label []byte) bool {
	hex := len(label) > 1 && label[0] == '0' && lower(label[1]) == 'x'
	if hex {
		label = label[2:]
	}
	for _, c := range label {
		if (c < '0' || c > '9') && (!hex || unhex(c) < 0) {
			return false
		}
	}
	return true
}

// readIPv4 reads four decimal numbers without leading zeros.
func readIPv4(b []byte) (netip.Addr, bool) {
	var a [4]byte
	n, digits, at := 0, 0, 0
	for i := 0; i <= len(b); i++ {
		if i < len(b) && b[i] != '.' {
			if b[i] < '0' || b[i] > '9' || digits > 0 && n == 0 {
				return netip.Addr{}, false
			}
			n = n*10 + int(b[i]-'0')
			digits++
			if n > 255 {
				return netip.Addr{}, false
			}
			continue
		}
		if digits == 0 || at == 4 {
			return netip.Addr{}, false
		}
		a[at] = byte(n)
		n, digits = 0, 0
		at++
	}
	return netip.AddrFrom4(a), at == 4
}

// ReadIP reads an IP literal without zone. IPv4 in IPv6 is read as IPv4. Only IPv6 allocates.
func ReadIP(b []byte) (netip.Addr, bool) {
	if a, ok := readIPv4(b); ok {
		return a, true
	}
	const longest = 45
	if len(b) > longest || bytes.IndexByte(b, ':') < 0 {
		return netip.Addr{}, false
	}
	a, err := netip.ParseAddr(string(b))
	return a.Unmap(), err == nil && a.Zone() == ""
}

// ReadHost reads the host of a bare name or of an absolute URL, which has a slash. Its text is
// appended to buf.
func ReadHost(buf, b []byte) (host, out []byte, ok bool) {
	if bytes.IndexByte(b, '/') >= 0 {
		u, out, ok := ReadURL(buf, b)
		return u.Host, out, ok
	}
	from := len(buf)
	out, ok = AppendHost(buf, b)
	return out[from:], out, ok
}

// ReadEmail appends an address with its domain in lower case to buf, and returns the address and
// the domain. The local part stays exact, since only its own host knows what may vary in it.
func ReadEmail(buf, b []byte) (address, domain, out []byte, ok bool) {
	const longest = 64 // of a local part
	at := bytes.IndexByte(b, '@')
	if at < 1 || at > longest || !isLocal(b[:at]) {
		return nil, nil, buf, false
	}
	from := len(buf)
	out = append(buf, b[:at+1]...)
	start := len(out)
	out, ok = AppendDomain(out, b[at+1:])
	return out[from:], out[start:], out, ok
}

// AppendDomain appends the domain of an address. An IP address is none.
func AppendDomain(dst, b []byte) ([]byte, bool) {
	if _, ip := readIPv4(b); ip || len(b) > 0 && b[0] == '[' {
		return dst, false
	}
	return AppendHost(dst, b)
}

// isLocal reports whether b is a dot-atom, RFC 5322 section 3.2.3.
func isLocal(b []byte) bool {
	before := byte('.')
	for _, c := range b {
		word := lower(c) >= 'a' && lower(c) <= 'z' || c >= '0' && c <= '9' ||
			strings.IndexByte("!#$%&'*+-/=?^_`{|}~", c) >= 0
		if !word && (c != '.' || before == '.') {
			return false
		}
		before = c
	}
	return before != '.'
}
