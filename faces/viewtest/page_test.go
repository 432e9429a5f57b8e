package viewtest

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/faces/api"
	"github.com/helmkernel/helm/faces/auth"
	"github.com/helmkernel/helm/faces/view"
)

// TestOffline: a call is found, its why is read, its causes are drawn, and the page asks nobody.
func TestOffline(t *testing.T) {
	b := browser(t)
	w := newWorld(t)
	w.day(t)
	name := w.page(t, view.Options{Inputs: true})
	state, banner := b.open(name)
	assert.Equal(t, "checked", state)
	assert.Equal(t, "No fault in 71 entries.", banner)
	assert.Contains(t, b.text("#checks"), "71 verify")
	assert.Contains(t, b.text("#checks"), "is that of the checkpoint of size 71")
	assert.Contains(t, b.text("#checks"), "signed by the log key")
	b.shots("calls")

	b.do(chromedp.KeyEvent("/"), chromedp.SendKeys("#f-text", "chat-2/", chromedp.ByQuery))
	assert.Equal(t, "4 of 38 calls", b.text("#found"))
	assert.Contains(t, b.text("#rows tr:last-child"), "reported")
	b.do(chromedp.Focus("#rows tr:nth-child(1) .open", chromedp.ByQuery),
		chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.ArrowDown),
		chromedp.KeyEvent(kb.Enter))
	one := b.text("#one")
	for _, x := range []string{"bank.transfer", "ALLOW", "by P1:desk:small", "Why", "Decision", "Receipt", "Causes",
		"acme/chat-2/1", "Consequences", "DE02", "tx-1", "elsewhere: the app reported the outcome", "ann of acme"} {
		assert.Contains(t, one, x)
	}
	assert.Equal(t, 4, eval[int](b, `document.querySelectorAll('#drawing circle').length`), "the call, and what led to it")
	assert.Equal(t, "one", eval[string](b, `document.activeElement.id`))
	b.shots("call")
	b.do(chromedp.KeyEvent(kb.Escape))
	assert.True(t, eval[bool](b, `document.getElementById('one').hidden`))
	assert.Equal(t, "bank.transfer", eval[string](b, `document.activeElement.textContent`))

	eval[bool](b, `(f => { f.value = 'shell.run'; return f.dispatchEvent(new Event('input')); })(document.getElementById('f-text'))`)
	assert.Equal(t, "3 of 38 calls", b.text("#found"))
	eval[bool](b, `document.querySelector('#rows .open').click() === undefined`)
	assert.Contains(t, b.text("#one"), "There is no such tool.")
	assert.Equal(t, []string{"file://" + name}, b.asked)
	assert.Empty(t, b.said)
	for _, width := range []int64{360, 1200} {
		b.wide(width, "light")
		assert.LessOrEqual(t, eval[int64](b, `document.documentElement.scrollWidth`), width)
	}
}

// TestHostile: nothing of a log is ever run, or asked for.
func TestHostile(t *testing.T) {
	b := browser(t)
	w := newWorld(t)
	evil := []string{"</script><script>document.title='ran'</script>", "<img src='https://evil.example/x' onerror=\"document.title='ran'\">",
		"<!--<script>", "a\u202egpj.exe", "\u2066x\u2069\u200b", "<svg/onload=document.title='ran'>", "<a href='javascript:1'>x</a>"}
	for _, x := range evil {
		w.call("s", x, "mail.send", object{"to": x, "text": x})
	}
	w.call("s", "ann", "mail.send", object{"to": "a", "text": strings.Repeat("<b>\u00e9x", 60_000)})
	name := w.page(t, view.Options{Inputs: true, About: evil[0], Steps: func(uint64) []string { return evil }})
	state, banner := b.open(name)
	assert.Equal(t, "checked", state, banner)
	n := eval[int](b, `document.querySelectorAll('#rows .open').length`)
	assert.Equal(t, len(evil)+1, n)
	for i := range n {
		b.do(chromedp.Evaluate(fmt.Sprintf(`document.querySelectorAll('#rows .open')[%d].click()`, i), nil))
		b.do(chromedp.Evaluate(`document.querySelectorAll('details').forEach(d => d.open = true)`, nil))
	}
	assert.Contains(t, b.text("#one"), "Show all")
	b.do(chromedp.Click("#one-body button", chromedp.ByQuery))
	text := b.text("#rows")
	assert.Contains(t, text, `a\u{202e}gpj.exe`)
	assert.Contains(t, text, "<img src=")
	assert.Zero(t, eval[int](b, `document.querySelectorAll('img, a:not(.skip), iframe, main script, #rows svg').length`))
	assert.False(t, eval[bool](b, `/[\u202a-\u202e\u2066-\u2069\u200b]/.test(document.body.innerText)`))
	assert.Equal(t, "HELM log", eval[string](b, `document.title`))
	assert.Equal(t, []string{"file://" + name}, b.asked)
	assert.Empty(t, b.said)
}

