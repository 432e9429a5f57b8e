package view

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/faces/auth"
)

var (
	//go:embed page.html
	document string
	//go:embed page.css
	style string
	//go:embed page.js
	script string
)

// Policy of the page: what it needs is in it.
const own = "default-src 'none'; base-uri 'none'; form-action 'none'"

// pageOf returns what stands before and after the data of a page, and its policy.
func pageOf(made, connect string) (before, after, policy string) {
	text := strings.Replace(script, "/*@ADVICE*/{}/*ADVICE@*/", advice(), 1)
	policy = own + "; script-src " + hashOf(text) + "; style-src " + hashOf(style) + connect
	before, after, _ = strings.Cut(strings.NewReplacer(
		"@MADE@", made, "@CSP@", policy, "@STYLE@", style, "@SCRIPT@", text).Replace(document), "@DATA@")
	return before, after, policy
}

// hashOf returns a text as a policy names it.
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// advice returns what each reason tells a model, as an object of the script.
func advice() string {
	all := map[contracts.ReasonCode]string{}
	for r := range contracts.Reasons() {
		all[r] = r.Advice()
	}
	b, _ := json.Marshal(all) // with < escaped, so that no text ends the script
	return string(b)
}

// Handler returns the handler of the live page, for Auth.Page. The page has no data in it, so
// everybody who reaches the server may have it; what it asks of the API is let in or refused there.
func Handler() http.Handler {
	before, after, policy := pageOf("live", "; connect-src 'self'")
	page := []byte(before + after)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !auth.Method(w, r, http.MethodGet) {
			return
		}
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", policy+"; frame-ancestors 'none'")
		h.Set("Referrer-Policy", "no-referrer")
		_, _ = w.Write(page) // else the asker is gone
	})
}
