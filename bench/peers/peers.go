// Package peers keeps records in the stores that a user might take instead of HELM's.
package peers

// An Item is a record as a store takes it, under a number of its own.
type Item struct {
	Key           uint64
	Entry, Inputs []byte
}

// A Store keeps items. Many goroutines call its methods at once.
type Store interface {
	Put(items ...Item) error            // all of them are on stable storage when it returns nil
	Reopen(each func(Item) error) error // closes the store, opens it again and reads everything, in any order
}
