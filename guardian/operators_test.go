package guardian

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
)

// Schemas of /v.
const (
	str    = `{"type":"string"}`
	num    = `{"type":"number"}`
	boole  = `{"type":"boolean"}`
	null   = `{"type":["string","null"]}`
	either = `{"anyOf":[{"type":"string"},{"type":"number"},{"type":"boolean"},{"type":"array","items":{"type":"string"}}]}`
	strs   = `{"type":"array","items":{"type":"string"}}`
	nums   = `{"type":"array","items":{"type":"number"}}`
	rows   = `{"type":"array","items":{"type":"object","required":["to"],"properties":{"to":{"type":"string"},"n":{"type":"number"},"tags":{"type":"array","items":{"type":"string"}}}}}`
	grid   = `{"type":"array","items":{"type":"object","required":["tags"],"properties":{"tags":{"type":"array","items":{"type":"string"}}}}}`
)

// An operator case: what a predicate about /v answers. In answers, y is true, n false, e an error.
type opCase struct {
	pred    string
	schema  string // of /v; with ? before it /v is optional
	answers map[string]string
}

func values(pairs ...string) map[string]string {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

const gone = "(gone)"

var operatorCases = []opCase{
	{`{"arg":"/v","eq":"a"}`, str, values(`"a"`, "y", `"b"`, "n", `"A"`, "n", `"a "`, "n", `"\u0061"`, "y", `""`, "n")},
	{`{"arg":"/v","eq":"\"\n"}`, str, values(`"\"\n"`, "y", `"\u0022\u000a"`, "y", `"\\n"`, "n")},
	{`{"arg":"/v","eq":1}`, num, values(`1`, "y", `1.0`, "y", `1e0`, "y", `2`, "n", `-1`, "n")},
	{`{"arg":"/v","eq":-0}`, num, values(`0`, "y", `0.0`, "y", `-0`, "y")},
	{`{"arg":"/v","eq":true}`, boole, values(`true`, "y", `false`, "n")},
	{`{"arg":"/v","ne":"a"}`, str, values(`"a"`, "n", `"b"`, "y")},
	{`{"arg":"/v","eq":"a"}`, either, values(`"a"`, "y", `"b"`, "n", `1`, "e", `true`, "e", `["a"]`, "e")},
	{`{"arg":"/v","ne":"a"}`, either, values(`"b"`, "y", `1`, "e", `false`, "e", `[]`, "e")},
	{`{"arg":"/v","eq":"a","absent":true}`, "?" + str, values(gone, "y", `"a"`, "y", `"b"`, "n")},
	{`{"arg":"/v","eq":"a","absent":false}`, "?" + str, values(gone, "n", `"a"`, "y")},
	{`{"arg":"/v","ne":"a","absent":true}`, null, values(`null`, "y", `"a"`, "n")},
	{`{"arg":"/v","ne":"a","absent":false}`, null, values(`null`, "n", `"b"`, "y")},
	{`{"arg":"/v","eq":"straße","fold":true}`, str, values(`"STRAßE"`, "y", `"STRASSE"`, "n")},
	{`{"arg":"/v","ne":"Ab","fold":true}`, str, values(`"aB"`, "n", `"b"`, "y", `"\u212ab"`, "y")},
	{`{"arg":"/v","eq":{"arg":"/w"}}`, str, values(`"w"`, "y", `"x"`, "n")},
	{`{"arg":"/v","eq":{"arg":"/w"}}`, either, values(`"w"`, "y", `"x"`, "n", `1`, "e", `["w"]`, "e")},
	{`{"arg":"/v","eq":{"arg":"/W"},"fold":true}`, str, values(`"w"`, "y")},
	{`{"arg":"/v","eq":{"arg":"/o"},"absent":true}`, str, values(`"o"`, "y")},
	{`{"arg":"/v","ne":{"arg":"/o"},"absent":false}`, str, values(`"o"`, "n")},
	{`{"arg":"/v","eq":{"caller":"id"},"absent":false}`, str, values(`"ann"`, "y", `"bob"`, "n")},
	{`{"arg":"/v","eq":{"caller":"tenant"},"absent":false}`, str, values(`"acme"`, "y", `"ann"`, "n")},
	{`{"arg":"/v","lt":{"arg":"/n"}}`, num, values(`6`, "y", `7`, "n")},
	{`{"arg":"/v","ge":{"arg":"/n"}}`, num, values(`6`, "n", `7`, "y")},

	{`{"arg":"/v","in":["a","bb"]}`, str, values(`"a"`, "y", `"bb"`, "y", `"b"`, "n", `"A"`, "n", `""`, "n")},
	{`{"arg":"/v","in":["Ab"],"fold":true}`, str, values(`"aB"`, "y", `"ac"`, "n")},
	{`{"arg":"/v","not_in":["a","bb"]}`, str, values(`"a"`, "n", `"c"`, "y")},
	{`{"arg":"/v","in":[1,2.50]}`, num, values(`1`, "y", `2.5`, "y", `1.0`, "y", `3`, "n")},
	{`{"arg":"/v","in":["a"]}`, either, values(`"a"`, "y", `1`, "e", `["a"]`, "e")},
	{`{"arg":"/v","not_in":["a"]}`, either, values(`"b"`, "y", `1`, "e", `true`, "e")},
	{`{"arg":"/v","in":{"list":"names"}}`, str, values(`"x"`, "y", `"X"`, "n", `"z"`, "n")},
	{`{"arg":"/v","not_in":{"list":"names"},"fold":true}`, str, values(`"X"`, "n", `"z"`, "y")},
	{`{"arg":"/v","in":{"list":"names"},"absent":true}`, "?" + str, values(gone, "y", `"z"`, "n")},

	{`{"arg":"/v","lt":5}`, num, values(`4.999`, "y", `5`, "n", `6`, "n", `-1e300`, "y")},
	{`{"arg":"/v","le":5}`, num, values(`5`, "y", `5.001`, "n")},
	{`{"arg":"/v","gt":5}`, num, values(`5`, "n", `5.001`, "y")},
	{`{"arg":"/v","ge":5}`, num, values(`5`, "y", `4.999`, "n")},
	{`{"arg":"/v","gt":5}`, either, values(`6`, "y", `"6"`, "e", `true`, "e")},
	{`{"arg":"/v","gt":5,"absent":true}`, `{"type":["integer","null"]}`, values(`null`, "y", `6`, "y", `5`, "n")},

	{`{"arg":"/v","prefix":"ab"}`, str, values(`"ab"`, "y", `"abc"`, "y", `"aB"`, "n", `"a"`, "n")},
	{`{"arg":"/v","prefix":"a\n"}`, str, values(`"a\nb"`, "y", `"anb"`, "n", `"a\\nb"`, "n")},
	{`{"arg":"/v","prefix":"ab","fold":true}`, str, values(`"ABC"`, "y", `"cab"`, "n")},
	{`{"arg":"/v","suffix":"n"}`, str, values(`"an"`, "y", `"a\n"`, "n", `"n"`, "y", `""`, "n")},
	{`{"arg":"/v","suffix":".PDF","fold":true}`, str, values(`"x.pdf"`, "y", `"pdf"`, "n")},
	{`{"arg":"/v","prefix":"a"}`, either, values(`"a"`, "y", `1`, "e")},
	{`{"arg":"/v","suffix":"a","absent":false}`, "?" + str, values(gone, "n", `"a"`, "y")},
	{`{"arg":"/v","regex":"a|ab"}`, str, values(`"a"`, "y", `"ab"`, "y", `"abc"`, "n", `"xa"`, "n", `"a\n"`, "n")},
	{`{"arg":"/v","regex":"(?i)a.*"}`, str, values(`"ABC"`, "y", `"A\nB"`, "n")},
	{`{"arg":"/v","regex":"^a$"}`, str, values(`"a"`, "y", `"a\n"`, "n", `"b\na"`, "n")},
	{`{"arg":"/v","regex":"(?m)^a$"}`, str, values(`"a"`, "y", `"b\na"`, "n")},
	{`{"arg":"/v","regex":"[0-9]+"}`, either, values(`"12"`, "y", `12`, "e")},

	{`{"arg":"/v","within":["/srv/data","/tmp"]}`, str, values(`"/srv/data"`, "y", `"/srv/data/a/b"`, "y",
		`"/srv/data-evil"`, "n", `"/srv"`, "n", `"/tmp/x"`, "y", `"/"`, "n",
		`"/srv/data/%2e%2e/x"`, "y", `"srv/data"`, "e", `""`, "e", `"/srv/data/../x"`, "e", `"/srv/data/./x"`, "e",
		`"/srv/data//x"`, "e", `"/srv/data/"`, "e", `"/srv/data\\x"`, "e",
		`"/srv/data/\u0000"`, "e", `"/srv/data/..."`, "y", `"/srv/data/.x"`, "y", `"/srv/data/.."`, "e")},
	{`{"arg":"/v","within":"/"}`, str, values(`"/"`, "y", `"/x"`, "y", `"x"`, "e")},
	{`{"arg":"/v","within":"/a"}`, either, values(`"/a/b"`, "y", `1`, "e", `["/a"]`, "e")},
	{`{"arg":"/v","within":"/a","absent":true}`, "?" + str, values(gone, "y", `"/b"`, "n")},

	{`{"arg":"/v","url":["https://api.corp.com/v1/","http://x.org:8080/q?"]}`, str, values(
		`"https://api.corp.com/v1/"`, "y", `"https://api.corp.com/v1/a/b"`, "y", `"HTTPS://API.corp.com:443/v1/a"`, "y",
		`"https://api.corp.com/v1"`, "n", `"https://api.corp.com/v10/"`, "n", `"https://api.corp.com/V1/"`, "n",
		`"http://api.corp.com/v1/"`, "n",
		`"https://api.corp.com:8443/v1/"`, "n", `"https://api.corp.com.evil.org/v1/"`, "n",
		`"https://evil.org/api.corp.com/v1/"`, "n",
		`"https://api.corp.com/v1/?a=b"`, "n", `"https://api.corp.com/v1/#x"`, "n",
		`"http://x.org:8080/q"`, "y", `"http://x.org:8080/q?a=b"`, "y", `"http://x.org:8080/q/z?a=b/c"`, "y",
		`"http://x.org:8080/q?a#b"`, "n", `"http://x.org:8080/qq?a"`, "n",
		`"api.corp.com/v1/"`, "e", `"//api.corp.com/v1/"`, "e", `"https:/api.corp.com/v1/"`, "e", `"https:///v1/"`, "e",
		`""`, "e",
		`"https://api.corp.com@evil.org/v1/"`, "e", `"https://u:p@api.corp.com/v1/"`, "e",
		`"https://api.corp.com/v1/ x"`, "e", `" https://api.corp.com/v1/"`, "e",
		`"https://api.corp.com/v1/\tx"`, "e", `"https://api.corp.com\\v1/"`, "e", `"https://api.corp.com/v1/%2E%2e/"`,
		"e", `"https://api.corp.com/v1/a%2fb"`, "e",
		`"https://api.corp.com/v1/a%5Cb"`, "e", `"https://api.corp.com/v1/../x"`, "e", `"https://api.corp.com/v1/./x"`,
		"e", `"https://api.corp.com/v1/.."`, "e",
		`"https://api.corp.com/v1/%zz"`, "e", `"https://api.corp.com/v1/%4"`, "e", `"https://\u0430pi.corp.com/v1/"`,
		"e", `"https://api.corp.com./v1/"`, "e",
		`"https://api.corp.com:/v1/"`, "e", `"https://api.corp.com:99999/v1/"`, "e", `"https://api.corp.com:0443/v1/"`,
		"e", `"https://api.corp.com/v1/\u00a0"`, "e",
		`"https://api.corp.com/v1/é"`, "y", `"https://api.corp.com/v1/%41"`, "y")},
	{`{"arg":"/v","url":"https://h.org"}`, str, values(`"https://h.org"`, "y", `"https://h.org/"`, "y",
		`"https://h.org/x"`, "y", `"https://h.org?x"`, "n", `"https://h.orgx"`, "n")},
	{`{"arg":"/v","url":"https://h.org/p"}`, str, values(`"https://h.org/p"`, "y", `"https://h.org/p/"`, "y",
		`"https://h.org/p/q"`, "y", `"https://h.org/pq"`, "n")},
	{`{"arg":"/v","url":"https://[2001:DB8::1]:8443/"}`, str,
		values(`"https://[2001:db8:0::1]:8443/x"`, "y", `"https://[2001:db8::2]:8443/"`, "n", `"https://[2001:db8::1/"`,
			"e")},
	{`{"arg":"/v","url":"https://h.org/"}`, either, values(`"https://h.org/"`, "y", `5`, "e")},
	{`{"arg":"/v","url":"https://h.org/","absent":false}`, null, values(`null`, "n", `"https://h.org/"`, "y")},

	{`{"arg":"/v","host":["corp.com","*.corp.org"]}`, str, values(`"corp.com"`, "y", `"CORP.com"`, "y", `"a.corp.com"`,
		"n", `"corp.org"`, "n", `"a.corp.org"`, "y", `"a.b.Corp.org"`, "y",
		`"evilcorp.org"`, "n", `"https://corp.com/x?y#z"`, "y", `"https://a.corp.org:8443"`, "y",
		`"https://evil.com/corp.com"`, "n", `"https://corp.com@evil.com/"`, "e",
		`"corp.com."`, "e", `".corp.org"`, "e", `"a..corp.org"`, "e", `"corp.com:443"`, "e", `"corp.com/x"`, "e", `""`,
		"e", `"c\u043erp.com"`, "e", `"127.1"`, "e", `"0x7f.1"`, "e",
		`"2130706433"`, "e", `"10.0.0.1"`, "n", `"a b"`, "e", `"corp.com\u0000"`, "e", `"-a.corp.org"`, "e")},
	{`{"arg":"/v","host":["10.0.0.1","[::1]"]}`, str, values(`"10.0.0.1"`, "y", `"http://10.0.0.1/"`, "y",
		`"[::ffff:10.0.0.1]"`, "y", `"http://[0::1]/"`, "y", `"010.0.0.1"`, "e", `"::1"`, "e")},
	{`{"arg":"/v","host":"corp.com"}`, either, values(`"corp.com"`, "y", `1`, "e")},
	{`{"arg":"/v","host":"corp.com","absent":true}`, "?" + str, values(gone, "y", `"x.com"`, "n")},

	{`{"arg":"/v","email":["corp.com","bob@other.org"]}`, str,
		values(`"ann@corp.com"`, "y", `"ann@CORP.com"`, "y", `"a.b+c@corp.com"`, "y", `"bob@other.org"`, "y",
			`"bob@OTHER.org"`, "y",
			`"Bob@other.org"`, "n", `"ann@other.org"`, "n", `"ann@sub.corp.com"`, "n", `"ann@corp.com.evil"`, "n",
			`"Ann <ann@corp.com>"`, "e", `"ann@corp.com,eve@evil.org"`, "e",
			`"ann@evil.org@corp.com"`, "e", `"\"a b\"@corp.com"`, "e", `"ann@corp.com (x)"`, "e", `"ann"`, "e",
			`"@corp.com"`, "e", `"ann@"`, "e", `".a@corp.com"`, "e", `"a..b@corp.com"`, "e",
			`"ann@[127.0.0.1]"`, "e", `"ann@127.0.0.1"`, "e", `" ann@corp.com"`, "e", `"ann@corp.com\n"`, "e",
			`"änn@corp.com"`, "e")},
	{`{"arg":"/v","email":"corp.com"}`, either, values(`"a@corp.com"`, "y", `1`, "e")},
	{`{"arg":"/v","email":"corp.com","absent":false}`, "?" + str, values(gone, "n", `"a@corp.com"`, "y")},

	{`{"arg":"/v","cidr":["10.0.0.0/8","192.168.1.0/24","2001:db8::/32"]}`, str,
		values(`"10.1.2.3"`, "y", `"11.0.0.1"`, "n", `"9.255.255.255"`, "n", `"192.168.1.255"`, "y", `"192.168.2.0"`,
			"n",
			`"::ffff:10.0.0.1"`, "y", `"2001:db8::1"`, "y", `"2001:db9::1"`, "n", `"10.0.0"`, "e", `"10.0.0.1/8"`, "e",
			`"010.0.0.1"`, "e", `"10.0.0.256"`, "e", `"fe80::1%eth0"`, "e",
			`"localhost"`, "e", `""`, "e", `"[::1]"`, "e", `"10.0.0.1.2"`, "e", `"10.0.0.1 "`, "e")},
	{`{"arg":"/v","cidr":"0.0.0.0/0"}`, either, values(`"8.8.8.8"`, "y", `"::1"`, "n", `8`, "e")},
	{`{"arg":"/v","cidr":"10.0.0.0/8","absent":true}`, null, values(`null`, "y", `"11.0.0.0"`, "n")},

	{`{"arg":"/v","age_le":"1h"}`, str, values(`"2026-07-15T12:00:00Z"`, "y", `"2026-07-15T11:00:00Z"`, "y",
		`"2026-07-15T10:59:59.999999999Z"`, "n", `"2026-07-15T12:00:00.000000001Z"`, "n",
		`"2026-07-15T13:30:00+02:00"`, "y", `"2026-07-15T06:30:00-05:00"`, "y", `"2026-07-15t11:30:00z"`, "y",
		`"2026-07-15T11:30:00.5Z"`, "y", `"2026-07-16T11:30:00Z"`, "n",
		`"2026-07-15T11:30:00"`, "e", `"2026-07-15 11:30:00Z"`, "e", `"2026-07-15"`, "e", `"2026-02-30T11:30:00Z"`, "e",
		`"2026-07-15T24:00:00Z"`, "e", `"2026-07-15T11:60:00Z"`, "e",
		`"2026-07-15T11:30:60Z"`, "e", `"2026-07-15T11:30:00,5Z"`, "e", `"2026-07-15T11:30:00.Z"`, "e",
		`"2026-07-15T1:30:00Z"`, "e", `"2026-07-15T11:30:00+2:00"`, "e",
		`"2026-07-15T11:30:00+25:00"`, "e", `"2026-13-15T11:30:00Z"`, "e", `"2026-00-15T11:30:00Z"`, "e",
		`"2026-07-15T11:30:00.1234567890Z"`, "e", `""`, "e", `"0000-01-01T00:00:00Z"`, "n")},
	{`{"arg":"/v","age_le":"7d"}`, either, values(`"2026-07-08T12:00:00Z"`, "y", `"2026-07-08T11:59:59Z"`, "n", `1`,
		"e")},
	{`{"arg":"/v","age_le":"7d","absent":true}`, "?" + str, values(gone, "y", `"2020-01-01T00:00:00Z"`, "n")},

	{`{"arg":"/v","type":"string"}`, either, values(`"a"`, "y", `1`, "n", `true`, "n", `["a"]`, "n")},
	{`{"arg":"/v","type":"number"}`, either, values(`1.5`, "y", `1`, "y", `"1"`, "n")},
	{`{"arg":"/v","type":"integer"}`, either, values(`1.0`, "y", `1e21`, "y", `1.5`, "n", `1e-7`, "n", `-3`, "y", `"1"`,
		"n")},
	{`{"arg":"/v","type":"boolean"}`, either, values(`false`, "y", `0`, "n")},
	{`{"arg":"/v","type":"array"}`, either, values(`[]`, "y", `"[]"`, "n")},
	{`{"arg":"/v","type":"object"}`,
		`{"anyOf":[{"type":"object","properties":{"x":{"type":"string"}}},{"type":"string"}]}`,
		values(`{}`, "y", `"x"`, "n")},
	{`{"arg":"/v","type":"string","absent":true}`, "?" + str, values(gone, "y", `"a"`, "y")},
	{`{"all":[{"arg":"/v","type":"string"},{"arg":"/v","prefix":"a"}]}`, either,
		values(`"ab"`, "y", `1`, "n", `"b"`, "n")},

	{`{"arg":"/v","exists":true}`, "?" + null, values(gone, "n", `null`, "n", `"a"`, "y", `""`, "y")},
	{`{"arg":"/v","exists":false}`, "?" + null, values(gone, "y", `null`, "y", `""`, "n")},

	{`{"every":"/v","that":{"prefix":"a"}}`, strs, values(`[]`, "y", `["a","ab"]`, "y", `["a","b"]`, "n")},
	{`{"some":"/v","that":{"prefix":"a"}}`, strs, values(`[]`, "n", `["b","ab"]`, "y", `["b"]`, "n")},
	{`{"every":"/v","that":{"within":"/a"}}`, strs, values(`["/a/x","x"]`, "e", `["/b","x"]`, "n", `["/a"]`, "y")},
	{`{"some":"/v","that":{"within":"/a"}}`, strs, values(`["x","/a"]`, "e", `["/a","x"]`, "y", `["/b","x"]`, "e")},
	{`{"every":"/v","that":{"all":[{"item":"","gt":1},{"item":"","lt":5}]}}`, nums, values(`[2,3]`, "y", `[2,9]`, "n")},
	{`{"every":"/v","that":{"item":"/to","eq":"a"}}`, rows, values(`[{"to":"a"}]`, "y", `[{"to":"a"},{"to":"b"}]`,
		"n")},
	{`{"some":"/v","that":{"item":"/n","gt":3,"absent":false}}`, rows,
		values(`[{"to":"a"},{"to":"a","n":4}]`, "y", `[{"to":"a"}]`, "n")},
	{`{"every":"/v","that":{"item":"/to","eq":{"arg":"/w"}}}`, rows, values(`[{"to":"w"}]`, "y", `[{"to":"x"}]`, "n")},
	{`{"every":"/v","that":{"item":"/to","eq":"a"},"absent":false}`, "?" + rows,
		values(gone, "n", `[]`, "y", `[{"to":"a"}]`, "y")},
	{`{"some":"/v","that":{"eq":"a"},"absent":true}`, "?" + strs, values(gone, "y", `[]`, "n", `["a"]`, "y")},
	{`{"every":"/v","that":{"eq":"a"}}`, either, values(`["a"]`, "y", `"a"`, "e", `1`, "e")},
	{`{"every":"/v/*/tags","that":{"eq":"a"}}`, grid, values(`[]`, "y", `[{"tags":[]},{"tags":["a"]}]`, "y",
		`[{"tags":["a"]},{"tags":["a","b"]}]`, "n")},
	{`{"some":"/v/*/tags","that":{"eq":"a"}}`, grid, values(`[{"tags":[]}]`, "n", `[{"tags":["b"]},{"tags":["c","a"]}]`,
		"y")},
	{`{"every":"/v/*/tags","that":{"eq":"a"},"absent":true}`, rows,
		values(`[{"to":"x"},{"to":"x","tags":["b"]}]`, "n", `[{"to":"x"}]`, "y")},
	{`{"every":"/v/*/tags","that":{"eq":"a"},"absent":false}`, rows,
		values(`[{"to":"x","tags":["a"]},{"to":"x"}]`, "n", `[{"to":"x","tags":["a"]}]`, "y")},
	{`{"some":"/v/*/tags","that":{"eq":"a"},"absent":true}`, rows,
		values(`[{"to":"x"},{"to":"x","tags":["b"]}]`, "y", `[{"to":"x","tags":["b"]}]`, "n")},
	{`{"every":"/v","that":{"eq":"a","absent":true}}`, `{"type":"array","items":{"type":["string","null"]}}`,
		values(`["a",null]`, "y", `[null,"b"]`, "n")},
	{`{"some":"/v","that":{"exists":false}}`, `{"type":"array","items":{"type":["string","null"]}}`,
		values(`["a",null]`, "y", `["b"]`, "n")},

	{`{"count":"/v","gt":1}`, strs, values(`[]`, "n", `["a"]`, "n", `["a","b"]`, "y")},
	{`{"count":"/v","eq":0}`, strs, values(`[]`, "y", `["a"]`, "n")},
	{`{"count":"/v","ne":1}`, strs, values(`[]`, "y", `["a"]`, "n")},
	{`{"count":"/v","lt":1}`, strs, values(`[]`, "y", `["a"]`, "n")},
	{`{"count":"/v","le":1}`, strs, values(`["a"]`, "y", `["a","b"]`, "n")},
	{`{"count":"/v","ge":1,"that":{"eq":"a"}}`, strs, values(`["b"]`, "n", `["b","a"]`, "y")},
	{`{"count":"/v","le":{"arg":"/n"}}`, strs, values(`["a"]`, "y", `["a","b","c","d","e","f","g","h"]`, "n")},
	{`{"count":"/v","ge":1,"absent":true}`, "?" + strs, values(gone, "y", `[]`, "n", `["a"]`, "y")},
	{`{"count":"/v/*/tags","ge":3}`, grid, values(`[{"tags":["a"]},{"tags":["a","b"]}]`, "y", `[{"tags":["a"]}]`, "n")},
	{`{"count":"/v","ge":1,"that":{"cidr":"10.0.0.0/8"}}`, strs, values(`["10.0.0.1","x"]`, "e", `["10.0.0.1"]`, "y")},

	{`{"caller":"id","eq":"ann","absent":false}`, str, values(`""`, "y")},
	{`{"caller":"id","ne":"ANN","fold":true,"absent":true}`, str, values(`""`, "n")},
	{`{"caller":"id","in":["bob","ann"],"absent":false}`, str, values(`""`, "y")},
	{`{"caller":"tenant","not_in":["acme"],"absent":true}`, str, values(`""`, "n")},
	{`{"caller":"tenant","prefix":"ac","absent":false}`, str, values(`""`, "y")},
	{`{"caller":"id","eq":{"arg":"/v"},"absent":false}`, str, values(`"ann"`, "y", `"bob"`, "n")},
	{`{"caller":"roles","has":"editor"}`, str, values(`""`, "y")},
	{`{"caller":"roles","has":"edit"}`, str, values(`""`, "n")},
	{`{"time":"utc","in":["Mon-Fri 08:00-18:00"]}`, str, values(`""`, "y")},
	{`{"time":"utc","in":["Wed 12:00-12:01"]}`, str, values(`""`, "y")},
	{`{"time":"utc","in":["Wed 11:00-12:00","Wed 12:01-24:00"]}`, str, values(`""`, "n")},
	{`{"time":"utc","in":"Sat-Tue 00:00-24:00"}`, str, values(`""`, "n")},
	{`{"time":"utc","in":"Sun-Wed 00:00-24:00"}`, str, values(`""`, "y")},

	{`{"not":{"arg":"/v","eq":"a"}}`, str, values(`"a"`, "n", `"b"`, "y")},
	{`{"not":{"arg":"/v","within":"/a"}}`, str, values(`"x"`, "e", `"/a"`, "n", `"/b"`, "y")},
	{`{"all":[{"arg":"/v","prefix":"/b"},{"arg":"/v","within":"/b"}]}`, str,
		values(`"x"`, "n", `"/b//"`, "e", `"/b"`, "y")},
	{`{"any":[{"arg":"/v","prefix":"x"},{"arg":"/v","within":"/b"}]}`, str,
		values(`"x"`, "y", `"y"`, "e", `"/b"`, "y", `"/c"`, "n")},
	{`{"all":[{"arg":"/v","within":"/b"},{"arg":"/v","prefix":"no"}]}`, str, values(`"no"`, "e")},
	{`{"any":[{"not":{"all":[{"arg":"/v","cidr":"10.0.0.0/8"}]}},{"arg":"/v","eq":"x"}]}`, str,
		values(`"x"`, "e", `"10.0.0.1"`, "n", `"11.0.0.1"`, "y")},
}

// around is a bundle with one tool t, and one rule about /v before a broad allow. Other arguments:
// w is "w", W too, n is 7, o is missing.
func around(schema, rule string) string {
	required := `["v","w","W2","n"]`
	if rest, optional := strings.CutPrefix(schema, "?"); optional {
		schema, required = rest, `["w","n","W2"]`
	}
	return `{"helm":"policy/v1","layer":"P1","bundle":{"name":"b","version":1},"lists":{"names":["x","y"]},
		"tools":{"t":{"effect":"read","input":{"type":"object","required":` + required + `,"properties":{
			"v":` + schema + `,"w":{"type":"string"},"W2":{"type":"string"},"n":{"type":"number"},"o":{"type":"string"}}}}},
		"rules":[` + rule + `,{"id":"all","allow":"t"}]}`
}

func argsWith(v string) string {
	v = `"v":` + v + `,`
	if strings.Contains(v, gone) {
		v = ""
	}
	return `{` + v + `"w":"w","W2":"W","n":7}`
}

// Each operator says yes, no or error to each value; not turns the first two round and leaves the
// error; after an error no allow is reached.
func TestOperators(t *testing.T) {
	t.Parallel()
	checks := 0
	for _, c := range operatorCases {
		pred := strings.ReplaceAll(c.pred, `"/W"`, `"/W2"`)
		when := mustCompile(t, around(c.schema, `{"id":"x","deny":"t","when":`+pred+`}`))
		unless := mustCompile(t, around(c.schema, `{"id":"x","deny":"t","unless":`+pred+`}`))
		for v, answer := range c.answers {
			in := inputs(t, "t", argsWith(v))
			require.Equal(t, "", in.ArgsForm, "%s: %s is no JSON", c.pred, v)
			checks++
			// /o is missing: where the case refers to it the answer is that of absent, whatever /v
			// is.
			if strings.Contains(c.pred, `"/o"`) {
				answer = map[bool]string{true: "y", false: "n"}[strings.Contains(c.pred, `"absent":true`)]
			}
			deny, allow := want{contracts.ReasonPolicyViolation, 5, "P1:b:x"},
				want{contracts.ReasonAllow, 8, "P1:b:all"}
			fails := want{contracts.ReasonFailClosedError, 5, ""}
			results := map[string][2]want{"y": {deny, allow}, "n": {allow, deny}, "e": {fails, fails}}[answer]
			before := t.Failed()
			results[0].check(t, when, in)
			results[1].check(t, unless, in)
			if t.Failed() && !before {
				t.Fatalf("%s on %s, want %s", c.pred, v, answer)
			}
		}
	}
	if checks < 450 {
		t.Errorf("only %d checks", checks)
	}
}

// finds may only restrict, so it has no unless to be tried in.
func TestFinds(t *testing.T) {
	t.Parallel()
	p := mustCompile(t, around(str, `{"id":"x","deny":"t","when":{"arg":"/v","finds":"https?://|www[.]"}}`))
	for v, found := range map[string]bool{`"see http://x"`: true, `"www.x"`: true, `"wwwx"`: false, `""`: false,
		`"a\nhttps://"`: true} {
		if found {
			want{contracts.ReasonPolicyViolation, 5, "P1:b:x"}.check(t, p, inputs(t, "t", argsWith(v)))
		} else {
			want{contracts.ReasonAllow, 8, "P1:b:all"}.check(t, p, inputs(t, "t", argsWith(v)))
		}
	}
	union := mustCompile(t, around(either, `{"id":"x","deny":"t","when":{"arg":"/v","finds":"x"}}`))
	want{contracts.ReasonFailClosedError, 5, ""}.check(t, union, inputs(t, "t", argsWith(`5`)))
}

// Callers who are nobody, or have no roles.
func TestAnonymousCaller(t *testing.T) {
	t.Parallel()
	for pred, denied := range map[string]bool{
		`{"caller":"id","eq":"ann","absent":true}`:                             true,
		`{"caller":"id","eq":"ann","absent":false}`:                            false,
		`{"caller":"tenant","not_in":["acme"],"absent":true}`:                  true,
		`{"caller":"tenant","prefix":"a","absent":false}`:                      false,
		`{"caller":"roles","has":"clerk"}`:                                     false,
		`{"not":{"caller":"roles","has":"clerk"}}`:                             true,
		`{"arg":"/v","eq":{"caller":"id"},"absent":true}`:                      true,
		`{"arg":"/v","ne":{"caller":"tenant"},"absent":false}`:                 false,
		`{"some":"/l","that":{"eq":{"caller":"id"},"absent":true}}`:            true,
		`{"every":"/l","that":{"item":"","eq":{"caller":"id"},"absent":true}}`: true,
	} {
		text := bundle("b", toolText("t", `"v":`+str+`,"l":`+strs, "v", "l"),
			`{"id":"x","deny":"t","when":`+pred+`},{"id":"all","allow":"t"}`)
		in := inputs(t, "t", `{"v":"ann","l":["a"]}`)
		in.Caller = contracts.Caller{}
		w := want{contracts.ReasonAllow, 8, "P1:b:all"}
		if denied {
			w = want{contracts.ReasonPolicyViolation, 5, "P1:b:x"}
		}
		w.check(t, mustCompile(t, text), in)
		if t.Failed() {
			t.Fatal(pred)
		}
	}
}
