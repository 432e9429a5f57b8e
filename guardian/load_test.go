package guardian

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
)

// A good bundle, of which each case below spoils one thing. Keys are in the order that is
// canonical, so that places can be told.
const good = `{
	"bundle": {"name": "b", "version": 1},
	"expires": "2099-01-01T00:00:00Z",
	"helm": "policy/v1",
	"layer": "P1",
	"lists": {"names": ["x", "y"], "sums": [1, 2]},
	"rules": [
		{"id": "one", "deny": "t", "when": {"arg": "/s", "eq": "a"}},
		{"id": "two", "allow": ["t", "u"]}
	],
	"tools": {
		"t": {
			"effect": "write", "risk": "high",
			"input": {"type": "object", "required": ["s", "n", "l", "path", "rows"], "properties": {
				"s": {"type": "string"}, "n": {"type": "number"}, "l": {"type": "array", "items": {"type": "string"}}, "o": {"type": "string"},
				"path": {"type": "string"}, "b": {"type": "boolean"}, "x": {"type": ["string", "null"]},
				"rows": {"type": "array", "items": {"type": "object", "required": ["to"], "properties": {"to": {"type": "string"}, "cc": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}}}}}},
			"output": {"type": "object"},
			"scope": [{"arg": "/path", "within": "/srv"}, {"arg": "/rows/*/to", "email": "corp.com"}],
			"limits": {"timeout": "10s", "output": "64KiB", "args": "1MiB"}
		},
		"u": {"effect": "read", "input": {"type": "object", "properties": {}}}
	}
}`

const goodWhen = `{"arg": "/s", "eq": "a"}`

type refusal struct {
	old, new string // in good
	at       string // pointer of the error
	says     string // parts, divided by |
}

// when puts a predicate into a deny rule about t.
func when(pred, at, says string) refusal { return refusal{goodWhen, pred, "/rules/0/when" + at, says} }

