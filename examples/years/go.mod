module github.com/helmkernel/helm/examples/years

go 1.25.0

require (
	github.com/helmkernel/helm v0.0.0
	github.com/helmkernel/helm/integrations/witness v0.0.0
	github.com/stretchr/testify v1.12.1
)

require (
	filippo.io/edwards25519 v1.2.0 // indirect
	github.com/gowebpki/jcs v1.0.2 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	go.yaml.in/yaml/v4 v4.0.0 // indirect
	golang.org/x/mod v0.40.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
)

replace (
	github.com/helmkernel/helm => ../..
	github.com/helmkernel/helm/integrations/witness => ../../integrations/witness
)
