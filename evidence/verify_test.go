package evidence

import (
	"bytes"
	"testing"
)

func verifyBytes(t testing.TB, pack []byte, o Options) (Report, error) {
	t.Helper()
	return Verify(t.Context(), bytes.NewReader(pack), int64(len(pack)), o)
}

func TestBaseLog(t *testing.T) {
	m := baseLog(t)
	m.checkpoint()
	pack := m.pack()
	r, err := verifyBytes(t, pack, Options{Trust: m.trust, Origin: testOrigin})
	t.Logf("%+v %v", r, err)
}
