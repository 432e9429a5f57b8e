package gates

import (
	"strings"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
)

// Condition 2: the arguments conform to the pinned schema, and name destinations within scope.

const schemaBundle = `
helm: policy/v1
layer: P1
bundle: {name: test, version: 1}
tools:
  move:
    effect: write
    limits: {args: 1KiB}
    input:
      type: object
      required: [path, text]
      properties:
        path: {type: string}
        text: {type: string, minLength: 1, maxLength: 100}
        n:    {type: integer, minimum: 1, default: 1}
        tags: {type: array, maxItems: 3, uniqueItems: true, items: {type: string}}
        as:   {enum: [file, folder]}
        to:   {type: string}
        more: {type: object, properties: {deep: {type: boolean}, note: {type: string}}}
    scope:
      - {arg: /path, within: [/srv/data]}
      - {arg: /to, host: ["*.corp.example"], absent: true}
rules:
  - {id: all, allow: move}
`

func gateArguments() gate {
	const good = `{"path":"/srv/data/a","text":"hi"}`
	stage := func(t *testing.T) *target {
		s := newTarget(t, helm.Intent{Tool: "move", Args: []byte(good), Session: "s"}, []string{schemaBundle})
		s.good.Driver = s.World
		return s
	}
	schema := func(k kind, name, text string) attack {
		return attack{kind: k, name: name, reason: contracts.ReasonSchemaViolation, change: arguments(text)}
	}
	scope := func(k kind, name, text string) attack {
		return attack{kind: k, name: "a destination: " + name, reason: contracts.ReasonDestinationNotAllowed,
			rule: "P1:test:scope", change: arguments(text)}
	}
	with := func(member string) string { return strings.TrimSuffix(good, "}") + "," + member + "}" }
	path := func(p string) string { return `{"path":"` + p + `","text":"hi"}` }
	stricter := strings.NewReplacer("version: 1", "version: 2", "required: [path, text]",
		"required: [path, text, as]").Replace(schemaBundle)
	closer := strings.NewReplacer("version: 1", "version: 2", "[/srv/data]", "[/srv/data/b]").Replace(schemaBundle)
	return gate{name: "2 the arguments", stage: stage, spared: map[kind]string{
		panicking: "a wrapped function whose argument type panics is refused by the kernel itself: TestWrapMisfits",
	}, attacks: []attack{
		schema(omitted, "a required member", `{"path":"/srv/data/a"}`),
		schema(omitted, "all", `{}`),
		schema(emptied, "a text", `{"path":"/srv/data/a","text":""}`),
		schema(null, "a text", `{"path":"/srv/data/a","text":null}`),
		schema(null, "an optional member", with(`"n":null`)),
		schema(retyped, "a number for a text", `{"path":"/srv/data/a","text":1}`),
		schema(retyped, "a text for a number", with(`"n":"1"`)),
		schema(retyped, "a list for a text", `{"path":"/srv/data/a","text":["hi"]}`),
		schema(retyped, "a fraction for a whole number", with(`"n":1.5`)),
		schema(retyped, "a number for a truth value", with(`"more":{"deep":1}`)),
		schema(oversize, "a text", `{"path":"/srv/data/a","text":"`+strings.Repeat("x", 101)+`"}`),
		schema(oversize, "a list", with(`"tags":["a","b","c","d"]`)),
		schema(oversize, "all of it", with(`"more":{"note":"`+strings.Repeat("x", 1024)+`"}`)),
		schema(plain, "a number out of its bounds", with(`"n":0`)),
		schema(plain, "a value that is not among those listed", with(`"as":"link"`)),
		schema(plain, "one thing twice", with(`"tags":["a","a"]`)),
		schema(plain, "a member that nobody declared", with(`"sudo":true`)),
		schema(plain, "one inside an object", with(`"more":{"sudo":true}`)),
		schema(plain, "a member in another spelling", with(`"As":"file"`)),
		{kind: replayed, name: "a call that the next version of the bundle wants more of",
			reason: contracts.ReasonSchemaViolation, do: func(s *target, in helm.Intent) answer {
				s.swapTo(stricter)
				return s.guard(in)
			}, ends: true},
		{kind: raced, name: "a swap between reading and judgement", reason: contracts.ReasonSchemaViolation,
			do: func(s *target, in helm.Intent) answer {
				return s.between(in, func() { s.swapTo(stricter) })
			}, ends: true},
		{kind: elsewhere, name: "what a floor lets arguments be, by a caller who has every role",
			reason: contracts.ReasonSchemaViolation, do: func(s *target, in helm.Intent) answer {
				s.swapTo("helm: policy/v1\nlayer: P0\nname: acme\nversion: 1\nceilings: {depth: 1}\n", schemaBundle)
				in.Caller, in.Args = helm.Caller{ID: "root", Tenant: "acme", Roles: []string{"admin", "owner", "root"}},
					[]byte(with(`"tags":[]`))
				return s.guard(in)
			}},

		scope(plain, "outside", path("/etc/passwd")),
		scope(plain, "by way of its parent", path("/srv/data/../../etc/passwd")),
		scope(plain, "next to it, with the same beginning", path("/srv/data-evil/a")),
		scope(plain, "above it", path("/srv")),
		scope(plain, "relative", path("srv/data/a")),
		scope(plain, "with a backslash", path(`/srv/data\\..\\a`)),
		scope(emptied, "a path", path("")),
		scope(plain, "another host", with(`"to":"evil.example"`)),
		scope(plain, "a host with the right end", with(`"to":"evilcorp.example"`)),
		scope(plain, "the domain itself", with(`"to":"corp.example"`)),
		scope(plain, "a user before the host", with(`"to":"https://a.corp.example@evil.example/"`)),
		scope(plain, "a number that is an address", with(`"to":"2130706433"`)),
		{kind: replayed, name: "a destination that the next version of the bundle lacks",
			reason: contracts.ReasonDestinationNotAllowed, rule: "P1:test:scope",
			do: func(s *target, in helm.Intent) answer {
				s.swapTo(closer)
				return s.guard(in)
			}, ends: true},
		{kind: elsewhere, name: "a destination, by a narrowed kernel", reason: contracts.ReasonDestinationNotAllowed,
			rule: "P1:test:scope", do: func(s *target, in helm.Intent) answer {
				in.Args = []byte(path("/etc"))
				return by(s.task("helm: policy/v1\nlayer: P2\nname: task\nonly: [move]\n"), in)
			}},
	}}
}
