package viewtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// A tab is a page in the browser, and what it did.
type tab struct {
	context.Context
	t *testing.T

	mu    sync.Mutex
	asked []string // for which addresses, the page itself included
	said  []string // to the console
}

// browser starts the browser that fetch made ready. Its directory is in HELM_BROWSER.
func browser(t *testing.T) *tab {
	t.Helper()
	dir := os.Getenv("HELM_BROWSER")
	if dir == "" {
		t.Skip("needs a Chromium: make pages fetches it")
	}
	o := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(filepath.Join(dir, "chromium")),
		chromedp.Env("LD_LIBRARY_PATH="+dir+":"+dir+"/lib", "FONTCONFIG_PATH="+dir, "HOME="+t.TempDir()),
		chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck, chromedp.NoSandbox, chromedp.WSURLReadTimeout(time.Minute),
		chromedp.Flag("headless", "shell"), chromedp.Flag("no-zygote", true), chromedp.Flag("use-gl", "angle"),
		chromedp.Flag("use-angle", "swiftshader"), chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("hide-scrollbars", true),
	}
	ctx, stop := chromedp.NewExecAllocator(context.Background(), o...)
	t.Cleanup(stop)
	ctx, end := context.WithTimeout(ctx, 3*time.Minute)
	t.Cleanup(end)
	ctx, leave := chromedp.NewContext(ctx)
	t.Cleanup(leave)
	b := &tab{Context: ctx, t: t}
	chromedp.ListenTarget(ctx, b.hear)
	b.do(network.Enable(), runtime.Enable())
	return b
}

func (b *tab) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch x := event.(type) {
	case *network.EventRequestWillBeSent:
		b.asked = append(b.asked, x.Request.URL)
	case *runtime.EventConsoleAPICalled:
		for _, a := range x.Args {
			b.said = append(b.said, string(a.Value))
		}
	case *runtime.EventExceptionThrown:
		b.said = append(b.said, x.ExceptionDetails.Error())
	}
}

func (b *tab) do(actions ...chromedp.Action) {
	b.t.Helper()
	require.NoError(b.t, chromedp.Run(b, actions...))
}

// open opens a page, and waits until it has checked what it can. It returns what it says then.
func (b *tab) open(address string) (state, banner string) {
	b.t.Helper()
	if !strings.Contains(address, "://") {
		address = "file://" + address
	}
	b.do(chromedp.Navigate(address))
	return b.checked()
}

func (b *tab) checked() (state, banner string) {
	b.t.Helper()
	b.do(chromedp.WaitReady(`#verdict[data-state]`, chromedp.ByQuery),
		chromedp.AttributeValue(`#verdict`, "data-state", &state, nil, chromedp.ByQuery),
		chromedp.Text(`#verdict`, &banner, chromedp.ByQuery))
	return state, banner
}

// text returns what an element shows.
func (b *tab) text(selector string) (s string) {
	b.t.Helper()
	b.do(chromedp.Text(selector, &s, chromedp.ByQuery))
	return s
}

// eval returns the value of an expression.
func eval[T any](b *tab, expression string) (v T) {
	b.t.Helper()
	b.do(chromedp.Evaluate(expression, &v))
	return v
}

// wide sets the width of the window, and the scheme of colours.
func (b *tab) wide(width int64, scheme string) {
	b.t.Helper()
	b.do(emulation.SetDeviceMetricsOverride(width, 800, 1, width < 500),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}))
}

// shots writes pictures of the whole page to the directory in HELM_SHOTS, if there is one.
func (b *tab) shots(name string) {
	b.t.Helper()
	dir := os.Getenv("HELM_SHOTS")
	if dir == "" {
		b.t.Log("no pictures: HELM_SHOTS names no directory")
		return
	}
	require.NoError(b.t, os.MkdirAll(dir, 0o755))
	for _, width := range []int64{360, 1200} {
		for _, scheme := range []string{"light", "dark"} {
			b.wide(width, scheme)
			var picture []byte
			b.do(chromedp.FullScreenshot(&picture, 100))
			file := filepath.Join(dir, fmt.Sprintf("%s-%d-%s.png", name, width, scheme))
			require.NoError(b.t, os.WriteFile(file, picture, 0o644))
		}
	}
}
