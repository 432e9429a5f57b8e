package check

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// imports is what each package may import and do, and why. It is the table of the design, with the standard library: whoever adds a line
// says what it is for, and a line that is no longer needed fails too.
var imports = map[string]allowed{
	"helm": {
		"helm/contracts":      "the records it makes",
		"helm/crypto":         "reads arguments, signs",
		"helm/executor":       "runs what was allowed",
		"helm/guardian":       "judges",
		"helm/guardian/past":  "what was before a call: balances, sessions",
		"helm/proofgraph":     "remembers",
		"helm/receipts":       "builds and opens receipts",
		"helm/trust/registry": "which keys count",

		"bytes":          "copies what callers hand in and get back, compares",
		"container/list": "who waits for room: first come first, and anybody may give up; kernels that follow a swap, in order",
		"context":        "callers end calls; With carries what the next call is filled from",
		"encoding/json":  "the type of an Intent's arguments; Wrap's In and Out",
		"errors":         "sentinels",
		"fmt":            "errors",
		"io":             "the type of Options.Rand",
		"maps":           "copies Options.Drivers",
		"slices":         "copies and sorts what callers hand in",
		"strings":        "names the options that are missing",
		"sync":           "the locks of session and kernel; reuses memory between calls",
		"sync/atomic":    "the stack that judges is swapped under calls, which take no lock to read it",
		"time":           "the type of a clock",
		"time.Now":       "the default of Options.Now, the one clock of every record",
		"time.NewTimer":  "Close does not wait for ever for calls that are still running",
	},
	"helm/crypto": {
		"filippo.io/edwards25519": "is a public key a canonical point of the prime-order subgroup?",

		"bytes":           "lines of key files",
		"crypto":          "the type of a signer that is not in memory",
		"crypto/ed25519":  "signatures",
		"crypto/hkdf":     "derives the log key",
		"crypto/rand":     "makes keys, when asked to",
		"crypto/sha256":   "digests",
		"crypto/subtle":   "compares what is secret",
		"encoding/base64": "keys and signatures as text",
		"encoding/binary": "eight bytes of a string at once",
		"encoding/hex":    "digests as text",
		"errors":          "refusals without a place",
		"fmt":             "refusals with one",
		"hash":            "what is too long to hold is hashed as it comes",
		"io":              "key files are read and written where the caller says",
		"iter":            "elements of an array",
		"math":            "NaN",
		"math/bits":       "where in eight bytes the quote is",
		"slices":          "sorts keys",
		"strconv":         "numbers",
		"unicode/utf16":   "surrogates, and the order of keys by RFC 8785",
		"unicode/utf8":    "strict UTF-8",
	},
	"helm/contracts": {
		"helm/crypto": "the JSON that records are, and their digests",

		"bytes":        "compares the re-encoded record",
		"errors":       "refusals without a place",
		"fmt":          "refusals with one",
		"iter":         "the registry of reasons",
		"slices":       "sorted and unique lists",
		"strconv":      "numbers in names",
		"strings":      "orders names",
		"sync":         "reuses memory between records",
		"time":         "times as records have them; no clock",
		"unicode/utf8": "names are text",
	},
	"helm/trust/registry": {
		"helm/contracts": "names and roles in records",
		"helm/crypto":    "keys, and the digest of the state",

		"bytes":   "orders and compares ids of keys",
		"errors":  "refusals without a subject",
		"fmt":     "refusals with one",
		"maps":    "copies documents' lines",
		"slices":  "sorted keys, so that there is one state",
		"strconv": "numbers of the state",
		"strings": "names of roots who have not signed",
	},
	"helm/internal/jsonschema": {
		"helm/crypto": "the JSON that schemas and values are",

		"bytes":         "compares strings without copying them",
		"fmt":           "refusals of schemas",
		"math":          "bounds that are not set",
		"math/bits":     "remainders of what is longer than a word",
		"regexp":        "pattern; RE2, so linear",
		"regexp/syntax": "patterns so simple that no engine need run",
		"slices":        "sorted keys",
		"strconv":       "indexes in pointers",
		"strings":       "pointers",
		"sync":          "reuses memory between validations",
		"unicode/utf8":  "lengths in characters",
	},
	"helm/guardian": {
		"helm/contracts":               "the records it judges and fills",
		"helm/crypto":                  "documents, arguments, digests",
		"helm/guardian/internal/value": "paths, hosts, times and sets, read",
		"helm/guardian/past":           "what it asks of a log",
		"helm/internal/jsonschema":     "closed schemas",
		"helm/trust/registry":          "the state that verdicts are recorded under",

		"bytes":         "copies and orders documents",
		"cmp":           "the order of a stack",
		"errors":        "where crypto refuses a document",
		"maps":          "copies documents' lines",
		"math":          "the number of no slot",
		"net/netip":     "addresses, for cidr; no network",
		"regexp":        "regex and finds; RE2, so linear",
		"regexp/syntax": "what the patterns of grants become, before they are compiled",
		"slices":        "sorted tools, rules and documents",
		"strconv":       "lines and sizes",
		"strings":       "names, patterns, remedies",
		"sync":          "reuses the memory of judging",
		"time":          "durations",
	},
	"helm/guardian/past": {
		"helm/contracts":               "the records that are folded",
		"helm/crypto":                  "values of arguments, digests of them",
		"helm/guardian/internal/value": "JSON Pointers; whether a charge fits",

		"errors": "a fold that the log contradicts",
		"slices": "sorted pointers",
		"sync":   "the lock of a ledger",
	},
	"helm/guardian/internal/value": {
		"helm/contracts": "the time of records",
		"helm/crypto":    "values that pointers lead to",

		"bytes":        "members of sets are compared",
		"math":         "the largest sizes; all of time",
		"net/netip":    "addresses, for cidr; no network",
		"slices":       "sorted members",
		"strings":      "pointers, suffixes",
		"sync/atomic":  "the window that was asked for last, remembered",
		"time":         "the calendar; never the clock",
		"unicode":      "characters that no URL has",
		"unicode/utf8": "characters of URLs",
	},
	"helm/executor": {
		"helm/contracts":        "the call that a driver gets, and reasons",
		"helm/crypto":           "is the output strict JSON?",
		"helm/internal/contain": "a panic in a driver's error, schema or context costs the caller nothing",

		"bytes":         "the driver gets a copy",
		"context":       "the run's deadline and end",
		"encoding/json": "the types of Func",
		"errors":        "a driver's LimitError",
		"fmt":           "what a panic said",
		"strings":       "what a panic said; ids",
		"sync":          "the state of a run; reuses memory between runs",
		"sync/atomic":   "a permit is spent once; which of two endings was first",
		"time":          "limits",
		"time.Now":      "the deadline that a driver sees; nothing recorded depends on it",
		"go":            "a driver that ignores its context can be abandoned only where it runs by itself",
	},
	"helm/receipts": {
		"helm/contracts":      "the records it builds and opens",
		"helm/crypto":         "verifies",
		"helm/trust/registry": "which key may sign at an index",

		"errors": "refusals without a subject",
		"fmt":    "refusals with one",
		"slices": "budgets that give a charge back",
	},
	"helm/proofgraph": {
		"helm/contracts":              "the entries it chains",
		"helm/crypto":                 "hashes and signs",
		"helm/internal/contain":       "a panic in a store or a signer is an error",
		"golang.org/x/mod/sumdb/note": "signed checkpoints, C2SP",

		"bytes":           "copies at the store's boundary",
		"context":         "an Append may be ended by its caller",
		"encoding/binary": "key hashes of notes, buckets of the index",
		"encoding/hex":    "genesis's nonce",
		"errors":          "ErrConflict",
		"fmt":             "errors",
		"iter":            "entries of a store",
		"math":            "the largest log",
		"math/bits":       "shapes of Merkle trees",
		"slices":          "sorted parents",
		"strconv":         "sizes in checkpoints",
		"strings":         "lines of checkpoints",
		"sync":            "the log's lock",
		"sync/atomic":     "sealed or not, without the lock",
		"unicode":         "names of keys in notes",
		"unicode/utf8":    "names of keys in notes",
	},
	"helm/proofgraph/filestore": {
		"helm/contracts":  "the entries it keeps, digests",
		"helm/crypto":     "the digests of blobs",
		"helm/proofgraph": "the store that it is; the index of blobs",

		"bytes":           "copies, and what is all zeros",
		"context":         "an Append may be ended by its caller before it writes",
		"encoding/binary": "numbers in files",
		"errors":          "refusals without a place",
		"fmt":             "refusals with file and offset",
		"hash/crc32":      "accidents; attackers meet signatures",
		"io":              "files are read at offsets, and end",
		"io/fs":           "is the directory there?",
		"iter":            "entries of a store",
		"math":            "the largest offset",
		"os":              "files: the one place in the core",
		"path/filepath":   "names of files",
		"slices":          "sorted names",
		"sort":            "which segment an entry is in",
		"strconv":         "numbers in names",
		"strings":         "kinds of names",
		"sync":            "one writer, many readers",
		"syscall":         "the lock, and fdatasync",
		"time":            "Options.Wait",
		"time.Sleep":      "Options.Wait: a lock says nothing when it is free",
	},
	"helm/evidence": {
		"helm/contracts":               "the records it verifies",
		"helm/evidence/internal/entry": "which blobs an entry names",
		"helm/crypto":                  "verifies",
		"helm/guardian":                "replays verdicts",
		"helm/guardian/past":           "folds again what verdicts were made from",
		"helm/proofgraph":              "the store that is packed; trees and checkpoints",
		"helm/trust/registry":          "which keys count",

		"github.com/gowebpki/jcs":     "CrossCheck: a canonicaliser that is not ours",
		"golang.org/x/mod/sumdb/note": "opens signed checkpoints, C2SP",

		"bufio":         "lines, and small writes",
		"bytes":         "compares what was re-encoded",
		"cmp":           "orders what the report lists",
		"context":       "a long verification can be ended",
		"encoding/json": "the report, for programs",
		"encoding/hex":  "names of blobs",
		"errors":        "one sentinel a check",
		"fmt":           "errors with a place",
		"go":            "signatures are nearly all of the work, and hang on nothing that comes before them",
		"hash":          "digests of what streams by",
		"io":            "packs are read and written where the caller says",
		"iter":          "the lines of a log",
		"runtime":       "how many processors there are; what a store panics with",
		"slices":        "sorted names",
		"sort":          "looks names up",
		"strconv":       "numbers in errors and ids",
		"strings":       "the report, for people",
		"sync":          "what is opened ahead is handed over",
		"sync/atomic":   "whoever opens ahead sees the end at once",
		"unicode/utf16": "escapes in JSON",
	},
	"helm/evidence/erasure": {
		"helm/contracts":               "the entries that it reads",
		"helm/crypto":                  "are bytes that are put back those that were erased?",
		"helm/evidence/internal/entry": "which blobs an entry names",
		"helm/proofgraph":              "the store that is erased from",

		"context": "a long erasure can be ended",
		"errors":  "refusals without a place",
		"fmt":     "refusals with one",
		"slices":  "sorted digests",
	},
	"helm/evidence/internal/entry": {
		"helm/contracts": "entries",

		"bytes":  "orders digests",
		"errors": "kinds of a later version",
	},
	"helm/evidence/graph": {
		"helm/contracts":  "the entries that it reads",
		"helm/crypto":     "are 64 digits a hash?",
		"helm/proofgraph": "the index of entries; the store that is read",

		"bufio":         "small writes",
		"cmp":           "the outcome, or where there is none the verdict",
		"context":       "a long reading can be ended",
		"errors":        "refusals without a place",
		"fmt":           "refusals with one; what is drawn",
		"io":            "graphs are written where the caller says",
		"iter":          "entries of a source, members of a set",
		"math/bits":     "members of a set",
		"runtime":       "of panics in a source, the runtime's own can be shown",
		"slices":        "sorted parents",
		"strconv":       "indexes",
		"strings":       "names",
		"unicode/utf16": "escapes in JSON",
	},
	"helm/evidence/kept": {
		"helm/evidence":   "verifies packs",
		"helm/proofgraph": "how large a checkpoint is",

		"bytes":         "is the note still the one that was read?",
		"context":       "a long verification can be ended, and the wait for another auditor",
		"errors":        "what is no file to keep a note in",
		"fmt":           "errors with the path",
		"io":            "packs are read where the caller says; no more of a file than a note may have",
		"io/fs":         "modes, and files that are not there",
		"os":            "the file; the one thing about evidence that is not the caller's to read and write",
		"path/filepath": "the directory of the file",
		"syscall":       "flock(2)",
		"time":          "how long another auditor is waited for",
		"time.After":    "how long until the lock is asked for again",
	},
	"helm/policy": {
		"helm/contracts":     "the document that a text becomes",
		"helm/crypto":        "is it strict JSON? what is its canonical form?",
		"helm/guardian":      "compiles; the form of refusals",
		"go.yaml.in/yaml/v4": "the structure of YAML, with columns; not in the core",

		"bytes":        "byte order marks",
		"errors":       "the library's errors",
		"fmt":          "errors of files",
		"io":           "reads no more of a file than its limit",
		"math":         "the largest size",
		"os":           "Load reads files; not in the core",
		"strconv":      "indexes in pointers",
		"strings":      "plain scalars",
		"unicode/utf8": "strict UTF-8, columns",
	},
	"helm/helmtest": {
		"helm/contracts":  "entries",
		"helm/crypto":     "names of blobs",
		"helm/proofgraph": "the contract of a store",

		"bytes":        "compares checkpoints",
		"context":      "calls that end",
		"errors":       "which error is it?",
		"fmt":          "complaints, and contents of stores",
		"go":           "callers at the same time; in tests of users, not in the core",
		"io":           "a store that can be closed",
		"math":         "the largest index",
		"math/rand/v2": "random operations, the same ones each time",
		"reflect":      "did the store write to what it was given?",
		"slices":       "copies",
		"strconv":      "the size that a checkpoint says",
		"strings":      "contents of stores",
		"sync":         "callers at the same time",
		"sync/atomic":  "when readers may stop",
		"testing":      "it is for tests; not in the core",
		"time":         "a deadline that is long over; no clock",
	},
	"helm/internal/contain": {
		"fmt":     "the errors that panics become",
		"runtime": "a panic of the runtime can be shown; of another value only the type",
	},
	"helm/internal/kerneltest": {
		"helm":                      "the kernel under test",
		"helm/contracts":            "records and reasons that a call must end with",
		"helm/crypto":               "keys that are made from seeds",
		"helm/evidence":             "packs a log and verifies it",
		"helm/executor":             "drivers that do as the test says",
		"helm/guardian":             "compiles policies",
		"helm/internal/shared":      "builds the second implementation",
		"helm/policy":               "reads policies from YAML",
		"helm/proofgraph":           "stores that fail, lie or block",
		"helm/proofgraph/filestore": "a store on disk",
		"helm/receipts":             "opens receipts",
		"helm/trust/registry":       "trust states of tests",

		"github.com/stretchr/testify/assert":  "what must hold",
		"github.com/stretchr/testify/require": "what must hold, or the test ends",

		"bytes":         "compares entries, holds packs",
		"context":       "calls are made with it; contexts that panic",
		"crypto":        "the signature of a signer",
		"encoding/json": "arguments of calls",
		"errors":        "compares sentinels",
		"fmt":           "arguments and policies from numbers",
		"go":            "callers at the same time, and waits that end",
		"io":            "the signature of a signer",
		"iter":          "the entries of a log",
		"os":            "hands a pack to the second implementation",
		"os/exec":       "runs it",
		"path/filepath": "where a log on disk is",
		"runtime":       "a signer that ends its goroutine",
		"slices":        "finds reasons",
		"strings":       "edits policies, compares errors",
		"sync":          "counts calls of a store, waits for callers",
		"sync/atomic":   "counts runs of a tool",
		"testing":       "it is for tests; not in the core",
		"time":          "clocks of tests",
		"time.After":    "no test waits for ever",
	},
	"helm/internal/race": {
		"testing": "for tests alone",
	},
	"helm/internal/check": {}, // tests alone
	"helm/internal/shared": {
		"fmt":           "why the second implementation cannot be built",
		"os":            "is it there?",
		"os/exec":       "builds it",
		"path/filepath": "where it is",
		"sync":          "builds it once",
		"testing":       "for tests alone",
	},
	"helm/examples/quickstart": {
		"helm":                      "the kernel",
		"helm/crypto":               "makes a key",
		"helm/evidence":             "writes and verifies the pack",
		"helm/executor":             "the type of its tools",
		"helm/guardian":             "the policy's type",
		"helm/policy":               "reads the policy",
		"helm/proofgraph":           "the type of a store",
		"helm/proofgraph/filestore": "the store",
		"helm/trust/registry":       "the auditor's trust state",

		"bytes":          "the pack, and the bit that is flipped",
		"context":        "calls",
		"embed":          "its policy and conversation, wherever it is run",
		"encoding/json":  "the conversation",
		"errors":         "a tool that fails",
		"flag":           "-pack",
		"fmt":            "prints",
		"io":             "prints where a test can read",
		"io/fs":          "lists a directory",
		"os":             "real files, through os.Root",
		"path/filepath":  "names of files",
		"strings":        "prints",
		"text/tabwriter": "the table",
	},
	"helm/examples/approvals": {
		"helm":                "the kernel",
		"helm/contracts":      "what is asked and answered",
		"helm/crypto":         "makes keys, and hashes what the approver sees",
		"helm/evidence":       "writes and verifies the pack",
		"helm/executor":       "the type of its tool",
		"helm/guardian":       "the policy's type",
		"helm/policy":         "reads the policy",
		"helm/proofgraph":     "the store",
		"helm/trust/registry": "whose answers count",

		"bytes":         "the key, the question and the pack",
		"context":       "calls",
		"embed":         "its policy, wherever it is run",
		"encoding/json": "what the approver is shown",
		"errors":        "was an approval asked for?",
		"fmt":           "prints",
		"io":            "prints where a test can read",
		"os":            "the approver's key, in a file",
		"os/exec":       "the approver, in a process of his own",
		"path/filepath": "names of files",
	},
	"helm/examples/audit": {
		"helm":                      "the kernel",
		"helm/crypto":               "makes a key",
		"helm/evidence":             "writes, verifies and back-tests packs",
		"helm/evidence/erasure":     "erases what a caller asks to have forgotten",
		"helm/evidence/kept":        "the auditor's last checkpoint",
		"helm/executor":             "the type of its tools",
		"helm/guardian":             "the policy's type",
		"helm/policy":               "reads the policies",
		"helm/proofgraph/filestore": "the store",
		"helm/trust/registry":       "the auditor's trust state",

		"bytes":         "the pack that is tampered with",
		"context":       "calls",
		"embed":         "its policies, wherever it is run",
		"encoding/json": "the report as JSON, and what a tool answers",
		"errors":        "was it refused?",
		"flag":          "-pack",
		"fmt":           "prints",
		"io":            "prints where a test can read; packs are read at offsets",
		"os":            "packs are files",
		"path/filepath": "names of files",
	},
	"helm/examples/layers": {
		"helm":            "the kernel",
		"helm/crypto":     "makes a key",
		"helm/executor":   "the type of its tools",
		"helm/guardian":   "the policy's type",
		"helm/policy":     "reads the policies",
		"helm/proofgraph": "the store",

		"context":       "calls",
		"embed":         "its policies, wherever it is run",
		"encoding/json": "what the model sends",
		"fmt":           "prints",
		"io":            "prints where a test can read",
		"os":            "prints",
		"strings":       "makes the later version of the bundle",
	},
	"helm/examples/middleware": {
		"helm":            "the kernel",
		"helm/crypto":     "makes a key",
		"helm/guardian":   "the policy's type",
		"helm/policy":     "reads the policy",
		"helm/proofgraph": "the store",

		"context":       "calls",
		"embed":         "its policy, wherever it is run",
		"encoding/json": "what the model sends",
		"errors":        "was it denied?",
		"fmt":           "prints",
		"io":            "prints where a test can read",
		"os":            "prints",
		"strings":       "prints",
	},
}

