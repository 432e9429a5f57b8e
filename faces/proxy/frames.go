package proxy

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
)

// A frame is one server-sent event that has data.
type frame struct {
	event string // empty: none
	data  []byte
}

var errFrame = errors.New("not an event stream as clients agree on it")

// frames reads server-sent events. Clients split lines differently, so that what some of them take
// for one event is two for others: a lone CR, a NUL, data of several lines and a field that is none
// are refused. Fields id and retry, and comments, are left out.
type frames struct {
	r    *bufio.Reader
	most int // bytes of an event
}

// next returns the next frame, or io.EOF if the stream ends between two.
func (f *frames) next() (e frame, err error) {
	size, begun, data := 0, false, false
	for {
		line, err := f.line(f.most - size)
		switch {
		case err == io.EOF && !begun:
			return e, io.EOF
		case err == io.EOF:
			return e, io.ErrUnexpectedEOF
		case err != nil:
			return e, err
		}
		size += len(line) + 1
		if len(line) == 0 {
			if data && len(e.data) > 0 {
				return e, nil
			}
			e, size, begun, data = frame{}, 0, false, false
			continue
		}
		begun = true
		name, value, _ := bytes.Cut(line, []byte{':'})
		value = bytes.TrimPrefix(value, []byte{' '})
		switch {
		case line[0] == ':', string(name) == "id", string(name) == "retry":
		case string(name) == "event" && e.event == "" && len(value) > 0:
			e.event = string(value)
		case string(name) == "data" && !data:
			e.data, data = bytes.Clone(value), true
		default:
			return e, errFrame
		}
	}
}

// line reads a line without its end, LF or CRLF.
func (f *frames) line(most int) (line []byte, err error) {
	for {
		part, err := f.r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > most:
			return nil, errTooLong
		case err == bufio.ErrBufferFull:
			continue
		case err == io.EOF && len(line) > 0:
			return nil, io.ErrUnexpectedEOF
		case err != nil:
			return nil, err
		}
		line = bytes.TrimSuffix(line[:len(line)-1], []byte{'\r'})
		if bytes.ContainsAny(line, "\r\x00") {
			return nil, errFrame
		}
		return line, nil
	}
}

var (
	errTooLong = errors.New("an event, or what is held of an answer, over its limit")
	errTooMany = errors.New("an answer of too many calls")
)

// appendFrame appends an event as HELM writes it. Its data has no line end: it is JSON, or one
// word.
func appendFrame(dst []byte, e frame) []byte {
	if e.event != "" {
		dst = append(append(append(dst, "event: "...), e.event...), '\n')
	}
	dst = append(append(dst, "data: "...), e.data...)
	return append(dst, "\n\n"...)
}

// folded returns a name in the form in which some clients compare names: in lower case, where the
// long s and the Kelvin sign are s and k.
func folded(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		case r == '\u017f':
			return 's'
		case r == '\u212a':
			return 'k'
		}
		return r
	}, name)
}