var refusals = []refusal{
	// The document.
	{`"helm": "policy/v1"`, `"helm": "policy/v2"`, "/helm", `"policy/v2"|policy/v1`},
	{`"helm": "policy/v1",`, ``, "", "no helm|add helm"},
	{`"layer": "P1",`, ``, "", "no layer"},
	{`"layer": "P1"`, `"layer": "P3"`, "/layer", "P0, P1, P2|did you mean"},
	{`"layer": "P1"`, `"layer": 1`, "/layer", "a number"},
	{`"bundle": {"name": "b", "version": 1}`, `"bundle": {"name": "b"}`, "/bundle", "no version"},
	{`"bundle": {"name": "b", "version": 1}`, `"bundle": {"version": 1}`, "/bundle", "no name"},
	{`"bundle": {"name": "b", "version": 1}`, `"bundle": {"name": "b", "version": 0}`, "/bundle/version",
		"integer from 1"},
	{`"bundle": {"name": "b", "version": 1}`, `"bundle": {"name": "b", "version": "1"}`, "/bundle/version",
		"integer from 1"},
	{`"bundle": {"name": "b", "version": 1}`, `"bundle": {"name": "b", "version": 1.5}`, "/bundle/version",
		"integer from 1"},
	{`"bundle": {"name": "b", "version": 1}`, `"bundle": {"name": "b:c", "version": 1}`, "/bundle/name", `"b:c"`},
	{`"bundle": {"name": "b", "version": 1}`, `"bundle": {"name": "b", "version": 1, "owner": "x"}`, "/bundle/owner",
		"unknown key"},
	{`"bundle": {"name": "b", "version": 1}`, `"bundle": "b"`, "/bundle", "not an object"},
	{`"expires"`, `"expire"`, "/expire", `unknown key "expire"|did you mean expires?`},
	{`"2099-01-01T00:00:00Z"`, `"2099-01-01"`, "/expires", "RFC 3339"},
	{`"2099-01-01T00:00:00Z"`, `"1969-01-01T00:00:00Z"`, "/expires", "RFC 3339"},
	{`"2099-01-01T00:00:00Z"`, `"1970-01-01T00:00:00Z"`, "/expires", "RFC 3339"},
	{`"2099-01-01T00:00:00Z"`, `4070908800`, "/expires", "a number|quote it"},
	{`"bundle": {"name": "b", "version": 1}`, `"bundel": {"name": "b", "version": 1}`, "/bundel",
		`unknown key "bundel"|did you mean bundle?`},
	{`"bundle": {"name": "b", "version": 1}`, `"bundle": {"Name": "b", "version": 1}`, "/bundle/Name",
		"did you mean name?"},
	{`"helm": "policy/v1"`, `"hlem": "policy/v1"`, "/hlem", "did you mean helm?"},
	{`"layer": "P1"`, `"Layer": "P1"`, "/Layer", "did you mean layer?"},
	{`"layer": "P1"`, `"layer": "P1", "budget": []`, "/budget", "did you mean budgets?"},
	{`"layer": "P1"`, `"layer": "P1", "name": "x"`, "/name", "unknown key"},
	{`"tools"`, `"tool"`, "/tool", "did you mean tools?"},
	{`"rules": [`, `"rules": {}, "lists2": [`, "/lists2", "unknown key"},

	// Lists.
	{`"names": ["x", "y"]`, `"names": []`, "/lists/names", "1 to 10000"},
	{`"names": ["x", "y"]`, `"names": "x"`, "/lists/names", "list"},
	{`"names": ["x", "y"]`, `"names": ["x", 1]`, "/lists/names/1", "strings only"},
	{`"names": ["x", "y"]`, `"names": [true]`, "/lists/names/0", "a boolean"},
	{`"names": ["x", "y"]`, `"a b": ["x"]`, "/lists/a b", "no name of a list"},

	// Tools.
	{`"effect": "write"`, `"effect": "wirte"`, "/tools/t/effect", "read, write, destructive"},
	{`"effect": "write",`, ``, "/tools/t", "no effect"},
	{`"effect": "write"`, `"efect": "write"`, "/tools/t/efect", "did you mean effect?"},
	{`"risk": "high"`, `"risk": "huge"`, "/tools/t/risk", "low, medium, high"},
	{`"risk": "high"`, `"rsik": "high"`, "/tools/t/rsik", "did you mean risk?"},
	{`"u": {"effect": "read",`, `"u v": {"effect": "read",`, "/tools/u v", "no name of a tool"},
	{`"10s"`, `"10"`, "/tools/t/limits/timeout", "5s, 10m, 24h or 7d"},
	{`"10s"`, `"0s"`, "/tools/t/limits/timeout", "duration"},
	{`"10s"`, `"-1s"`, "/tools/t/limits/timeout", "duration"},
	{`"10s"`, `10`, "/tools/t/limits/timeout", "a number is no duration|5s, 10m, 24h or 7d"},
	{`"64KiB"`, `"64KB"`, "/tools/t/limits/output", "64KiB or 1MiB"},
	{`"64KiB"`, `65536`, "/tools/t/limits/output", "a number is no size|64KiB or 1MiB"},
	{`"1MiB"`, `"0MiB"`, "/tools/t/limits/args", "size"},
	{`"timeout"`, `"time"`, "/tools/t/limits/time", "unknown key"},
	{`"output": {"type": "object"}`, `"output": {"type": "objekt"}`, "/tools/t/output/type", ""},
	{`"s": {"type": "string"}, "n"`, `"s": {"typ": "string"}, "n"`, "/tools/t/input/properties/s/typ", "typ"},
	{`"input": {"type": "object", "properties": {}}`, `"input": {"type": "string"}`, "/tools/u/input", "object"},
	{`, "input": {"type": "object", "properties": {}}`, ``, "/tools/u", "no input"},
	{`"u": {"effect": "read", "input": {"type": "object", "properties": {}}}`, `"u": []`, "/tools/u", "not an object"},

	// Scope.
	{`{"arg": "/path", "within": "/srv"}`, `{"arg": "/pth", "within": "/srv"}`, "/tools/t/scope/0/arg",
		`no "/pth" in the input of t`},
	{`{"arg": "/path", "within": "/srv"}`, `{"within": "/srv"}`, "/tools/t/scope/0", "no arg"},
	{`{"arg": "/path", "within": "/srv"}`, `{"arg": "/path"}`, "/tools/t/scope/0", "no operator|within, url"},
	{`{"arg": "/path", "within": "/srv"}`, `{"arg": "/path", "prefix": "/srv"}`, "/tools/t/scope/0/prefix",
		"unknown key"},
	{`{"arg": "/path", "within": "/srv"}`, `{"arg": "/path", "within": "/srv", "host": "a"}`, "/tools/t/scope/0/host",
		"two operators"},
	{`{"arg": "/path", "within": "/srv"}`, `{"arg": "/path", "within": "/srv", "absent": false}`,
		"/tools/t/scope/0/absent", "never missing|remove absent"},
	{`{"arg": "/path", "within": "/srv"}`, `{"arg": "/o", "within": "/srv"}`, "/tools/t/scope/0",
		"may be missing|absent: true or absent: false"},
	{`{"arg": "/path", "within": "/srv"}`, `{"arg": "/rows/*/cc", "email": "corp.com"}`, "/tools/t/scope/0",
		"may be missing"},
	{`{"arg": "/path", "within": "/srv"}`, `{"arg": "/n", "within": "/srv"}`, "/tools/t/scope/0/within", "number"},
	{`{"arg": "/path", "within": "/srv"}`, `{"arg": "/path", "within": []}`, "/tools/t/scope/0/within", "1 to"},
	{`{"arg": "/path", "within": "/srv"}`, `{"arg": "/path/*", "within": "/srv"}`, "/tools/t/scope/0/arg", ""},
	{`[{"arg": "/path", "within": "/srv"}, {"arg": "/rows/*/to", "email": "corp.com"}]`, `[]`, "/tools/t/scope",
		"1 to 64"},
	{`[{"arg": "/path", "within": "/srv"}, {"arg": "/rows/*/to", "email": "corp.com"}]`,
		`{"arg": "/path", "within": "/srv"}`, "/tools/t/scope", "list"},

	// Rules.
	{`{"id": "one", `, `{`, "/rules/0", "no id"},
	{`"id": "one"`, `"Id": "one"`, "/rules/0/Id", `unknown key "Id"|did you mean id?`},
	{`"id": "one"`, `"id": "one", "requires": []`, "/rules/0/requires", `unknown key "requires"`},
	{`"id": "one"`, `"id": "one", "budgets": []`, "/rules/0/budgets", `unknown key "budgets"`},
	{`"id": "one"`, `"id": "two"`, "/rules/1/id", `a second rule of id "two"`},
	{`"id": "one"`, `"id": "expires"`, "/rules/0/id", "reserved"},
	{`"id": "one"`, `"id": "only"`, "/rules/0/id", "reserved"},
	{`"id": "one"`, `"id": "scope"`, "/rules/0/id", "reserved"},
	{`"id": "one"`, `"id": "ceilings"`, "/rules/0/id", "reserved"},
	{`"id": "one"`, `"id": "a:b"`, "/rules/0/id", `"a:b"`},
	{`"deny": "t", "when"`, `"when"`, "/rules/0", "allow and deny"},
	{`"deny": "t", "when"`, `"deny": "t", "allow": "t", "when"`, "/rules/0", "allow and deny"},
	{`"deny": "t", "when"`, `"deney": "t", "when"`, "/rules/0/deney", "did you mean deny?"},
	{`"deny": "t", "when"`, `"deny": "v", "when"`, "/rules/0/deny", `no tool "v"|did you mean t?`},
	{`"deny": "t", "when"`, `"deny": "v*", "when"`, "/rules/0/deny", "covers no tool"},
	{`"deny": "t", "when"`, `"deny": "*t", "when"`, "/rules/0/deny", `no tool "*t"`},
	{`"deny": "t", "when"`, `"deny": "t**", "when"`, "/rules/0/deny", "one * at the end"},
	{`"deny": "t", "when"`, `"deny": [], "when"`, "/rules/0/deny", "empty"},
	{`"deny": "t", "when"`, `"deny": ["t", "t"], "when"`, "/rules/0/deny/1", "twice"},
	{`"deny": "t", "when"`, `"deny": 5, "when"`, "/rules/0/deny", "not a string"},
	{`"deny": "t", "when"`, `"deny": {"egress": true}, "when"`, "/rules/0/deny", "P0 and P2"},
	{`"allow": ["t", "u"]`, `"allow": "*"`, "/rules/1/allow", "allow takes exact names"},
	{`"allow": ["t", "u"]`, `"allow": ["t", "u*"]`, "/rules/1/allow/1", "allow takes exact names"},
	{`"allow": ["t", "u"]`, `"allow": ["t", "T"]`, "/rules/1/allow/1", `no tool "T"`},
	// a pointer must exist in every tool matched
	{`"deny": "t", "when"`, `"deny": "*", "when"`, "/rules/0/when/arg", `no "/s" in the input of u`},

	// Predicates as such.
	when(`"x"`, "", "not a predicate"),
	when(`{}`, "", "no operator"),
	when(`{"all": []}`, "/all", "1 to 64"),
	when(`{"all": {"arg": "/s", "eq": "a"}}`, "/all", "list"),
	when(`{"any": [`+strings.Repeat(goodWhen+",", 64)+goodWhen+`]}`, "/any", "1 to 64"),
	when(`{"all": [{"arg": "/s", "eq": "a"}], "any": [{"arg": "/s", "eq": "a"}]}`, "/any", "unknown key"),
	when(`{"not": {"arg": "/s", "eq": "a"}, "absent": true}`, "/absent", "unknown key"),
	when(strings.Repeat(`{"not": `, 8)+goodWhen+strings.Repeat(`}`, 8), strings.Repeat("/not", 8), "more than 8 deep"),
	when(`{"arg": "/s"}`, "", "no operator"),
	when(`{"eq": "a"}`, "", "no subject"),
	when(`{"arg": "/s", "caller": "id", "eq": "a"}`, "/caller", "two subjects"),
	when(`{"arg": "/s", "eq": "a", "ne": "b"}`, "/ne", "two operators"),
	when(`{"arg": "/s", "equals": "a"}`, "/equals", `unknown key "equals"|did you mean eq?`),
	when(`{"arg": "/s", "contains": "a"}`, "/contains", "did you mean finds?"),
	when(`{"arg": "/s", "startsWith": "a"}`, "/startsWith", "did you mean prefix?"),
	when(`{"arg": "/s", "ends_with": "a"}`, "/ends_with", "did you mean suffix?"),
	when(`{"arg": "/s", "matches": "a"}`, "/matches", "did you mean regex?"),
	when(`{"and": [`+goodWhen+`]}`, "/and", "did you mean all?"),
	when(`{"or": [`+goodWhen+`]}`, "/or", "did you mean any?"),
	when(`{"alll": [`+goodWhen+`]}`, "/alll", "did you mean all?"),
	when(`{"evry": "/l", "that": {"eq": "a"}}`, "/evry", "did you mean every?"),
	when(`{"everyy": "/l", "that": {"alll": []}}`, "/everyy", "did you mean every?"),
	when(`{"tool": "t"}`, "/tool",
		"write one of all, any, not, every, some, count, arg, caller, session, time, receipt"),
	when(`{}`, "", "write one of all, any, not, every, some, count, arg, caller, session, time, receipt"),
	when(`{"every": "/l", "that": {"tool": "t"}}`, "/that/tool",
		"write one of eq, ne, |exists, all, any, not, arg, item, caller, time"),
	when(`{"every": "/l", "that": {"not": {"tool": "t"}}}`, "/that/not/tool",
		"write one of all, any, not, arg, item, caller, time"),
	when(`{"caller": "roles", "role": "t"}`, "/role", "write one of eq, ne, in, not_in, prefix, has"),
	when(`{"time": "utc", "between": "t"}`, "/between", "write one of in"),
	when(`{"arg": "/s", "prefx": "a"}`, "/prefx", "did you mean prefix?"),
	when(`{"arg": "/s", "EQ": "a"}`, "/EQ", "did you mean eq?"),
	when(`{"arg": "/z", "eq": "a"}`, "/arg", `no "/z" in the input of t`),
	when(`{"arg": "s", "eq": "a"}`, "/arg", "no JSON Pointer"),
	when(`{"arg": "/~2", "eq": "a"}`, "/arg", "no JSON Pointer"),
	when(`{"arg": 5, "eq": "a"}`, "/arg", "not a string"),
	when(`{"arg": "/l/*", "eq": "a"}`, "/arg", "use every, some or count"),
	when(`{"item": "", "eq": "a"}`, "/item", "outside of every"),
	when(`{"arg": "/o", "eq": "a"}`, "", "may be missing or null"),
	when(`{"arg": "/x", "eq": "a", "absent": "no"}`, "/absent", "true or false"),
	when(`{"arg": "/s", "eq": "a", "absent": true}`, "/absent", "never missing"),
	when(`{"arg": "/s", "exists": true}`, "/exists", "never missing"),
	when(`{"arg": "/o", "exists": true, "absent": true}`, "/absent", "remove absent"),
	when(`{"arg": "/o", "exists": "yes"}`, "/exists", "true or false"),
	when(`{"arg": "/l/0", "eq": "a"}`, "", "may be missing"),

	// Operands.
	when(`{"arg": "/s", "eq": 1}`, "/eq", "takes number|string"),
	when(`{"arg": "/n", "eq": "1"}`, "/eq", "takes string|number"),
	when(`{"arg": "/s", "eq": null}`, "/eq", "not null"),
	when(`{"arg": "/s", "eq": ["a"]}`, "/eq", "not an array"),
	when(`{"arg": "/l", "eq": "a"}`, "/eq", "array"),
	when(`{"arg": "/s", "lt": 5}`, "/lt", "number"),
	when(`{"arg": "/n", "lt": "5"}`, "/lt", "not a string"),
	when(`{"arg": "/s", "in": "a"}`, "/in", "list"),
	when(`{"arg": "/s", "in": []}`, "/in", "1 to 10000"),
	when(`{"arg": "/s", "in": ["a", 1]}`, "/in/1", "strings only, or numbers only"),
	when(`{"arg": "/b", "in": [true], "absent": true}`, "/in/0", "a boolean"),
	when(`{"arg": "/s", "in": [1, 2]}`, "/in", "number"),
	when(`{"arg": "/s", "in": {"list": "name"}}`, "/in/list", `no list "name"`),
	when(`{"arg": "/s", "in": {"list": "sums"}}`, "/in", "number"),
	when(`{"arg": "/s", "in": {"arg": "/o"}}`, "/in/arg", "unknown key"),
	when(`{"arg": "/s", "eq": {"list": "names"}}`, "/eq/list", "unknown key"),
	when(`{"arg": "/s", "eq": {"arg": "/n"}}`, "/eq", "number"),
	when(`{"arg": "/s", "eq": {"arg": "/z"}}`, "/eq/arg", `no "/z"`),
	when(`{"arg": "/s", "eq": {"arg": "/o"}}`, "", "may be missing"),
	when(`{"arg": "/s", "eq": {"caller": "id"}}`, "", "may be missing"),
	when(`{"arg": "/s", "eq": {"caller": "roles"}, "absent": true}`, "/eq/caller", "id, tenant"),
	when(`{"arg": "/n", "gt": {"caller": "id"}, "absent": true}`, "/gt", "string"),
	when(`{"arg": "/s", "eq": {"arg": "/s", "caller": "id"}}`, "/eq", "neither or both"),
	when(`{"arg": "/s", "prefix": ""}`, "/prefix", "empty"),
	when(`{"arg": "/s", "prefix": ["a"]}`, "/prefix", "not a string"),
	when(`{"arg": "/n", "prefix": "a"}`, "/prefix", "string|number"),
	when(`{"arg": "/s", "prefix": {"arg": "/s"}}`, "/prefix", "not a string"),
	when(`{"arg": "/s", "regex": "a("}`, "/regex", "RE2"),
	when(`{"arg": "/s", "regex": "a)|(b"}`, "/regex", "RE2"),
	when(`{"arg": "/s", "regex": "(?=a)"}`, "/regex", "RE2"),
	when(`{"arg": "/s", "regex": "`+strings.Repeat("a", 1025)+`"}`, "/regex", "1024"),
	when(`{"arg": "/s", "within": "srv"}`, "/within", "absolute path"),
	when(`{"arg": "/s", "within": ["/srv", "/srv/../x"]}`, "/within/1", "absolute path"),
	when(`{"arg": "/s", "within": "/srv/"}`, "/within", "absolute path"),
	when(`{"arg": "/s", "within": {"list": "names"}}`, "/within", "not a string"),
	when(`{"arg": "/s", "url": "corp.com/"}`, "/url", "https://host/path/"),
	when(`{"arg": "/s", "url": "https://u@corp.com/"}`, "/url", "https://host/path/"),
	when(`{"arg": "/s", "url": "https://corp.com/?a=b"}`, "/url", "https://host/path/"),
	when(`{"arg": "/s", "url": "https://corp.com/#a"}`, "/url", "https://host/path/"),
	when(`{"arg": "/s", "host": "https://corp.com"}`, "/host", "host name"),
	when(`{"arg": "/s", "host": "*corp.com"}`, "/host", "host name"),
	when(`{"arg": "/s", "host": "*"}`, "/host", "host name"),
	when(`{"arg": "/s", "host": "*.10.0.0.1"}`, "/host", "host name"),
	when(`{"arg": "/s", "email": "*.corp.com"}`, "/email", "domain"),
	when(`{"arg": "/s", "email": "Ann <a@corp.com>"}`, "/email", "domain"),
	when(`{"arg": "/s", "cidr": "10.0.0.1"}`, "/cidr", "network"),
	when(`{"arg": "/s", "cidr": "10.0.0.1/8"}`, "/cidr", "network"),
	when(`{"arg": "/s", "cidr": "::ffff:10.0.0.0/104"}`, "/cidr", "network"),
	when(`{"arg": "/s", "age_le": "1 h"}`, "/age_le", "duration"),
	when(`{"arg": "/s", "age_le": "1w"}`, "/age_le", "duration"),
	when(`{"arg": "/s", "age_le": 5}`, "/age_le", "a number is no duration"),
	when(`{"arg": "/s", "type": "text"}`, "/type", "string, number"),
	when(`{"arg": "/s", "type": "null"}`, "/type", "string, number"),
	when(`{"arg": "/s", "type": "number"}`, "/type", "string"),
	when(`{"arg": "/s", "has": "a"}`, "/has", "roles"),
	when(`{"arg": "/s", "eq": "a", "fold": false}`, "/fold", "remove fold"),
	when(`{"arg": "/n", "eq": 1, "fold": true}`, "/eq", "fold"),
	when(`{"arg": "/n", "in": [1], "fold": true}`, "/in", "fold"),
	when(`{"arg": "/s", "regex": "a", "fold": true}`, "/fold", "fold: true is for"),

	// Subjects other than the arguments.
	when(`{"caller": "name", "eq": "a", "absent": true}`, "/caller", "id, tenant, roles"),
	when(`{"caller": "id", "eq": "a"}`, "", "may be missing"),
	when(`{"caller": "id", "suffix": "a", "absent": true}`, "/caller", "does not take suffix"),
	when(`{"caller": "id", "has": "a"}`, "/caller", "does not take has"),
	when(`{"caller": "roles", "in": ["a"]}`, "/caller", "use one of has"),
	when(`{"caller": "roles", "has": "a", "absent": true}`, "/absent", "never missing"),
	when(`{"caller": "roles", "has": ["a"]}`, "/has", "not a string"),
	when(`{"caller": "id", "eq": 5, "absent": true}`, "/eq", "string"),
	when(`{"time": "local", "in": ["Mon 08:00-09:00"]}`, "/time", "utc"),
	when(`{"time": "utc", "eq": "Mon 08:00-09:00"}`, "/eq", "in alone"),
	when(`{"time": "utc", "in": ["Mo 08:00-09:00"]}`, "/in/0", "window"),
	when(`{"time": "utc", "in": ["Mon 08:00-25:00"]}`, "/in/0", "window"),
	when(`{"time": "utc", "in": ["Mon 09:00-09:00"]}`, "/in/0", "window"),
	when(`{"time": "utc", "in": ["Mon 22:00-06:00"]}`, "/in/0", "within one day"),
	when(`{"time": "utc", "in": ["08:00-09:00"]}`, "/in/0", "window"),
	when(`{"time": "utc", "in": []}`, "/in", "1 to"),
	when(`{"time": "utc", "in": ["Mon 08:00-09:00"], "absent": true}`, "/absent", "never missing"),

	// Quantifiers.
	when(`{"every": "/s", "that": {"eq": "a"}}`, "/every", "never an array"),
	when(`{"every": "/rows/*/to", "that": {"eq": "a"}}`, "/every", "never an array"),
	when(`{"every": "/l"}`, "", "every without that"),
	when(`{"every": "/l", "that": {"eq": 5}}`, "/that/eq", "number"),
	when(`{"every": "/l", "that": {"eq": "a", "absent": true}}`, "/that/absent", "never missing"),
	when(`{"every": "/l", "that": {"item": "/x", "eq": "a"}}`, "/that/item", `no "/l/*/x"`),
	when(`{"every": "/l", "that": {"all": [{"eq": "a"}]}}`, "/that/all/0", `item: ""`),
	when(`{"every": "/rows", "that": {"item": "/cc", "eq": "a"}}`, "/that", "may be missing"),
	when(`{"every": "/rows", "that": {"item": "/to", "eq": "a", "absent": false}}`, "/that/absent", "never missing"),
	when(`{"every": "/rows", "that": {"some": "/l", "that": {"eq": "a"}}}`, "/that/some", "inside another"),
	when(`{"every": "/l", "that": {"eq": "a"}, "gt": 1}`, "/gt", "unknown key"),
	when(`{"every": "/l", "that": {"eq": "a"}, "absent": true}`, "/absent", "never missing"),
	when(`{"count": "/l"}`, "", "no operator"),
	when(`{"count": "/l", "gt": "1"}`, "/gt", "number"),
	when(`{"count": "/l", "gt": 1, "lt": 5}`, "/gt", "two operators"),
	when(`{"count": "/l", "gt": {"arg": "/s"}}`, "/gt", "number"),
	when(`{"count": "/rows/*/tags", "gt": 1, "absent": true}`, "/count", "make them required"),
	when(`{"some": "/rows/*/tags", "that": {"eq": "a"}}`, "", "may be missing"),
	when(`{"some": "/s/*/tags", "that": {"eq": "a"}}`, "/some", ""),

	// Traps.
	when(`{"not": {"arg": "/s", "finds": "a"}}`, "/not/finds", "use regex"),
	when(`{"count": "/l", "lt": 2, "that": {"finds": "a"}}`, "/that/finds", "use regex"),
	when(`{"count": "/l", "eq": 2, "that": {"finds": "a"}}`, "/that/finds", "use regex"),
	{`"when": {"arg": "/s", "eq": "a"}`, `"unless": {"arg": "/s", "finds": "a"}`, "/rules/0/unless/finds", "use regex"},
	{`"allow": ["t", "u"]`, `"allow": "t", "when": {"arg": "/s", "finds": "a"}`, "/rules/1/when/finds", "use regex"},
	{`"allow": ["t", "u"]`, `"allow": "t", "when": {"every": "/l", "that": {"finds": "a"}}`, "/rules/1/when/that/finds",
		"use regex"},
	{`"allow": ["t", "u"]`, `"allow": "t", "unless": {"not": {"arg": "/s", "finds": "a"}}`, "/rules/1/unless/not/finds",
		"use regex"},
	when(`{"arg": "/path", "prefix": "/srv"}`, "/prefix", "within, url, host or email"),
	when(`{"arg": "/path", "suffix": ".txt"}`, "/suffix", "within, url, host or email"),
	when(`{"some": "/rows", "that": {"item": "/to", "suffix": "corp.com"}}`, "/that/suffix",
		"within, url, host or email"),
	when(`{"arg": "/rows/0/to", "suffix": "corp.com", "absent": false}`, "/suffix", "within, url, host or email"),

	// Not supported, by name.
	when(`{"session": "tainted", "eq": true}`, "/session",
		"session: tainted is not supported by this version of helm|remove it"),
	when(`{"session": "labels", "has": "pii"}`, "/session", "session: labels is not supported"),
	when(`{"fact": "payee", "eq": "a"}`, "/fact", "fact is not supported"),
	when(`{"arg": "/s", "from": ["user"]}`, "/from", "from is not supported"),
	when(`{"receipt": "u", "that": {"fact": "payee", "eq": "a"}}`, "/that", "that is not supported"),
	when(`{"arg": "/s", "eq": {"fact": "payee"}}`, "/eq/fact", "fact is not supported"),
	when(`{"arg": "/s", "in": {"fact": "payee"}}`, "/in/fact", "fact is not supported"),
}