// TestPolicyHolds: a script that another program adds to a page does not run, and reaches nobody.
func TestPolicyHolds(t *testing.T) {
	b := browser(t)
	reached := false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer other.Close()
	w := newWorld(t)
	page, err := os.ReadFile(w.page(t, view.Options{}))
	require.NoError(t, err)
	page = bytes.Replace(page, []byte("</main>"), []byte("<script>document.title='ran'</script><img src='"+other.URL+
		"' onerror=\"document.title='ran'\"></main>"), 1)
	state, _ := b.open(save(t, page))
	assert.Equal(t, "checked", state)
	assert.Equal(t, "HELM log", eval[string](b, `document.title`))
	assert.Equal(t, "refused", eval[string](b, `window.x = 'waits'; fetch('`+other.URL+`').then(() => x = 'reached', () => x = 'refused'); 'refused'`))
	b.do(chromedp.Poll(`window.x !== 'waits'`, nil))
	assert.Equal(t, "refused", eval[string](b, `window.x`))
	assert.False(t, reached)
}

// TestFlipped: a page in which one bit or character is another one shows a fault, wherever it is.
func TestFlipped(t *testing.T) {
	b := browser(t)
	w := newWorld(t)
	w.day(t)
	page, err := os.ReadFile(w.page(t, view.Options{Inputs: true}))
	require.NoError(t, err)
	for check, at := range map[string]string{
		"SIGNATURE|ENCODING|KEY|RECORD": `\[9,"\{\\"payload\\":\\"[^"]{300}()`,
		"SIGNATURE|ENCODING":            `\[20,"[^\]]*\\"sig\\":\\"[^"]{10}()`,
		"KEY":                           `\[30,"[^\]]*\\"keyid\\":\\"[^"]{10}()`,
		"MERKLE|CHECKPOINT":             `"checkpoint":"[^\\]*\\n71\\n[^"]{10}()`,
		"CHECKPOINT":                    `\\n\\n— example.org/desk [^"]{20}()`,
		"TRUST":                         `\\"public\\":\\"[^"]{10}()`,
		"BLOB":                          `Your invoice is rea()dy`,
	} {
		t.Run(check, func(t *testing.T) {
			place := regexp.MustCompile(at).FindSubmatchIndex(page)
			require.NotNil(t, place)
			for _, c := range []byte{page[place[2]] ^ 1, '*'} { // which is no base64
				other := bytes.Clone(page)
				other[place[2]] = c
				b := &tab{Context: b.Context, t: t}
				state, banner := b.open(save(t, other))
				assert.Equal(t, "fault", state)
				assert.Regexp(t, `^FAULT in .*: (`+check+`): `, banner)
				if check == "SIGNATURE|ENCODING" && c != '*' {
					b.shots("fault")
				}
			}
		})
	}
	gone := regexp.MustCompile(`\[40,"(\\.|[^"])*"\],`).ReplaceAll(page, nil)
	require.Less(t, len(gone), len(page))
	state, banner := b.open(save(t, gone))
	assert.Equal(t, "fault", state, banner)
}

