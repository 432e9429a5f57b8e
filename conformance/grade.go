package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/helmkernel/helm/crypto"
)

// What gates that were not graded say.
const (
	noKernel = "graded from answers in files: no kernel ran"
	noMeter  = "no answer to a case of meter"
)

// maxAnswers bounds a file of answers.
const maxAnswers = 64 << 20

// Grade compares the answers of an implementation with the vectors: [Vectors] returns those of this
// version. Each line of answers is a JSON object such as
//
//	{"case": "packs/0031", "answer": {"level": "INVALID", "check": "CHAIN", "entry": 4}}
//
// in any order. An answer that is wrong, or missing, is a failure of the case's gate. The error is
// about the files: vectors that differ from their list, a line that is no answer, an answer to no
// case, two answers to one.
//
// Answers reach [Format] at most, since the other gates need a kernel that runs: the report says of
// each that it was NOT RUN. The gate of the sandbox has cases, which count for no level. It was NOT
// RUN if none of them was answered.
//
// The report's Digest is that of the answers. Name and Version of the implementation, and the Time,
// are for the caller to set before it is signed.
func Grade(vectors fs.FS, answers io.Reader) (Report, error) {
	digest, err := vectorsDigest(vectors)
	if err != nil {
		return Report{}, err
	}
	cases, err := vectorCases(vectors)
	if err != nil {
		return Report{}, err
	}
	text, err := io.ReadAll(io.LimitReader(answers, maxAnswers+1))
	if err != nil {
		return Report{}, fmt.Errorf("conformance: answers: %w", err)
	}
	given, err := readAnswers(text)
	if err != nil {
		return Report{}, err
	}
	g := grading{given: given}
	for _, c := range cases {
		want, err := fs.ReadFile(vectors, c.Name+"/"+wantFile)
		if err != nil {
			return Report{}, vectorsError(err)
		}
		g.grade(c, want)
	}
	for name := range g.given {
		return Report{}, fmt.Errorf("conformance: answers: %q is no case", name)
	}
	r := Report{Gates: g.gates(), Vectors: digest, Implementation: Implementation{Digest: crypto.Sum(text)}}
	r.setLevel()
	return r, nil
}

// readAnswers reads the lines of answers.jsonl.
func readAnswers(text []byte) (map[string][]byte, error) {
	if len(text) > maxAnswers {
		return nil, errors.New("conformance: answers: more than 64 MiB")
	}
	given := map[string][]byte{}
	number := 0
	for line := range bytes.Lines(text) {
		number++
		bad := func(what string) error { return fmt.Errorf("conformance: answers: line %d: %s", number, what) }
		var tree crypto.Tree
		err := tree.Parse(line, crypto.Limits{Bytes: maxAnswer, Depth: crypto.MaxDepth, Object: true})
		if err != nil {
			return nil, bad(err.Error())
		}
		name, answer := tree.Root().Get("case"), tree.Root().Get("answer")
		switch {
		case name.Kind() != crypto.String || !answer.Exists() || tree.Root().Len() != 2:
			return nil, bad(`not an object of "case" and "answer"`)
		case given[name.Text()] != nil:
			return nil, bad(fmt.Sprintf("a second answer to %q", name.Text()))
		}
		given[name.Text()] = answer.Append(nil)
	}
	return given, nil
}

// A grading is what was found so far.
type grading struct {
	given    map[string][]byte // answers not graded yet
	cases    [len(gateNames)][]string
	failed   [len(gateNames)][]Failure
	answered [len(gateNames)]int
}

// grade compares the answer to a case.
func (g *grading) grade(c vectorCase, want []byte) {
	i := c.Gate - 1
	g.cases[i] = append(g.cases[i], c.Name)
	got, ok := g.given[c.Name]
	delete(g.given, c.Name)
	err := errors.New("no answer")
	if ok {
		g.answered[i]++
		err = sameAnswer(want, got)
	}
	if err != nil {
		g.failed[i] = append(g.failed[i], Failure{c.Name, err.Error()})
	}
}

// gates returns the results.
func (g *grading) gates() (list []Gate) {
	for i, name := range gateNames {
		switch graded := i == 0 || i >= 4 && i <= 7; {
		case i == 2 && len(g.cases[i]) > 0 && g.answered[i] == 0:
			list = append(list, notRun(name, noMeter))
		case graded || i == 2 && len(g.cases[i]) > 0:
			list = append(list, newGate(name, g.cases[i], g.failed[i]))
		default:
			list = append(list, notRun(name, noKernel))
		}
	}
	return list
}
