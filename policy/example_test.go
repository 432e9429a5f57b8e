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
