package filestore_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore"
)

// A store is opened again, as after a restart, and read by an auditor meanwhile. A log decides what
// is appended: see [proofgraph.Open].
func Example() {
	base, err := os.MkdirTemp("", "filestore-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(base)
	ctx, dir := context.Background(), filepath.Join(base, "log")

	store, err := filestore.Open(dir, filestore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	if err := store.Append(ctx,
		proofgraph.Batch{Entries: []contracts.Entry{[]byte("first"), []byte("second")}}); err != nil {
		log.Fatal(err)
	}
	if err := store.Close(); err != nil {
		log.Fatal(err)
	}

	store, err = filestore.Open(dir, filestore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	auditor, err := filestore.OpenReadOnly(dir)
	if err != nil {
		log.Fatal(err)
	}
	defer auditor.Close()
	for e, err := range auditor.Entries(ctx, 0, 2) {
		fmt.Println(string(e), err)
	}
	// Output:
	// first <nil>
	// second <nil>
}
