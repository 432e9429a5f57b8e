module github.com/helmkernel/helm/integrations/openai

go 1.26.0

require (
	github.com/helmkernel/helm v0.0.0
	github.com/openai/openai-go/v3 v3.94.0
	github.com/stretchr/testify v1.12.1
)

require (
	filippo.io/edwards25519 v1.2.0 // indirect
	github.com/coder/websocket v1.8.15 // indirect
	github.com/gowebpki/jcs v1.0.2 // indirect
	github.com/tidwall/gjson v1.20.0 // indirect
	github.com/tidwall/match v1.1.1 // indirect
	github.com/tidwall/pretty v1.2.1 // indirect
	github.com/tidwall/sjson v1.2.5 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	go.yaml.in/yaml/v4 v4.0.0 // indirect
	golang.org/x/mod v0.40.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
)

replace github.com/helmkernel/helm => ../..