// testImports is what tests import beside what some package does.
var testImports = allowed{
	"testing":          "runs them",
	"testing/iotest":   "readers that fail",
	"testing/synctest": "time that passes at once",

	"github.com/gowebpki/jcs":                  "another RFC 8785",
	"github.com/santhosh-tekuri/jsonschema/v6": "another JSON Schema",

	"github.com/stretchr/testify/assert":  "comparisons, and what differs",
	"github.com/stretchr/testify/require": "comparisons without which the test cannot go on",

	"golang.org/x/mod/sumdb/tlog": "another Merkle tree",

	"archive/tar":     "another USTAR",
	"compress/gzip":   "a compressed pack is no pack",
	"crypto/ecdsa":    "keys of another kind are refused",
	"crypto/elliptic": "and made",
	"crypto/hmac":     "HKDF by hand",
	"crypto/sha512":   "signatures by hand, under keys that are none",
	"encoding/pem":    "where the key in a file is",
	"go/ast":          "the gates read this repository",
	"go/importer":     "the exported API",
	"go/parser":       "the gates, and examples of package comments",
	"go/scanner":      "lines with code",
	"go/token":        "the gates",
	"go/types":        "the exported API",
	"log":             "examples",
	"log/slog":        "keys are never logged",
	"math/big":        "decimals without loss",
	"math/rand/v2":    "seeded, so that a failure can be seen again",
	"os/exec":         "go list; openssl; the other verifier",
	"path":            "names of packages",
	"reflect":         "compares and fills records field by field",
	"syscall":         "processor time in benchmarks",
}

