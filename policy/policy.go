// Package policy reads the policy documents that people write.
//
// [Load] reads files and compiles them to the policy of a kernel. [Parse] reads one text, for
// documents that are not in files.
//
//	pol, err := policy.Load("floor.yaml", "bank.yaml")
//
// A document is one JSON object, or the same in YAML that every reader reads alike:
//
//	helm: policy/v1
//	layer: P1
//	bundle: {name: files, version: 3}
//	tools:
//	  fs.read:
//	    effect: read
//	    input: {type: object, required: [path], properties: {path: {type: string}}}
//	    limits: {timeout: 10s}
//	rules:
//	  - {id: home, allow: fs.read, when: {arg: /path, within: [/home]}}
//
// Whatever the text, the document is its canonical form, RFC 8785, which is hashed and signed. That
// of the document above is one line, broken here:
//
//	{"bundle":{"name":"files","version":3},"helm":"policy/v1","layer":"P1",
//	"rules":[{"allow":"fs.read","id":"home","when":{"arg":"/path","within":["/home"]}}],
//	"tools":{"fs.read":{"effect":"read","input":{"properties":{"path":{"type":"string"}},
//	"required":["path"],"type":"object"},"limits":{"timeout":"10s"}}}}
//
// # What is read
//
// A text is JSON if its name ends in .json or if it is strict JSON (docs/FORMATS.md, section 1: no
// duplicate keys, no number that a double cannot hold); everything else is YAML. In YAML there is
// one document, in block or flow style. Its keys are strings, however they look. A quoted or block
// scalar is a string; a plain one is true, false, null, a JSON number, or else a string.
// docs/POLICY.md is the whole format.
//
// A plain scalar that some version of YAML reads as something else is refused: yes, no, on, off, y,
// n, True, NULL in any case; ~, =, << and nothing at all; leading zeros, _ or , in digits, 0x1f,
// 0o17, 0b11, 1:30, 12.30.1, dates and times, +1, .5, 1., .inf, .nan. It must be quoted, and then
// it is a string. Also refused are tags, anchors, aliases, merge keys, duplicate keys, keys that
// are no scalar, directives, a second document, characters that JSON does not have or that end a
// line in some versions only, and a byte order mark.
//
// # Limits
//
// YAML of 1 MiB, JSON of 4 MiB, nested 128 deep, the root being 1.
//
// # Errors
//
// Every refusal of a text is a [*guardian.LoadError], which prints file, line, column, the fault
// and the remedy, in one line. [Load] joins those of all files. Lines end at LF, CR LF or CR,
// columns count characters, both from 1.
//
//	bank.yaml:12:15: the plain scalar no means different things to different readers of YAML;
//	quote it to mean the string
package policy

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/several"
)

// These bound the memory: reading takes some 300 times the size of YAML, some 80 times that of
// JSON, in the worst case.
const (
	maxYAML  = 1 << 20
	maxJSON  = 4 << 20
	maxDepth = crypto.MaxDepth
)

// Parse reads one document, YAML or JSON, without compiling it: its rules are not checked. The name
// is for error messages, here and when the document is compiled. An error is a
// [*guardian.LoadError].
func Parse(name string, b []byte) (contracts.Document, error) {
	doc, refused := parse(b, strings.HasSuffix(strings.ToLower(name), ".json"))
	if refused != nil {
		refused.Document = name
		return contracts.Document{}, refused
	}
	doc.Name = name
	return doc, nil
}

func parse(b []byte, onlyJSON bool) (contracts.Document, *guardian.LoadError) {
	if refused := checkEncoding(b); refused != nil {
		return contracts.Document{}, refused
	}
	doc, refused := readJSON(b)
	if refused == nil || onlyJSON {
		return doc, refused
	}
	return readYAML(b)
}

// Load reads files, in any order, and compiles them to one policy. The error joins all that is
// wrong with them, as that of [guardian.Compile] does: for a file that cannot be read an error that
// names it and wraps the cause, so errors.Is(err, fs.ErrNotExist) reports a missing file; for
// everything else a [*guardian.LoadError] with the file and line of what it refuses. Files that
// cannot be read, or that [Parse] refuses, come first, by name.
func Load(files ...string) (*guardian.Policy, error) {
	return load(files, func(name string) (fs.File, error) { return os.Open(name) })
}

// LoadFS is like [Load], with the files of a file system: embedded ones, for example.
func LoadFS(fsys fs.FS, files ...string) (*guardian.Policy, error) {
	if fsys == nil {
		return nil, errors.New("policy: no file system: pass one, or call Load")
	}
	return load(files, fsys.Open)
}

func load(files []string, open func(name string) (fs.File, error)) (*guardian.Policy, error) {
	docs := make([]contracts.Document, len(files))
	lost := map[string]error{}
	for i, name := range files {
		b, err := readFile(name, open)
		if err == nil {
			docs[i], err = Parse(name, b)
		}
		if err != nil {
			lost[name], docs[i] = err, contracts.Document{Name: name}
		}
	}
	pol, err := guardian.Compile(docs...)
	if len(lost) == 0 {
		return pol, err
	}
	return nil, withLost(lost, err)
}

// withLost joins the errors of files that were not parsed to those of the others. Compile saw their
// documents as empty ones, so that it refused them, and not what the others say of their tools.
func withLost(lost map[string]error, compiled error) error {
	var all []error
	for _, name := range slices.Sorted(maps.Keys(lost)) {
		all = append(all, lost[name])
	}
	for _, err := range several.All(compiled) {
		var e *guardian.LoadError
		if !errors.As(err, &e) || lost[e.Document] == nil {
			all = append(all, err)
		}
	}
	return several.Join(all...)
}

// readFile reads no more of a file than Parse needs to see that it is too long.
func readFile(name string, open func(name string) (fs.File, error)) ([]byte, error) {
	unread := func(err error) error { // keeps the cause, for fs.ErrNotExist, and says the name once
		var path *fs.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		return fmt.Errorf("policy: %s: cannot be read: %w", name, err)
	}
	f, err := open(name)
	if err != nil {
		return nil, unread(err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxJSON+1))
	if err != nil {
		return nil, unread(err)
	}
	return b, nil
}
