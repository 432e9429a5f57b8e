package ustar

import "io"

// A Window reads forwards in large pieces, and hands out their bytes without copying.
type Window struct {
	r    io.ReaderAt
	at   int64 // of buf
	buf  []byte
	size int64 // of what r reads
}

// NewWindow returns a window of width bytes over a reader of that size.
func NewWindow(r io.ReaderAt, size int64, width int) *Window {
	return &Window{r: r, buf: make([]byte, 0, width), size: size}
}

// Get returns n bytes at an offset; n is at most the width. They are valid until the next Get.
func (w *Window) Get(at int64, n int) ([]byte, error) {
	if at < 0 || at > w.size || int64(n) > w.size-at {
		return nil, io.ErrUnexpectedEOF
	}
	if at < w.at || at+int64(n) > w.at+int64(len(w.buf)) {
		w.at, w.buf = at, w.buf[:min(int64(cap(w.buf)), w.size-at)]
		if err := ReadAt(w.r, w.buf, at); err != nil {
			w.buf = w.buf[:0]
			return nil, err
		}
	}
	i := at - w.at
	return w.buf[i : i+int64(n) : i+int64(n)], nil
}

// ReadAt fills b. If the reader ends before b is full, the error is io.ErrUnexpectedEOF.
func ReadAt(r io.ReaderAt, b []byte, at int64) error {
	n, err := r.ReadAt(b, at)
	switch {
	case n == len(b):
		return nil // io.ReaderAt may return io.EOF with the last bytes
	case err == nil || err == io.EOF:
		return io.ErrUnexpectedEOF
	}
	return err
}
