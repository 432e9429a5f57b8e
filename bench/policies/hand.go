package main

import (
	"encoding/json"
	"slices"
	"strings"
)

// arguments are those of all tools, as a host would declare them that has its policy in Go.
type arguments struct {
	Path, Text                        string
	Lines, Files                      *int
	Recursive                         bool
	Repo, Branch                      string
	Force                             bool
	Host, To, Subject, Currency, Note string
	Amount                            int
	records
}

// records are the arguments of tools on records.
type records struct {
	Last, Limit, Rows, ID int
	Table, User, Field    string
	Reason                *string
}

// A handwritten policy is a Go function for each tool.
type handwritten map[string]func(*caller, *arguments) bool

func within(path string, dirs ...string) bool {
	for _, dir := range dirs {
		if rest, ok := strings.CutPrefix(path, dir); ok && (rest == "" || rest[0] == '/') {
			return true
		}
	}
	return false
}

var known = func() map[string]bool {
	set := map[string]bool{}
	for _, p := range payees {
		set[p] = true
	}
	return set
}()

var handRules = handwritten{
	"fs.read": func(c *caller, a *arguments) bool {
		if within(a.Path, "/srv/secrets", "/srv/keys") || a.Lines != nil && *a.Lines > 1000 {
			return false
		}
		return (c.has("clerk") || c.has("dev")) && within(a.Path, "/srv/data", "/srv/work")
	},
	"fs.write": func(c *caller, a *arguments) bool {
		if within(a.Path, "/srv/secrets", "/srv/keys") || strings.HasSuffix(a.Path, ".sh") {
			return false
		}
		return c.has("dev") && within(a.Path, "/srv/work")
	},
	"fs.delete": func(c *caller, a *arguments) bool {
		return !a.Recursive && c.has("maintainer") && within(a.Path, "/srv/work/tmp")
	},
	"git.push": func(c *caller, a *arguments) bool {
		if a.Force || (a.Branch == "main" || a.Branch == "release") && !c.has("maintainer") {
			return false
		}
		return c.has("dev")
	},
	"web.get": func(c *caller, a *arguments) bool {
		if strings.HasSuffix(a.Host, ".internal") || !c.has("clerk") && !c.has("dev") {
			return false
		}
		switch a.Host {
		case "docs.example", "go.dev", "news.example", "wiki.example":
			return true
		}
		return false
	},
	"mail.send": func(c *caller, a *arguments) bool {
		if a.Files != nil && *a.Files > 5 {
			return false
		}
		return (c.has("clerk") || c.has("support")) && strings.HasSuffix(a.To, "@corp.example")
	},
	"pay.send": func(c *caller, a *arguments) bool {
		if a.Amount > 1_000_000 || a.Amount > 100_000 && !c.has("treasurer") || !known[a.To] {
			return false
		}
		return c.has("clerk") && (a.Currency == "EUR" || a.Currency == "USD")
	},
	"pay.list": func(c *caller, a *arguments) bool {
		return a.Last <= 100 && (c.has("clerk") || c.has("auditor"))
	},
	"db.query": func(c *caller, a *arguments) bool {
		if slices.Contains([]string{"users", "tokens", "salaries"}, a.Table) && !c.has("dba") || a.Limit > 10_000 {
			return false
		}
		return c.has("analyst") || c.has("dba")
	},
	"db.update": func(c *caller, a *arguments) bool {
		return !strings.HasPrefix(a.Table, "audit_") && a.Rows <= 100 && c.has("dba")
	},
	"ticket.close": func(c *caller, a *arguments) bool {
		return a.Reason != nil && c.has("support")
	},
	"profile.update": func(c *caller, a *arguments) bool {
		return c.has("hr") || a.Field != "role" && a.User == c.id
	},
}

func handwrittenOf(copies int) loader {
	return func() (engine, error) {
		h := handwritten{}
		for n := range copies {
			for tool, rule := range handRules {
				h[tool+suffix(n)] = rule
			}
		}
		return h, nil
	}
}

func (h handwritten) ready(c *call) (decide, error) {
	a := new(arguments)
	if err := json.Unmarshal(c.args, a); err != nil {
		return nil, err
	}
	return func() (bool, error) {
		rule := h[c.tool]
		return rule != nil && rule(c.caller, a), nil
	}, nil
}

func (h handwritten) fromText(c *call) (decide, error) {
	return func() (bool, error) {
		rule := h[c.tool]
		if rule == nil {
			return false, nil
		}
		var a arguments
		if err := json.Unmarshal(c.args, &a); err != nil {
			return false, err
		}
		return rule(c.caller, &a), nil
	}, nil
}
