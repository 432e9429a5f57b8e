// The implementations that HELM is held to here are those of others, at exact versions. They are linked into tests of this module alone.
module github.com/helmkernel/helm/interop

go 1.25.0

require (
	github.com/cyberphone/json-canonicalization v0.0.0-20241213102144-19d51d7fe467 // Apache-2.0: RFC 8785, by its author
	github.com/gowebpki/jcs v1.0.2 // Apache-2.0: RFC 8785
	github.com/helmkernel/helm v0.0.0
	github.com/helmkernel/helm/integrations/witness v0.0.0
	github.com/in-toto/attestation v1.2.0 // Apache-2.0: in-toto statements
	github.com/secure-systems-lab/go-securesystemslib v0.11.1 // MIT: DSSE, Ed25519 keys
	github.com/transparency-dev/formats v0.1.1 // Apache-2.0: tlog-checkpoint
	github.com/transparency-dev/merkle v0.0.2 // Apache-2.0: RFC 6962
	github.com/transparency-dev/tessera v1.0.4 // Apache-2.0: a log that asks witnesses; links golang-lru, MPL-2.0
	golang.org/x/mod v0.40.0 // BSD-3-Clause: signed notes
	google.golang.org/protobuf v1.36.11 // BSD-3-Clause: the JSON that in-toto's types are read from
)

require github.com/stretchr/testify v1.12.1

require (
	filippo.io/edwards25519 v1.2.0 // indirect
	filippo.io/mldsa v0.0.0-20260215214346-43d0283efc3e // indirect
	github.com/cenkalti/backoff/v5 v5.0.3 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/go-logr/logr v1.4.3 // indirect
	github.com/go-logr/stdr v1.2.2 // indirect
	github.com/hashicorp/golang-lru/v2 v2.0.7 // indirect
	go.opentelemetry.io/auto/sdk v1.2.1 // indirect
	go.opentelemetry.io/otel v1.40.0 // indirect
	go.opentelemetry.io/otel/metric v1.40.0 // indirect
	go.opentelemetry.io/otel/trace v1.40.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	go.yaml.in/yaml/v4 v4.0.0 // indirect
	golang.org/x/crypto v0.55.0 // indirect
	golang.org/x/exp v0.0.0-20240325151524-a685a6edb6d8 // indirect
	golang.org/x/sync v0.19.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
	k8s.io/klog/v2 v2.130.1 // indirect
)

replace (
	github.com/helmkernel/helm => ../
	github.com/helmkernel/helm/integrations/witness => ../integrations/witness
)