// Keys of the format that are refused by name, in a document and in a tool.
func unsupportedKeys() (list []refusal) {
	for key, in := range map[string]string{"for": "P2", "only": "P0 and P2", "profile": "P0", "ceilings": "P0",
		"threat": "P0", "name": "P0 and P2", "version": "P0 and P2"} {
		list = append(list, refusal{`"layer": "P1"`, `"layer": "P1", "` + key + `": {}`, "/" + key,
			"unknown key|remove it: " + key + " is a key of " + in})
	}
	for _, key := range []string{"facts", "threat"} {
		list = append(list, refusal{`"risk": "high"`, `"` + key + `": true`, "/tools/t/" + key,
			key + " is not supported by this version of helm|remove it"})
	}
	return list
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	mustCompile(t, good) // or the refusals would prove nothing
	for _, c := range append(refusals, unsupportedKeys()...) {
		require.Equal(t, 1, strings.Count(good, c.old), "%q is not once in the good document", c.old)
		doc := document(t, "b.yaml", strings.Replace(good, c.old, c.new, 1))
		e := mustRefuse(t, doc)
		if e.Pointer != c.at || e.Document != "b.yaml" {
			t.Errorf("%s\n\tgives %v\n\twant it at %q", c.new, e, c.at)
		}
		for _, part := range strings.Split(c.says, "|") {
			assert.Contains(t, e.Error(), part, "%s\n\tgives %v\n\twhich does not say", c.new, e)
		}
		assert.NotEqual(t, "", e.Remedy, "%v has no remedy", e)
	}
}

