package value

import (
	"bytes"
	"net/netip"
	"strings"
)

// What is wrong with a value that an operator cannot read. Malformed is an error, never false: false would let it pass a deny rule.
const (
	BadPath  = "not an absolute path without empty, . and .. segments, backslash and NUL"
	BadURL   = "not an absolute URL without user, white space, control characters, backslash, %2e, %2f, %5c and dot segments"
	BadHost  = "not a host name of ASCII letters, digits, hyphens and dots"
	BadEmail = "not one bare mailbox@domain"
	BadIP    = "not an IP address"
)

// IsPath tells whether b is an absolute path that nothing can read in two ways. It is not cleaned: what needs cleaning is malformed.
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

// AppendHost appends a host in one spelling: a name in lower case, an IP address as the standard library writes it, IPv6 in brackets.
// A name whose last label is a number is an address to some resolvers (127.1, 0x7f.1), so it must be a plain IPv4 address.
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
	if len(b) == 0 || len(b) > 253 {
		return dst, false
	}
	from, number := 0, true // number: the label has digits only, or is hexadecimal
	for i := 0; i <= len(b); i++ {
		if i < len(b) && b[i] != '.' {
			c := lower(b[i])
			digit := c >= '0' && c <= '9'
			if !digit && (c < 'a' || c > 'z') && c != '-' && c != '_' {
				return dst, false
			}
			if i == from {
				number = true
			}
			number = number && (digit || i == from+1 && c == 'x' && b[from] == '0' || i > from+1 && lower(b[from+1]) == 'x' && unhex(c) >= 0)
			continue
		}
		if i == from || i-from > 63 || b[from] == '-' || b[i-1] == '-' {
			return dst, false
		}
		from = i + 1
	}
	if number {
		if _, ok := readIPv4(b); !ok {
			return dst, false
		}
	}
	return AppendLower(dst, b), true
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
			if digits++; n > 255 {
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

// ReadIP reads an IP literal without zone. IPv4 in IPv6 is IPv4. Only IPv6 allocates.
func ReadIP(b []byte) (netip.Addr, bool) {
	if a, ok := readIPv4(b); ok {
		return a, true
	}
	if len(b) > 45 || bytes.IndexByte(b, ':') < 0 {
		return netip.Addr{}, false
	}
	a, err := netip.ParseAddr(string(b))
	return a.Unmap(), err == nil && a.Zone() == ""
}

// ReadHost takes the host of a bare name or of an absolute URL, which has a slash.
func ReadHost(buf, b []byte) (host, out []byte, ok bool) {
	if bytes.IndexByte(b, '/') >= 0 {
		u, out, ok := ReadURL(buf, b)
		return u.Host, out, ok
	}
	from := len(buf)
	out, ok = AppendHost(buf, b)
	return out[from:], out, ok
}

// ReadEmail appends the address with its domain in lower case, and gives it and the domain. The local part is exact: only its own host
// knows what in it may vary.
func ReadEmail(buf, b []byte) (address, domain, out []byte, ok bool) {
	at := bytes.IndexByte(b, '@')
	if at < 1 || at > 64 || !isLocal(b[:at]) {
		return nil, nil, buf, false
	}
	from := len(buf)
	out = append(buf, b[:at+1]...)
	start := len(out)
	out, ok = AppendDomain(out, b[at+1:])
	return out[from:], out[start:], out, ok
}

// AppendDomain appends the domain of an address; an IP address is none.
func AppendDomain(dst, b []byte) ([]byte, bool) {
	if _, ip := readIPv4(b); ip || len(b) > 0 && b[0] == '[' {
		return dst, false
	}
	return AppendHost(dst, b)
}

// isLocal tells whether b is a dot-atom, RFC 5322 section 3.2.3.
func isLocal(b []byte) bool {
	before := byte('.')
	for _, c := range b {
		word := lower(c) >= 'a' && lower(c) <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("!#$%&'*+-/=?^_`{|}~", c) >= 0
		if !word && (c != '.' || before == '.') {
			return false
		}
		before = c
	}
	return before != '.'
}
