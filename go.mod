module github.com/helmkernel/helm

go 1.25.0

require (
	filippo.io/edwards25519 v1.2.0
	github.com/gowebpki/jcs v1.0.2
)
