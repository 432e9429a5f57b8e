package policy_test

import (
	"errors"
	"fmt"
	"log"
	"strings"

	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/policy"
)

// Documents that are not in files are parsed one by one and compiled together.
func ExampleParse() {
	const text = `helm: policy/v1
layer: P1
bundle: {name: files, version: 3}
tools:
  fs.read:
    effect: read
    input: {type: object, required: [path], properties: {path: {type: string}}}
rules:
  - {id: home, allow: fs.read, when: {arg: /path, within: [/home]}}
`
	doc, err := policy.Parse("files.yaml", []byte(text))
	if err != nil {
		log.Fatal(err)
	}
	pol, err := guardian.Compile(doc)
	if err != nil {
		log.Fatal(err)
	}
	for _, d := range pol.Record().Documents {
		fmt.Println(d.Layer, d.Name, d.Version)
	}

	_, err = policy.Parse("other.yaml", []byte("helm: policy/v1\nlayer: P1\nenabled: yes\n"))
	var refused *guardian.LoadError
	if errors.As(err, &refused) {
		fmt.Println("line", refused.Pos.Line)
	}
	fmt.Println(strings.ReplaceAll(err.Error(), "; ", ";\n\t"))
	// Output:
	// P1 files 3
	// line 3
	// other.yaml:3:10: the plain scalar yes means different things to different readers of YAML;
	// 	quote it to mean the string, or write true, false, null or a JSON number
}

// A draft of a bundle is made of the tools that a server lists. It allows nothing.
func ExampleNew() {
	const list = `{"tools": [{"name": "search", "inputSchema": {"type": "object", "required": ["query"],
	  "properties": {"query": {"type": "string"}, "page": {"type": "integer", "if": {"minimum": 1}}}}}]}`
	yaml, notes, err := policy.New([]byte(list), "web")
	if err != nil {
		log.Fatal(err)
	}
	for _, n := range notes {
		fmt.Println(n)
	}
	_, tool, _ := strings.Cut(string(yaml), "tools:\n")
	fmt.Println(tool)
	// Output:
	// search: /tools/0/inputSchema: closed: members that it does not name are refused
	// search: /tools/0/inputSchema/properties/page/if: left out: keyword if is not supported
	//   search:
	//     effect: destructive
	//     definition: "8159e658d920a71351cacf800f58afb7f65d39e1980301eba2bd024d1704f114"
	//     # closed: members that it does not name are refused (/tools/0/inputSchema)
	//     input:
	//       properties:
	//         # left out: keyword if is not supported (/tools/0/inputSchema/properties/page/if)
	//         page: {type: integer}
	//         query: {type: string}
	//       required: [query]
	//       type: object
	//       additionalProperties: false
	// rules: []
}
