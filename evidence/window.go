package evidence

import "io"

// A window reads forwards in large pieces, and hands out what is in them without copying.
type window struct {
	r    io.ReaderAt
	at   int64 // of buf
	buf  []byte
	size int64 // of what r reads
}

func newWindow(r io.ReaderAt, size int64, n int) *window {
	return &window{r: r, buf: make([]byte, 0, n), size: size}
}

// get gives n bytes at an offset, no more than the window is wide. They are valid until the next get.
func (w *window) get(at int64, n int) ([]byte, error) {
	if at < 0 || at > w.size || int64(n) > w.size-at {
		return nil, io.ErrUnexpectedEOF
	}
	if at < w.at || at+int64(n) > w.at+int64(len(w.buf)) {
		w.at, w.buf = at, w.buf[:min(int64(cap(w.buf)), w.size-at)]
		if err := readAt(w.r, w.buf, at); err != nil {
			w.buf = w.buf[:0]
			return nil, err
		}
	}
	i := at - w.at
	return w.buf[i : i+int64(n) : i+int64(n)], nil
}

// readAt fills b.
func readAt(r io.ReaderAt, b []byte, at int64) error {
	n, err := r.ReadAt(b, at)
	switch {
	case n == len(b):
		return nil // io.ReaderAt may say io.EOF beside the last bytes
	case err == nil || err == io.EOF:
		return io.ErrUnexpectedEOF
	}
	return err
}
