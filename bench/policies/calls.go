package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// A caller makes calls. The host names it; no engine looks it up.
type caller struct {
	id    string
	roles []string // sorted
}

func (c *caller) has(role string) bool { return slices.Contains(c.roles, role) }

var callers = []caller{
	{"ann", []string{"clerk"}},
	{"bob", []string{"clerk", "treasurer"}},
	{"cat", []string{"dev"}},
	{"dan", []string{"dev", "maintainer"}},
	{"eve", []string{"support"}},
	{"fay", []string{"analyst"}},
	{"gus", []string{"analyst", "dba"}},
	{"hal", []string{"hr"}},
	{"ivy", []string{"auditor"}},
	{"joe", nil},
}

// payees are the accounts that may be paid.
var payees = func() (list []string) {
	r := rand.New(rand.NewPCG(4, 7))
	for range 40 {
		list = append(list, fmt.Sprintf("DE%02d%018d", r.IntN(90)+10, r.Int64N(1e18)))
	}
	return list
}()

// policyText returns a policy with the payees filled in, in double quotes, which all of the
// languages have.
func policyText(text string) string {
	return strings.ReplaceAll(text, "$PAYEES", `"`+strings.Join(payees, `", "`)+`"`)
}

// A call is one request, as a host gets it from its model: the arguments are JSON.
type call struct {
	caller *caller
	tool   string
	args   []byte
}

func (c *call) String() string { return c.caller.id + " " + c.tool + " " + string(c.args) }

// A tool describes its calls: arguments at and around the limits of the policy, and roles that
// matter for it.
type tool struct {
	name  string
	roles []string
	args  func(r *rand.Rand, who *caller) map[string]any
}

var tools = []tool{
	{"fs.read", []string{"clerk", "dev"}, func(r *rand.Rand, _ *caller) map[string]any {
		return with(r, map[string]any{"path": path(r)}, "lines", one(r, 1, 200, 300, 1000, 1001))
	}},
	{"fs.write", []string{"dev"}, func(r *rand.Rand, _ *caller) map[string]any {
		return map[string]any{"path": path(r), "text": "Dear all,\n\nthe figures of last week are there."}
	}},
	{"fs.delete", []string{"maintainer"}, func(r *rand.Rand, _ *caller) map[string]any {
		return with(r,
			map[string]any{"path": one(r, path(r), "/srv/work/tmp", "/srv/work/tmp/a.out", "/srv/work/tmp/b.out",
				"/srv/work/tmpfile")}, "recursive", one(r, true, false, false, false))
	}},
	{"git.push", []string{"dev"}, func(r *rand.Rand, _ *caller) map[string]any {
		return map[string]any{"repo": "office/site", "branch": one(r, "main", "release", "fix-4711", "fix-4712",
			"mainline"), "force": one(r, true, false, false, false)}
	}},
	{"web.get", []string{"clerk", "dev"}, func(r *rand.Rand, _ *caller) map[string]any {
		return map[string]any{"host": one(r, "docs.example", "go.dev", "news.example", "wiki.example", "evil.example",
			"wiki.internal"), "path": "/index.html"}
	}},
	{"mail.send", []string{"clerk", "support"}, func(r *rand.Rand, _ *caller) map[string]any {
		to := one(r, "kim@corp.example", "lee@corp.example", "max@corp.example", "kim@corp.example.org",
			"kim@evilcorp.example")
		return with(r, map[string]any{"to": to, "subject": "Friday"}, "files", one(r, 1, 2, 5, 6))
	}},
	{"pay.send", []string{"clerk"}, func(r *rand.Rand, _ *caller) map[string]any {
		to := one(r, payees...)
		if r.IntN(6) == 0 {
			to = "DE00000000000000000000"
		}
		amount := one(r, 1, 250, 4711, 99_999, 100_000, 100_001, 1_000_000, 1_000_001)
		return with(r, map[string]any{"to": to, "amount": amount,
			"currency": one(r, "EUR", "EUR", "EUR", "USD", "USD", "XTS")}, "note", "invoice 4711")
	}},
	{"pay.list", []string{"clerk", "auditor"}, func(r *rand.Rand, _ *caller) map[string]any {
		return map[string]any{"last": one(r, 1, 99, 100, 101)}
	}},
	{"db.query", []string{"analyst", "dba"}, func(r *rand.Rand, _ *caller) map[string]any {
		return map[string]any{"table": one(r, "orders", "users", "tokens", "salaries", "stock"),
			"limit": one(r, 1, 50, 10_000, 10_001)}
	}},
	{"db.update", []string{"dba"}, func(r *rand.Rand, _ *caller) map[string]any {
		return map[string]any{"table": one(r, "orders", "stock", "prices", "audit_log"),
			"rows": one(r, 1, 20, 100, 101)}
	}},
	{"ticket.close", []string{"support"}, func(r *rand.Rand, _ *caller) map[string]any {
		return with(r, map[string]any{"id": one(r, 17, 4711)}, "reason", "answered by mail")
	}},
	{"profile.update", []string{"hr"}, func(r *rand.Rand, who *caller) map[string]any {
		return map[string]any{"user": one(r, who.id, "ann", "joe"), "field": one(r, "phone", "role", "name")}
	}},
}

func one[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// with adds an optional argument to two calls of three.
func with(r *rand.Rand, args map[string]any, key string, value any) map[string]any {
	if r.IntN(3) != 0 {
		args[key] = value
	}
	return args
}

func path(r *rand.Rand) string {
	dir := one(r, "/srv/data", "/srv/work", "/srv/work", "/srv/work", "/srv/work/tmp", "/srv/database", "/srv/secrets",
		"/srv/secretsanta", "/srv/keys")
	return dir + one(r, "", "/report.txt", "/2026/notes.md", "/2026/plan.md", "/run.sh")
}

// suffix is the end of the names of a copy of the tools: a policy of many tools is the same one
// many times.
func suffix(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(".", n)
}

// generate makes calls of all tools, each tool equally often, spread over the copies; one call in
// 25 names a tool that does not exist.
func generate(copies, each int) (calls []call) {
	r := rand.New(rand.NewPCG(1, 2))
	for range each {
		for _, t := range tools {
			who := &callers[r.IntN(len(callers))]
			for r.IntN(8) != 0 && !slices.ContainsFunc(t.roles, who.has) {
				who = &callers[r.IntN(len(callers))]
			}
			args, err := json.Marshal(t.args(r, who))
			if err != nil {
				panic(err) // they are strings, numbers and booleans
			}
			name := t.name + suffix(r.IntN(copies))
			if r.IntN(25) == 0 {
				name = "no.such.tool"
			}
			calls = append(calls, call{who, name, args})
		}
	}
	return calls
}

// hottest is a payment that is allowed: three rules do not deny it, and the last allows it.
func hottest(copies int) call {
	args := fmt.Sprintf(`{"amount":250000,"currency":"EUR","note":"invoice 4711","to":%q}`, payees[len(payees)/2])
	return call{&callers[1], "pay.send" + suffix(copies/2), []byte(args)}
}
