module github.com/helmkernel/helm/integrations/witness

go 1.25.0

require (
	github.com/helmkernel/helm v0.0.0
	github.com/stretchr/testify v1.12.1
	golang.org/x/mod v0.40.0
)

require (
	filippo.io/edwards25519 v1.2.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)

replace github.com/helmkernel/helm => ../..