// What is refused in a stack as a whole.
func TestStackRefusals(t *testing.T) {
	t.Parallel()
	a := document(t, "a.yaml", bundle("a", toolText("t", ``), ``))
	mustRefuse(t)
	var many []contracts.Document
	for i := range contracts.MaxDocuments + 1 {
		many = append(many, document(t, "", bundle(fmt.Sprint("b", i), toolText(fmt.Sprint("t", i), ``), ``)))
	}
	contains(t, mustRefuse(t, many...).Error(), "65 documents", "1 to 64")
	_, err := Compile(many[1:]...)
	assert.NoError(t, err)
	other := document(t, "b.yaml", bundle("b", toolText("t", ``), ``))
	for _, docs := range [][]contracts.Document{{a, other}, {other, a}} {
		contains(t, mustRefuse(t, docs...).Error(), "b.yaml: /tools/t: ", "bundle a", "one bundle")
	}
	again := document(t, "c.yaml", bundle("a", toolText("u", ``), ``))
	for _, docs := range [][]contracts.Document{{a, again}, {again, a}} {
		contains(t, mustRefuse(t, docs...).Error(), "c.yaml: /bundle/name: ", `second bundle "a"`)
	}
	names := document(t, "d.yaml", bundle("d", toolText("u", ``), `{"id":"x","allow":"t"}`))
	contains(t, mustRefuse(t, a, names).Error(), `no tool "t" in this bundle`)
	pattern := document(t, "e.yaml", bundle("e", toolText("u", ``), `{"id":"x","deny":"t*"}`))
	contains(t, mustRefuse(t, a, pattern).Error(), "covers no tool of this bundle")
}

