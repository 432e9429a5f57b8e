package proofgraph_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
)

// A user's message is put on record, and the log signed.
func Example() {
	key, err := crypto.NewKeyFromSeed([]byte("an example key of 32 bytes, sure")) // yours comes from crypto.LoadKey
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, store := context.Background(), proofgraph.NewMemory()
	log, err := proofgraph.Open(ctx, store, proofgraph.Options{
		Origin: "example.com/log", Key: key, LogKey: crypto.DeriveLogKey(key), Trust: []byte("{}"), Now: 1767225600000},
		nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := say(log, "chat-1", "Please tidy up my mailbox."); err != nil {
		fmt.Println(err)
		return
	}
	c, err := log.Checkpoint(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(string(c.Note))
	// Output:
	// example.com/log
	// 2
	// AJobi+/76DuIxo3cLw6sADbag3BSaWipLCKDZbF6W7U=
	//
	// — example.com/log P0pBm4DxpOjI6bUKSmfITjyN+QcWth1Er6Ji5tV6eN06QAZdIuKUTO9GKbLyYnRCC1NIAEcBri81FVEd9RJ+Z0aKTAo=
}

func say(log *proofgraph.Log, session, text string) error {
	chain := log.Chain(session) // hold the session's lock from here until Place returns
	slot, err := log.Place(proofgraph.Draft{
		Chain: chain,
		Time:  max(chain.Time(), 1767225601000),
		Write: func(at proofgraph.Place) (*contracts.Statement, error) {
			blob := []byte(text)
			at.Keep(blob)
			return &contracts.Statement{Message: &contracts.Message{TextHash: crypto.Sum(blob)}}, nil
		},
	})
	if err != nil {
		return err
	}
	return slot.Wait() // and let go of the lock before this
}

// A checkpoint comes from elsewhere: take it apart, then look for the log's signature.
func ExampleParseCheckpoint() {
	key, err := crypto.NewKeyFromSeed([]byte("an example key of 32 bytes, sure"))
	if err != nil {
		fmt.Println(err)
		return
	}
	public, err := crypto.PublicOf(crypto.DeriveLogKey(key))
	if err != nil {
		fmt.Println(err)
		return
	}
	c, lines, err := proofgraph.ParseCheckpoint([]byte(note))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Size, c.SignedBy(lines[0], public))
	fmt.Println(proofgraph.VerifierKey(c.Origin, public))
	_, _, err = proofgraph.ParseCheckpoint([]byte(strings.Replace(note, "\n2\n", "\n02\n", 1)))
	fmt.Println(err)
	// Output:
	// 2 true
	// example.com/log+3f4a419b+AVOJqTV8bbLifI8EBiciE5ORT9cRcqbMmNbuIj3B3LhG
	// proofgraph: checkpoint: line 2 is not a number of entries
}

const note = `example.com/log
2
AJobi+/76DuIxo3cLw6sADbag3BSaWipLCKDZbF6W7U=

— example.com/log P0pBm4DxpOjI6bUKSmfITjyN+QcWth1Er6Ji5tV6eN06QAZdIuKUTO9GKbLyYnRCC1NIAEcBri81FVEd9RJ+Z0aKTAo=
`
