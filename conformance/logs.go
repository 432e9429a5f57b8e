package conformance

import (
	"bytes"
)

// pack writes a pack of the whole log, up to a new checkpoint.
func (w *world) pack() []byte {
	_, err := w.kernel.Checkpoint(w.ctx)
	w.must(err, "a checkpoint")
	var b bytes.Buffer
	w.must(w.write(&b, w.store.Store, keyOf("kernel")), "writing a pack")
	return b.Bytes()
}