// A document that is not canonical JSON is none.
func TestNotCanonical(t *testing.T) {
	t.Parallel()
	good := canonical(t, good)
	for name, text := range map[string]string{
		"empty": "", "null": "null", "array": "[]", "cut": string(good[:len(good)-1]), "space": string(good) + "\n",
		"twice": string(good) + string(good),
		"order": `{"layer":"P1","helm":"policy/v1"}`, "number": `{"helm":1.0}`, "duplicate": `{"helm":1,"helm":1}`,
		"bom": "\ufeff" + string(good),
	} {
		if e := mustRefuse(t, contracts.Document{Name: name, Canonical: []byte(text)}); e.Pointer != "" {
			t.Errorf("%s: %v", name, e)
		}
	}
}

// Of several errors the first in the source is reported; without lines, the first in canonical
// order.
func TestFirstError(t *testing.T) {
	t.Parallel()
	text := `{"bundle":{"name":"b","version":1},"helm":"policy/v1","layer":"P1","rules":[{"id":"r","deny":"nope"}],"tools":{"t":{"effect":"bad","input":{"type":"object"}}}}`
	doc := document(t, "p.yaml", text)
	doc.Lines = map[string]contracts.Pos{"": at(1, 1), "/tools": at(4, 1), "/tools/t/effect": at(5, 11),
		"/rules": at(8, 1), "/rules/0/deny": at(9, 5)}
	if e := mustRefuse(t,
		doc); e.Error() !=
		`p.yaml:5:11: /tools/t/effect: "bad" is not one of read, write, destructive; write one of them` {
		t.Error(e)
	}
	doc.Lines["/rules/0/deny"] = contracts.Pos{Line: 2, Column: 5}
	contains(t, mustRefuse(t, doc).Error(), "p.yaml:2:5: /rules/0/deny: ")
	delete(doc.Lines, "/rules/0/deny") // the nearest place around it
	contains(t, mustRefuse(t, doc).Error(), "p.yaml:5:11: ")
	delete(doc.Lines, "/tools/t/effect")
	contains(t, mustRefuse(t, doc).Error(), "p.yaml:4:1: /tools/t/effect: ")
}

