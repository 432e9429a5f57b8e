package conformance

import "io/fs"

// vectorsOf are the vectors of a gate, as cases. If they cannot be read, there is a case that says
// so.
func vectorsOf(number int, answer func(t *trial, v fs.FS, name string) ([]byte, error)) (list []gateCase) {
	v := Vectors()
	all, err := vectorCases(v)
	if err != nil {
		return []gateCase{{"vectors", func(t *trial) { t.must(err, "reading the vectors") }}}
	}
	for _, x := range all {
		if x.Gate != number {
			continue
		}
		list = append(list, gateCase{"vectors/" + x.Name, func(t *trial) {
			want, err := fs.ReadFile(v, x.Name+"/want.json")
			t.must(err, "the answer that is wanted")
			got, err := answer(t, v, x.Name)
			t.must(err, "answering")
			t.must(sameAnswer(want, got), "another answer")
		}})
	}
	return list
}
