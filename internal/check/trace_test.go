package check

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const recorderPath = "internal/check/recorder" // it exists in the overlay alone

// TestTrace prints the files that one allowed call enters, over the store in memory and on one
// processor: the files to open for following it. It is no gate.
//
//	go test ./internal/check -run TestTrace -v
func TestTrace(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds every package once more")
	}
	t.Parallel()
	var files, packages, root []string
	functions, stays, last := make(map[string]bool), []string(nil), ""
	for line := range strings.Lines(trace(t)) {
		file, function, _ := strings.Cut(strings.TrimSpace(line), " ")
		files, packages = append(files, file), append(packages, path.Dir(file))
		functions[file+" "+function] = true
		if path.Dir(file) == "." {
			root = append(root, file)
			if file != last {
				stays = append(stays, strings.TrimSuffix(file, ".go"))
			}
			last = file
		}
	}
	count := func(names []string) int {
		slices.Sort(names)
		return len(slices.Compact(names))
	}
	require.NotEmpty(t, stays)
	t.Logf("%d files in %d packages, %d functions; of the root %d files in %d stays (at 1273a18 63 files in 9, 263; "+
		"17 in 45):\n%s",
		count(files), count(packages), len(functions), count(root), len(stays), strings.Join(stays, " "))
}

// trace runs testdata/trace with a note at the entry of each function of the module.
func trace(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	overlay := make(map[string]string)
	from, err := filepath.Abs(root)
	require.NoError(t, err)
	replace := func(name string, text []byte) {
		file := filepath.Join(dir, fmt.Sprintf("%d.go", len(overlay)))
		require.NoError(t, os.WriteFile(file, text, 0o666))
		overlay[filepath.Join(from, filepath.FromSlash(name))] = file
	}
	tr := readTree(t, root)
	for _, s := range tr.files {
		if !s.test() && s.syntax.Name.Name != "main" {
			replace(s.path(), tr.noted(s))
		}
	}
	for name, place := range map[string]string{"recorder.go": recorderPath, "main.go": "internal/check/trace"} {
		text, err := os.ReadFile("testdata/trace/" + name)
		require.NoError(t, err)
		replace(place+"/"+name, text)
	}
	list := filepath.Join(dir, "overlay.json")
	text, err := json.Marshal(map[string]any{"Replace": overlay})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(list, text, 0o666))

	program := filepath.Join(dir, "trace")
	build := exec.Command("go", "build", "-overlay", list, "-o", program, "./internal/check/trace")
	build.Dir = root
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	run := exec.Command(program)
	run.Env = append(os.Environ(), "GOMAXPROCS=1")
	out, err = run.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// noted returns a file's text with a call of the recorder at the entry of each function.
func (tr *tree) noted(s source) []byte {
	var b strings.Builder
	done := 0
	insert := func(after int, text string) {
		b.Write(s.text[done:after])
		b.WriteString(text)
		done = after
	}
	offset := func(n ast.Node) int { return tr.fset.Position(n.Pos()).Offset }
	insert(tr.fset.Position(s.syntax.Name.End()).Offset, fmt.Sprintf("; import recorder %q",
		modulePath+"/"+recorderPath))
	for _, d := range s.syntax.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
			insert(offset(f.Body)+1, fmt.Sprintf("recorder.Enter(%q, %q);", s.path(), f.Name.Name))
		}
	}
	insert(len(s.text), "\nvar _ = recorder.Enter\n")
	return []byte(b.String())
}