func TestDeps(t *testing.T) {
	for _, breach := range checkImports(root, modulePath, imports, testImports) {
		t.Error(breach)
	}
}

// What a program that embeds the kernel links, whoever imports it.
func TestLinked(t *testing.T) {
	packages := goList(t, "{{.ImportPath}}", ".")
	if !slices.Contains(packages, modulePath) || !slices.Contains(packages, "crypto/ed25519") {
		t.Fatalf("go list names %d packages, and not what is surely linked", len(packages))
	}
	for _, p := range packages {
		for _, never := range []string{"wazero", "yaml", "filestore", "sandbox"} {
			if strings.Contains(p, never) {
				t.Errorf("the kernel links %s", p)
			}
		}
		if slices.Contains([]string{"net", "net/http", "os/exec", "plugin", "testing", "C", "runtime/cgo"}, p) {
			t.Errorf("the kernel links %s", p)
		}
	}
	modules := goList(t, "{{with .Module}}{{.Path}}{{end}}", ".", "./proofgraph")
	slices.Sort(modules)
	modules = slices.Compact(slices.DeleteFunc(modules, func(m string) bool { return m == "" }))
	if n := len(modules); n < 1 || n > 6 || !slices.Contains(modules, modulePath) {
		t.Errorf("the kernel and the store in memory link %d modules, of 6 at most: %q", n, modules)
	}
}

func goList(t *testing.T, format string, packages ...string) []string {
	t.Helper()
	list := exec.Command("go", append([]string{"list", "-deps", "-f", format}, packages...)...)
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}
