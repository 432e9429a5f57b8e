package meter

// spent is the global in which the naive rewriting counts.
const spent = "spent"

// naive rewrites a module so that each instruction is counted just before it runs, by a table of
// costs of its own. It knows nothing of segments, adds no function and moves nothing; NaNs become
// canonical, which it does to each by itself.
func naive(b []byte) ([]byte, *Error) {
	m, err := decode(b)
	if err != nil {
		return nil, err
	}
	at := m.imported(kindGlobal) + uint32(len(m.globals))
	var codes [][]byte
	for i, body := range m.bodies {
		t := m.typeAt(m.funcs[i])
		if t == nil {
			return nil, refuse(Malformed)
		}
		code, err := naiveBody(body, at, len(t.params))
		if err != nil {
			return nil, err
		}
		codes = append(codes, sized(code))
	}
	sections := map[byte][]byte{sectionGlobal: {0}, sectionExport: {0}}
	for r := (reader{b: b, at: len(preamble)}); r.more(); {
		id := r.byte()
		sections[id] = r.bytes(r.u32())
	}
	more := func(id byte, one []byte) {
		r := reader{b: sections[id]}
		n := r.u32()
		sections[id] = cat(appendU32(nil, n+1), sections[id][r.at:], one)
	}
	more(sectionGlobal, cat(typeI64, 1, i64(0), opEnd))
	more(sectionExport, cat(name(spent), kindGlobal, appendU32(nil, at)))
	if len(codes) > 0 {
		sections[sectionCode] = vec(codes)
	}
	out := preamble
	for _, id := range []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 10, 11} {
		if contents, ok := sections[id]; ok {
			out = section(out[:len(out):len(out)], id, contents)
		}
	}
	return out, nil
}

func naiveBody(body []byte, at uint32, params int) ([]byte, *Error) {
	r := reader{b: body}
	groups, locals := r.u32(), uint64(params)
	from := r.at
	for range groups {
		locals += uint64(r.u32())
		r.byte()
	}
	n, f, d := int(locals), int(locals)+1, int(locals)+2
	add := func(value ...any) []byte {
		return cat(opGlobalGet, appendU32(nil, at), cat(value...), opI64Add, opGlobalSet, appendU32(nil, at))
	}
	out := cat(appendU32(nil, groups+3), body[from:r.at], 1, typeI32, 1, typeF32, 1, typeF64, add(i64(1)))
	for r.more() {
		from := r.at
		in := readInstruction(&r)
		if r.err != nil {
			return nil, r.err
		}
		key := int(in.op)
		if in.op == opPrefix {
			key = key<<8 + int(in.sub)
		}
		cost, ok := naiveCosts[key]
		if !ok {
			cost = 1
		}
		if cost > 0 {
			out = append(out, add(i64(cost))...)
		}
		length := cat(get(n), opI64ExtendU)
		switch key {
		case 0x40:
			out = append(out, cat(set(n), add(length, i64(4096), opI64Mul), get(n))...)
		case 0xfc08, 0xfc0a, 0xfc0b:
			out = append(out, cat(set(n), add(length, i64(8), 0x80), get(n))...)
		case 0xfc0c, 0xfc0e, 0xfc0f, 0xfc11:
			out = append(out, cat(set(n), add(length), get(n))...)
		}
		out = append(out, body[from:r.at]...)
		switch key {
		case opLoop:
			out = append(out, add(i64(1))...)
		case 0x8d, 0x8e, 0x8f, 0x90, 0x91, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0xb6:
			out = append(out, cat(set(f), get(f), get(f), 0x5c, opIf, typeF32, opF32Const, 0, 0, 0xc0, 0x7f, opElse, get(f), opEnd)...)
		case 0x9b, 0x9c, 0x9d, 0x9e, 0x9f, 0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xbb:
			out = append(out, cat(set(d), get(d), get(d), 0x62, opIf, typeF64, opF64Const, 0, 0, 0, 0, 0, 0, 0xf8, 0x7f, opElse, get(d), opEnd)...)
		}
	}
	return out, nil
}

// naiveCosts is the table of charges again; what is not in it costs 1.
var naiveCosts = map[int]int64{
	0x00: 0, 0x01: 0, 0x02: 0, 0x05: 0, 0x0b: 0, 0x1a: 0,
	0x10: 4, 0x11: 8, 0x0e: 2,
	0x6d: 8, 0x6e: 8, 0x6f: 8, 0x70: 8, 0x7f: 8, 0x80: 8, 0x81: 8, 0x82: 8,
	0x91: 8, 0x95: 8, 0x9f: 8, 0xa3: 8,
	0xfc08: 8, 0xfc0a: 8, 0xfc0b: 8, 0xfc0c: 8, 0xfc0e: 8, 0xfc0f: 8, 0xfc11: 8,
	0x40: 16,
}
