package conformance

import (
	"bytes"
)

// pack writes a pack of the whole log, up to a new checkpoint.
func (w *world) pack() []byte {
	_, err := w.kernel.Checkpoint(w.ctx)
	w.must(err, "a checkpoint")
	var b bytes.Buffer
	signer := w.packKey
	if signer == "" {
		signer = "kernel"
	}
	w.must(w.write(&b, w.store.Store, keyOf(signer)), "writing a pack")
	return b.Bytes()
}