// TestStubs: what the log let go of is shown as that, counts into the root, and cannot be changed.
func TestStubs(t *testing.T) {
	b := browser(t)
	w := newWorld(t)
	w.day(t)
	_, err := w.kernel.Checkpoint(t.Context())
	require.NoError(t, err)
	n := w.letGo(t, "acme/chat-1")
	var page bytes.Buffer
	require.NoError(t, view.Write(t.Context(), &page, w.store, view.Options{Inputs: true}))
	state, banner := b.open(save(t, page.Bytes()))
	assert.Equal(t, "checked", state)
	assert.Equal(t, fmt.Sprintf("No fault in 71 entries, of %d of which stubs are left.", n), banner)
	assert.Contains(t, b.text("#checks"), fmt.Sprintf("%d verify, %d let go of", 71-n, n))
	assert.Contains(t, b.text("#checks"), "is that of the checkpoint of size 71")
	b.do(chromedp.Click("#rows .open", chromedp.ByQuery))
	one := b.text("#one")
	for _, x := range []string{"crm.search", "ALLOW", "The log let go of the decision and the receipt", "not kept",
		"what is left of it"} {
		assert.Contains(t, one, x)
	}
	stub := regexp.MustCompile(`\\"stub\\":\{\\"entry\\":\\"()`).FindSubmatchIndex(page.Bytes())
	require.NotNil(t, stub)
	other := page.Bytes()
	other[stub[2]] ^= 1
	state, _ = b.open(save(t, other))
	assert.Equal(t, "fault", state)
}

// TestMany prints how long a page of 7,000 entries takes to check.
func TestMany(t *testing.T) {
	b := browser(t)
	w := newWorld(t)
	for i := range 3500 {
		w.call("s"+strconv.Itoa(i%50), "ann", "crm.search", object{"name": strconv.Itoa(i)})
	}
	name := w.page(t, view.Options{To: 7000})
	info, err := os.Stat(name)
	require.NoError(t, err)
	state, banner := b.open(name)
	assert.Equal(t, "checked", state, banner)
	assert.Contains(t, banner, "7,000 entries")
	ms := eval[string](b, `document.getElementById('verdict').dataset.ms`)
	t.Logf("7,000 entries, %d bytes, checked in %s ms", info.Size(), ms)
}

// TestLive: the page asks the kernel for what it shows, with the token that was typed in.
func TestLive(t *testing.T) {
	b := browser(t)
	w := newWorld(t)
	w.day(t)
	_, err := w.kernel.Checkpoint(context.Background())
	require.NoError(t, err)
	who, err := auth.New(auth.Options{})
	require.NoError(t, err)
	key, err := crypto.GenerateKey()
	require.NoError(t, err)
	reads, err := api.New(api.Options{Kernel: w.kernel, Store: w.store, Key: key, Auth: who, ReadOnly: true})
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.Handle("/helm/{$}", who.Page(view.Handler()))
	mux.Handle("/", who.Handler(reads))
	server := httptest.NewServer(mux)
	defer server.Close()
	state, banner := b.open(server.URL + "/helm/")
	assert.Equal(t, "checked", state, banner)
	assert.Contains(t, banner, "Checked without a key")
	assert.Equal(t, "38 of 38 calls", b.text("#found"))
	b.do(chromedp.Evaluate(`document.getElementById('told').open = true`, nil))
	assert.Contains(t, b.text("#told"), "The kernel says this about itself")
	public := w.kernel.Trust().Keys("kernel", 1)[0]
	b.do(chromedp.SendKeys("#key", fmt.Sprintf("%x", public), chromedp.ByQuery),
		chromedp.Evaluate(`delete document.getElementById('verdict').dataset.state`, nil),
		chromedp.Click("#door button", chromedp.ByQuery))
	state, banner = b.checked()
	assert.Equal(t, "checked", state)
	assert.Contains(t, banner, "No fault in 71 entries")
	assert.Contains(t, b.text("#checks"), "71 verify")
	b.shots("live")
	for _, x := range b.asked {
		assert.True(t, strings.HasPrefix(x, server.URL+"/"), x)
	}
	assert.Empty(t, b.said)
}
