# The commands of this repository; .ci/run calls them all. See CONTRIBUTING.md.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := short
ifeq ($(filter oneshell,$(.FEATURES)),)
$(error GNU make 3.82 or newer is needed: an older one ignores .SHELLFLAGS, and would go on after failures)
endif
.PHONY: test short shared postgres race lint fuzz bench api measures examples modules tidy vuln suite pages clients

# Tools are pinned, and are built outside this module: go.mod does not name them.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
REVIVE      := github.com/mgechev/revive@v1.17.0
MISSPELL    := github.com/golangci/misspell/cmd/misspell@v0.8.0
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.8.0

# A count: a fuzz run that ends by the clock fails now and then with "context deadline exceeded".
FUZZTIME ?= 10000x

# The tests of all modules of the workspace.
test:
	go test work

# The same without the long runs: crashes, random logs and everything that is built again.
short:
	go test -short ./...

# The kernel's tests once more, over a store that several kernels write to. Those of letting go are of
# stores that a kernel has for itself.
shared:
	HELM_TEST_STORE=shared go test -count 1 -vet=off . $$(go list ./internal/acceptance/... | grep -v -e /letgo$$ -e /bench$$)

# The short ones of these over PostgreSQL, with a file of integrations/postgres laid over
# internal/kerneltest: this module does not name the driver. A server is started for each package.
# Left out are tests of thousands of appends, and packages whose clock is that of synctest (waiting)
# or that make stores of their own (replicas, letgo, bench).
postgres:
	HELM_TEST_STORE=postgres go test -overlay integrations/postgres/testdata/overlay.json -short -count 1 -vet=off \
		-skip '^(TestHammer|TestRotateAtRandom|TestSignerFailsAtEverySignature)$$' \
		. $$(go list ./internal/acceptance/... | grep -v -e /letgo$$ -e /bench$$ -e /replicas$$ -e /waiting$$)

# Without internal/check, which reads files and runs the go command; lint has vetted. The modules
# below this one are raced by themselves: see modules.
race:
	go test -race -vet=off $$(go list ./... | grep -v '/internal/check$$')

lint:
	@files=$$(find . -name '*.go' -not -path './.git/*' | wc -l); \
	[ "$$files" -gt 0 ] || { echo 'there are no Go files' >&2; exit 1; }; \
	unformatted=$$(gofmt -l .); \
	[ -z "$$unformatted" ] || { echo "gofmt would change: $$unformatted" >&2; exit 1; }; \
	echo "$$files files are formatted"
	go vet work
	go run $(STATICCHECK) work
	go run $(REVIVE) -config .ci/revive.toml ./...
	git ls-files '*.go' '*.md' '*.yaml' '*.yml' Makefile .ci | xargs go run $(MISSPELL) -error -i nmae,aproval,ouput

# Each fuzz target by its name: -fuzz takes one target, and a pattern that matches none passes.
# Without helmtest: an input of its targets is a kernel and its log, and the tests run their seeds.
fuzz:
	@targets=0; \
	for package in $$(go list -f '{{.Dir}}' work | grep -v '/helmtest$$'); do \
		grep -qs '^func Fuzz' "$$package"/*_test.go || continue; \
		listed=$$(go test -list '^Fuzz' "$$package"); \
		for name in $$(grep '^Fuzz' <<<"$$listed" || true); do \
			echo "$$package $$name"; \
			go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x "$$package"; \
			targets=$$((targets + 1)); \
		done; \
	done; \
	[ "$$targets" -gt 0 ] || { echo 'no fuzz target was found' >&2; exit 1; }; \
	echo "$$targets targets"

# Every benchmark once, so that each still runs. For figures see bench/README.md.
bench:
	@packages=$$(for package in $$(go list -f '{{.Dir}}' ./...); do \
		! grep -qs '^func Benchmark' "$$package"/*_test.go || echo "$$package"; done); \
	figures=$$(go test -run '^$$' -bench . -benchtime 1x $$packages) || { printf '%s\n' "$$figures"; exit 1; }; \
	grep '^Benchmark' <<<"$$figures" || { echo 'no benchmark ran' >&2; exit 1; }

# Rewrites testdata/api.txt.
api:
	go test ./internal/check -run TestAPI -update

measures:
	go test ./internal/check -run 'TestMeasures|TestTrace' -count 1 -v

# That of years plays one year of its five; that of replicas says so if there is no PostgreSQL server.
examples:
	@examples=0; \
	for main in examples/*/main.go; do \
		[ -f "$$main" ] || continue; \
		echo "$$(dirname "$$main")"; \
		arguments=; [ "$$main" != examples/years/main.go ] || arguments='-days 364'; \
		go run "./$$(dirname "$$main")" $$arguments; \
		examples=$$((examples + 1)); \
	done; \
	[ "$$examples" -gt 0 ] || { echo 'there is no example' >&2; exit 1; }; \
	echo "$$examples examples"