func at(line, column int) contracts.Pos { return contracts.Pos{Line: line, Column: column} }

// What docs/POLICY.md says is not checked.
func TestNotChecked(t *testing.T) {
	t.Parallel()
	p := mustCompile(t, bundle("b", toolText("t", `"to":{"type":"string","format":"email"}`, "to"),
		`{"id":"all","allow":"t"}`))
	want{contracts.ReasonAllow, 8, "P1:b:all"}.check(t, p, inputs(t, "t", `{"to":"no address"}`))

	p = mustCompile(t, bundle("b", toolText("t", `"v":{"type":"string","pattern":"b"}`, "v"),
		`{"id":"found","deny":"t","when":{"arg":"/v","finds":"a"}},{"id":"whole","allow":"t","when":{"arg":"/v","regex":"b"}}`))
	want{contracts.ReasonPolicyViolation, 5, "P1:b:found"}.check(t, p, inputs(t, "t", `{"v":"abc"}`))
	// the pattern of the schema is there, the regex is not all
	want{contracts.ReasonNoPolicyDefined, 5, ""}.check(t, p, inputs(t, "t", `{"v":"cbc"}`))
	want{contracts.ReasonAllow, 8, "P1:b:whole"}.check(t, p, inputs(t, "t", `{"v":"b"}`))
	want{contracts.ReasonSchemaViolation, 2, ""}.check(t, p, inputs(t, "t", `{"v":"c"}`))
}
