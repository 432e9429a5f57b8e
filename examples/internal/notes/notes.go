// Package notes has tools on files in a directory, for examples.
package notes

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/executor"
)

// Files are real tools on a real directory. os.Root keeps them in it, links included, whatever the
// policy says.
type Files struct {
	dir  string
	root *os.Root
}

// New makes a directory with some notes.
func New() (*Files, error) {
	dir, err := os.MkdirTemp("", "helm-quickstart-files-")
	if err != nil {
		return nil, err
	}
	f := &Files{dir: dir}
	if err := f.fill(); err != nil {
		f.Remove()
		return nil, err
	}
	return f, nil
}

func (f *Files) fill() error {
	for name, text := range map[string]string{
		"notes/todo.txt":  "call Ada\npay the hosting\nempty the trash\n",
		"notes/.env":      "TOKEN=secret\n",
		"trash/draft.txt": "an old draft\n",
	} {
		name = filepath.Join(f.dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	if err := os.Symlink("/etc/hostname", filepath.Join(f.dir, "notes", "outside")); err != nil {
		return err
	}
	var err error
	f.root, err = os.OpenRoot(f.dir)
	return err
}

// Remove removes the directory.
func (f *Files) Remove() {
	if f.root != nil {
		f.root.Close()
	}
	os.RemoveAll(f.dir)
}

func inside(path string) string { return strings.TrimPrefix(path, "/") }

type listArgs struct {
	Limit int    `json:"limit"`
	Path  string `json:"path"`
}

func (f *Files) list(_ context.Context, a listArgs) ([]string, error) {
	entries, err := fs.ReadDir(f.root.FS(), inside(a.Path))
	names := []string{}
	for _, e := range entries[:min(a.Limit, len(entries))] {
		names = append(names, e.Name())
	}
	return names, err
}

type pathArgs struct {
	Path string `json:"path"`
}

type content struct {
	Text string `json:"text"`
}

func (f *Files) read(_ context.Context, a pathArgs) (content, error) {
	b, err := f.root.ReadFile(inside(a.Path))
	return content{string(b)}, err
}

// stat returns a result of another form than the pinned one, as a connector does after an
// unannounced upgrade.
func (f *Files) stat(_ context.Context, a pathArgs) (any, error) {
	info, err := f.root.Stat(inside(a.Path))
	if err != nil {
		return nil, err
	}
	return map[string]string{"size": fmt.Sprint(info.Size(), " bytes")}, nil
}

type writeArgs struct {
	Path string `json:"path"`
	Text string `json:"text"`
}

type written struct {
	Written int `json:"written"`
}

func (f *Files) write(_ context.Context, a writeArgs) (written, error) {
	return written{len(a.Text)}, f.root.WriteFile(inside(a.Path), []byte(a.Text), 0o644)
}

func (f *Files) delete(_ context.Context, a pathArgs) (any, error) {
	return nil, f.root.Remove(inside(a.Path))
}

// Drivers returns the tools by name, as the kernel runs them.
func (f *Files) Drivers() map[string]executor.Driver {
	return map[string]executor.Driver{
		"fs.list":   tool(f.list),
		"fs.read":   tool(f.read),
		"fs.stat":   tool(f.stat),
		"fs.write":  tool(f.write),
		"fs.delete": tool(f.delete),
	}
}

// tool makes a driver of a Go function. The arguments were judged: they have passed the tool's
// schema.
func tool[In, Out any](fn func(context.Context, In) (Out, error)) helm.Func {
	return func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
		var in In
		if err := json.Unmarshal(args, &in); err != nil {
			return nil, err
		}
		out, err := fn(ctx, in)
		if err != nil {
			return nil, err
		}
		return json.Marshal(out)
	}
}
