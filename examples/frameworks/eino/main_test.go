package main

import (
	"testing"

	"github.com/helmkernel/helm/examples/frameworks/internal/office"
	"github.com/helmkernel/helm/examples/frameworks/internal/officetest"
)

func TestTranscript(t *testing.T) { officetest.CheckRefund(t, office.Open, play) }

func TestOddCalls(t *testing.T) { officetest.CheckOdd(t, office.Open, play, true) }
