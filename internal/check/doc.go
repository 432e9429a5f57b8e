// Package check tests what the repository promises about itself: which package may import what
// (TestDeps), which names users have (TestAPI), that the documents name tests and files that exist
// (TestDocuments), and the measures of its code (TestMeasures). It has no code but tests.
//
// CONTRIBUTING.md says how each of these gates is changed.
package check
