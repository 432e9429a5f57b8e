// Letter is a guest that fills in a template. It finds templates in /templates, a tree whose digest
// is granted, so that nobody can change a word of them unnoticed.
//
//	GOOS=wasip1 GOARCH=wasm go build -o letter.wasm ./examples/sandbox/guests/letter
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"text/template"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run reads the arguments of the call from stdin, and writes the letter to stdout.
func run() error {
	var args struct {
		Template string
		Fields   map[string]string
	}
	if err := json.NewDecoder(os.Stdin).Decode(&args); err != nil {
		return err
	}
	text, err := os.ReadFile(path.Join("/templates", args.Template+".txt"))
	if err != nil {
		return err
	}
	t, err := template.New(args.Template).Option("missingkey=error").Parse(string(text))
	if err != nil {
		return err
	}
	var letter bytes.Buffer
	if err := t.Execute(&letter, args.Fields); err != nil {
		return err
	}
	_, err = os.Stdout.Write(letter.Bytes())
	return err
}
