package proxy

import (
	"errors"
	"io"
	"math"
	"net/http"
	"sync"
)

// A meter counts the bytes of bodies and answers that are held at once.
type meter struct {
	most int

	mu  sync.Mutex
	now int
}

// take counts bytes in, unless there would be too many.
func (m *meter) take(n int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n > 0 && m.now+n > m.most {
		return false
	}
	m.now += n
	return true
}

// A share is what one request holds.
type share struct {
	of   *meter
	size int
}

// grow counts bytes in.
func (s *share) grow(n int) bool {
	if !s.of.take(n) {
		return false
	}
	s.size += n
	return true
}

// set makes the share that large.
func (s *share) set(n int) bool { return s.grow(n - s.size) }

var errFull = errors.New("too much is held at once")

// request reads the body of a request, whose limit is auth's.
func (s *share) request(r *http.Request) ([]byte, error) {
	b, err := s.read(r.Body, math.MaxInt)
	switch {
	case err == errTooLong:
		return nil, &refusal{http.StatusRequestEntityTooLarge, "the body is too long"}
	case err != nil && err != errFull:
		return nil, bad("the body did not come whole")
	}
	return b, err
}

// read reads a text of at most so many bytes, which count as held before they are read, until the
// share is made smaller.
func (s *share) read(r io.Reader, most int) ([]byte, error) {
	const step = 16 << 10
	var b []byte
	for {
		if len(b) == cap(b) {
			more := max(step, min(cap(b), most-cap(b)+1))
			if !s.grow(more) {
				return nil, errFull
			}
			b = append(make([]byte, 0, cap(b)+more), b...)
		}
		n, err := r.Read(b[len(b):cap(b)])
		if b = b[:len(b)+n]; len(b) > most {
			return nil, errTooLong
		}
		switch {
		case err == io.EOF:
			return b, nil
		case errors.As(err, new(*http.MaxBytesError)):
			return nil, errTooLong
		case err != nil:
			return nil, err
		}
	}
}
