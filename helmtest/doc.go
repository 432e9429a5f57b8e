// Package helmtest is for the tests of programs that have a part of helm of their own.
//
// [Store] tests a store. This is the test of one that keeps its log in a directory:
//
//	func TestContract(t *testing.T) {
//		helmtest.Store(t, func(t *testing.T) func() proofgraph.Store {
//			dir := t.TempDir()
//			return func() proofgraph.Store {
//				s, err := filestore.Open(dir, filestore.Options{})
//				if err != nil {
//					t.Fatal(err)
//				}
//				return s
//			}
//		})
//	}
//
// In the place of the directory a store over a database makes a schema, one over objects a prefix, and t.Cleanup drops it. A store in memory
// is what it was as long as the test runs, so that its open gives the same one each time:
//
//	m := proofgraph.NewMemory()
//	return func() proofgraph.Store { return m }
//
// Run it with -race: half of the contract is about who does what at the same time. It makes about a thousand appends, with -short a quarter
// of them, and more where they are quick.
package helmtest
