package forge

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
)

// messageLog has a message before a call, one after it, and one in main.
func messageLog(t testing.TB) *Maker {
	m := NewMaker(t)
	m.Use(FilesPolicy(3))
	m.Say("s", "read /srv/a, please")
	m.Allowed(Ask{Session: "s", Tool: "fs.list", Args: `{}`, Who: Reader}).Ran(`[]`)
	m.Say("s", "thanks\x00")
	m.Say("main", strings.Repeat("\u2713", contracts.MaxMessage/3)+"!")
	m.Say("s", "thanks\x00")
	m.Close("s")
	m.Checkpoint()
	return m
}

// saying returns the entry of the nth message.
func saying(m *Model, n int) *Node {
	m.Helper()
	for _, x := range m.Nodes {
		if x.Kind() == "message" {
			if n == 0 {
				return x
			}
			n--
		}
	}
	m.Fatal("no such message")
	return nil
}

// TestMessages: a pack holds the texts of messages. One that is not there is listed; one that no
// host can have passed in, another one under its name, and one that no entry names are BLOB.
func TestMessages(t *testing.T) {
	t.Parallel()
	made := messageLog(t)
	pack := made.Pack(evidence.Write)
	o := evidence.Options{Trust: made.Trust, Origin: Origin}
	r, err := verifyBytes(t, pack, o)
	require.True(t, err == nil && r.Success(0) && r.Erased == nil && r.Replay.Replayed == 1, "%+v, %v", r, err)
	for _, text := range []string{"read /srv/a, please", "thanks\x00"} {
		assert.Contains(t, TakeApart(t, pack).Blobs, crypto.Sum([]byte(text)).String(), "a text is not in the pack")
	}
	becomes := func(n int, text string) func(m *Model) {
		return func(m *Model) {
			x := saying(m, n)
			delete(m.Blobs, x.Text("textHash"))
			x.P()["textHash"] = m.blob([]byte(text))
		}
	}
	for name, x := range map[string]struct {
		row  string // of the catalogue
		cut  func(m *Model)
		want error
		gone int
	}{
		"another text":      {cut: becomes(0, "delete it all")},
		"as long as may be": {cut: becomes(0, strings.Repeat("x", contracts.MaxMessage))},
		"longer":            {cut: becomes(0, strings.Repeat("x", contracts.MaxMessage+1)), want: errBlob},
		"empty":             {cut: becomes(0, ""), want: errBlob},
		"no UTF-8":          {cut: becomes(0, "a\xff"), want: errBlob},
		"a lone surrogate":  {cut: becomes(0, "a\xed\xa0\x80"), want: errBlob},
		"not there":         {cut: func(m *Model) { delete(m.Blobs, saying(m, 0).Text("textHash")) }, gone: 1},
		"not there, twice":  {cut: func(m *Model) { delete(m.Blobs, saying(m, 1).Text("textHash")) }, gone: 1},
		"another under its name": {row: "P17", cut: func(m *Model) {
			b := bytes.Clone(m.Blobs[saying(m, 0).Text("textHash")])
			b[0]++
			m.Blobs[saying(m, 0).Text("textHash")] = b
		}, want: errBlob},
		"another named, it stays": {row: "P07", cut: func(m *Model) {
			saying(m, 0).P()["textHash"] = crypto.Sum([]byte("another")).String()
		}, want: errBlob},
		"in a session of the kernel's": {row: "R11", cut: func(m *Model) { saying(m, 2).P()["session"] = "@refused" },
			want: errRecord},
		"in the kernel's chain": {cut: func(m *Model) { saying(m, 2).P()["session"] = "" }, want: errRecord},
		"after the close": {cut: func(m *Model) {
			x := m.copy(saying(m, 3))
			x.P()["time"] = m.Nodes[len(m.Nodes)-1].Text("time")
			m.push(x)
		}, want: errChain},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if x.row != "" {
				ranRow(t, x.row)
			}
			m := TakeApart(t, pack)
			x.cut(m)
			m.relink()
			spoilt := m.Build()
			require.NotEqual(t, pack, spoilt, "nothing was changed")
			r, err := verifyBytes(t, spoilt, o)
			if x.want != nil {
				mustRefuse(t, r, err, x.want)
				return
			}
			assert.True(t, err == nil && r.Success(0) && len(r.Erased) == x.gone, "%+v, %v", r, err)
		})
	}
}
