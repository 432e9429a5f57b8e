// Guest is a program for a sandbox: it looks at its world by the standard library, tries the ways
// out of it, and prints what it found.
package main

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"time"
)

func main() {
	var in struct{ Paths []string }
	if err := json.NewDecoder(os.Stdin).Decode(&in); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	out := map[string]any{"args": os.Args, "env": os.Environ(), "math": math.Sqrt(2) * math.Sin(1)}
	before := time.Now()
	time.Sleep(time.Millisecond)
	out["now"], out["slept"] = before.UnixNano(), time.Since(before) >= time.Millisecond
	random := make([]byte, 16)
	rand.Read(random)
	out["random"] = random
	for _, path := range in.Paths {
		out[path] = look(path)
	}
	_, err := net.Dial("tcp", "127.0.0.1:80")
	out["dial"] = err != nil
	json.NewEncoder(os.Stdout).Encode(out)
}

// look reads a file, or lists a directory, or says why not.
func look(path string) any {
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return err.Error()
	} else if info.IsDir() {
		names, err := f.Readdirnames(-1)
		if err != nil {
			return err.Error()
		}
		return names
	}
	content, err := io.ReadAll(f)
	if err != nil {
		return err.Error()
	}
	return string(content)
}
