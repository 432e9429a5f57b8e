// Package helmtest tests a program's own parts of helm.
//
// [Store] tests a store. This is the test of one that keeps its log in a directory:
//
//	func TestContract(t *testing.T) {
//		helmtest.Store(t, func(t *testing.T) func() proofgraph.Store {
//			dir := t.TempDir()
//			return func() proofgraph.Store {
//				s, err := filestore.Open(dir, filestore.Options{})
//				require.NoError(t, err)
//				return s
//			}
//		})
//	}
//
// In place of the directory, a store over a database makes a schema and one over objects a prefix,
// which t.Cleanup drops. A store in memory lasts as long as the test, so its open returns the same
// store each time:
//
//	m := proofgraph.NewMemory()
//	return func() proofgraph.Store { return m }
//
// Run it with -race: half of the contract is about what happens concurrently. It makes about a
// thousand appends, a quarter of them with -short, and more if they are quick.
package helmtest
