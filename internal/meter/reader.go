package meter

// A reader reads the binary format. After the first error it returns zeroes and stays in place,
// so callers look at err once a loop.
type reader struct {
	b   []byte
	at  int
	err *Error
}

func (r *reader) fail(what string) {
	if r.err == nil {
		r.err = refuse(what)
	}
}

// more reports whether anything is left to read.
func (r *reader) more() bool { return r.err == nil && r.at < len(r.b) }

func (r *reader) byte() byte {
	if !r.more() {
		r.fail(Malformed)
		return 0
	}
	r.at++
	return r.b[r.at-1]
}

// bytes returns the next n bytes, which alias the module.
func (r *reader) bytes(n uint32) []byte {
	if r.err != nil || uint64(n) > uint64(len(r.b)-r.at) {
		r.fail(Malformed)
		return nil
	}
	r.at += int(n)
	return r.b[r.at-int(n) : r.at]
}

// u32 reads an unsigned LEB128 of at most 32 bits.
func (r *reader) u32() uint32 {
	var v uint32
	for shift := 0; shift < 35; shift += 7 {
		b := r.byte()
		if shift == 28 && b > 0x0f { // bits beyond the 32nd, or a sixth byte
			break
		}
		v |= uint32(b&0x7f) << shift
		if b < 0x80 {
			return v
		}
	}
	r.fail(Malformed)
	return 0
}

// signed reads a signed LEB128 of at most as many bits: 32, 33 or 64.
func (r *reader) signed(bits int) int64 {
	var v int64
	for shift := 0; shift < bits; shift += 7 {
		b := r.byte()
		v |= int64(b&0x7f) << shift
		if b >= 0x80 {
			continue
		}
		if left := bits - shift; left < 7 { // the bits beyond the last one repeat the sign
			if rest := int8(b<<1) >> left; rest != 0 && rest != -1 {
				break
			}
		}
		if shift+7 < 64 {
			v = v << (57 - shift) >> (57 - shift)
		}
		return v
	}
	r.fail(Malformed)
	return 0
}

// vector reads the length of a vector whose elements have at least one byte each.
func (r *reader) vector() uint32 {
	n := r.u32()
	if uint64(n) > uint64(len(r.b)-r.at) {
		r.fail(Malformed)
		return 0
	}
	return n
}

// within returns a reader of the next n bytes.
func (r *reader) within(n uint32) reader { return reader{b: r.bytes(n), err: r.err} }

func appendU32(b []byte, v uint32) []byte {
	for ; v >= 0x80; v >>= 7 {
		b = append(b, byte(v)|0x80)
	}
	return append(b, byte(v))
}

func appendSigned(b []byte, v int64) []byte {
	for ; v < -64 || v > 63; v >>= 7 {
		b = append(b, byte(v)|0x80)
	}
	return append(b, byte(v)&0x7f)
}

func appendBytes(b, s []byte) []byte { return append(appendU32(b, uint32(len(s))), s...) }