# The modules that stand below this one, each by itself: see .ci/module. Much of their time is waiting,
# so three of them run at the same time.
modules:
	@modules=$$(find . -mindepth 2 -name go.mod -not -path '*/testdata/*' -exec dirname {} \; | sort); \
	[ -n "$$modules" ] || { echo 'no module was found' >&2; exit 1; }; \
	STATICCHECK=$(STATICCHECK) xargs -P 3 -n 1 .ci/module <<<"$$modules"; \
	echo "$$(wc -l <<<"$$modules") modules"

# The conformance suite and the inspector of the Model Context Protocol, against the gateway. They
# come from the registry of npm, once, and stay in the user's cache.
suite:
	@code=0; dir=$$(integrations/mcp/suite/fetch) || code=$$?; \
	case $$code in \
	0) HELM_MCP_SUITE="$$dir" go test -count 1 -run '^TestSuite' -v ./integrations/mcp ./cmd/helm ;; \
	3) echo "not run: the conformance suite of MCP: $$dir" ;; \
	*) exit 1 ;; \
	esac

# The pages, in a Chromium that comes from the registry of npm, once, and stays in the user's cache.
# Pictures of them are written to the directory in HELM_SHOTS, if there is one.
pages:
	@code=0; dir=$$(faces/viewtest/fetch) || code=$$?; \
	case $$code in \
	0) cd faces/viewtest && GOWORK=off HELM_BROWSER="$$dir" go test -count 1 -v ./... ;; \
	3) echo "not run: the tests of pages in a browser: $$dir" ;; \
	*) exit 1 ;; \
	esac

# Clients of npm, and the agents codex and pi, through the proxy. They come from its registry, once, and stay in the
# user's cache.
clients:
	@for of in npm codex pi; do \
		code=0; dir=$$(integrations/mcp/suite/fetch faces/clienttest/$$of) || code=$$?; \
		case $$code in \
		0) (cd faces/clienttest && env GOWORK=off "HELM_$${of^^}=$$dir" go test -count 1 -vet=off -run "(?i)^Test($$of|agentsof$$of)$$" -v .) ;; \
		3) echo "not run: the clients of $$of: $$dir" ;; \
		*) exit 1 ;; \
		esac; \
	done

# Modules are as go.sum says, and go.mod names what is used.
tidy:
	go mod verify
	go mod tidy -diff

# It fails if a vulnerability is known in code that is called, and says if it could not look.
vuln:
	@tools=$$(mktemp -d); trap 'rm -rf "$$tools"' EXIT; \
	if ! GOBIN="$$tools" go install $(GOVULNCHECK) 2>"$$tools/log"; then \
		echo "not run: govulncheck cannot be installed: $$(tail -n 1 "$$tools/log")"; exit 0; \
	fi; \
	code=0; "$$tools/govulncheck" ./... >"$$tools/log" 2>&1 || code=$$?; \
	case $$code in \
	0) cat "$$tools/log" ;; \
	3) cat "$$tools/log"; exit 1 ;; \
	*) echo "not run: $$(tail -n 1 "$$tools/log")" ;; \
	esac
