package conformance_test

import (
	"fmt"
	"log"
	"os"

	"github.com/helmkernel/helm/conformance"
)

// The answers of another implementation, which read the files of the vectors.
func ExampleGrade() {
	answers, err := os.Open("answers.jsonl")
	if err != nil {
		log.Fatal(err)
	}
	defer answers.Close()
	report, err := conformance.Grade(conformance.Vectors(), answers)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(report)
}
