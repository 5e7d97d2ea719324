# `make help` lists what there is.

# The build has no version control information of its own (-buildvcs=false keeps
# builds reproducible), so the linker is told.
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
REVISION ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
LDFLAGS  := -s -w -X main.version=$(VERSION) -X main.revision=$(REVISION)

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
H2SPEC      := github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible
REDOCLY     := @redocly/cli@2.77.0
SPECTRAL    := @stoplight/spectral-cli@6.16.3
OPENAPI     := gateway/v1/openapi.yaml

# How long `make fuzz` spends on each target, and `make microbench` on each benchmark.
FUZZTIME  ?= 10m
BENCHTIME ?= 1s
# How many conversations and requests `make prove` holds, and how many at a time.
PROVE     ?= 10000000
PROVESTEP ?= 250000
BENCH     ?= .
PKG       ?= ./...

# What is tested is built as what is released is, so that both share one build
# cache. nomsgpack leaves out a codec that gin can use and the gateway does not. The other
# tags leave templates out, because of which the linker would keep every
# method of every type: a third of the program.
TAGS := nomsgpack,grpcnotrace,urfave_cli_no_template
export GOFLAGS += -trimpath -tags=$(TAGS)
export CGO_ENABLED ?= 0

.DEFAULT_GOAL := help
.PHONY: help tags build demo quick test race simulate nightly real simulate-mutants bench microbench conformance fuzz prove release lint axe fmt vet staticcheck openapi helm vuln

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

tags:
	@echo $(TAGS)

build: ## build bin/inquiry-gateway, static
	go build -buildvcs=false -ldflags '$(LDFLAGS)' -o bin/inquiry-gateway ./cmd/inquiry-gateway

# A first build takes half the time without inlining and debugging data.
demo: ## start the demo: gateway, legacy system, sample keys
	go run -gcflags='all=-l -dwarf=false' ./cmd/inquiry-gateway demo

quick: ## check formatting, build, and vet and test what differs from the last commit, without whole programs
	@.ci/quick $(if $(filter command,$(firstword $(origin PKG))),$(PKG))

test: ## run all tests (installs Redis and Chromium where it may); ONCE=yes as .ci/run does, each once, under the race detector where there are goroutines
	@.ci/packages
	@.ci/test $(if $(ONCE),--once) $(PKG)

race: ## run all tests under the race detector: three times as long
	@.ci/packages
	@CGO_ENABLED=1 .ci/test -race $(PKG)

simulate: ## simulate a fleet with faults in virtual time: new seeds FOR=10m, SEED=n again, or SEEDS=1000 from SEED on, each RUNS=5 times
	go test ./internal/simulation -run '^TestSeeds$$' -count=1 -timeout 0 -v -args -from $(or $(SEED),0) -seeds $(or $(SEEDS),$(if $(SEED),1,0)) -runs $(or $(RUNS),1) -for $(or $(FOR),30s)

nightly: ## what is drawn by chance, each night anew: the simulation, bugs planted in it, properties, the front beside net/http, fuzzing, h2spec, real systems: three hours
	@.ci/packages
	@.ci/nightly

real: ## install real ticket systems and proxies, fill them, and compare what callers get with what was put in: an hour (ONLY=redmine)
	@.ci/packages
	go test -tags real,$(TAGS) ./internal/real -run '(?i)^Test$(subst -,,$(ONLY))' -count=1 -v -timeout 75m

simulate-mutants: ## plant known bugs and have each found: a quarter of an hour (BUG=regexp)
	go test ./internal/simulation -run '^TestMutants$$' -count=1 -timeout 0 -v -args -mutants '$(or $(BUG),.)'

bench: ## measure what a request costs, against bare net/http, nginx, Varnish and a proxy (ROUNDS=5)
	deploy/load/run

microbench: ## run the Go benchmarks (BENCH=regexp PKG=./cache BENCHTIME=1s)
	go test -run '^$$' -bench '$(BENCH)' -benchmem -benchtime $(BENCHTIME) $(PKG)

conformance: ## hold the RFCs' conversations with the gateway, then h2spec: two minutes
	GOBIN=$(CURDIR)/bin go install $(H2SPEC)
	go test ./internal/conformance -count=1 -timeout 10m -args -h2spec $(CURDIR)/bin/h2spec

fuzz: ## fuzz every target in turn for FUZZTIME each, on one processor: hours (PKG=./upstream/...)
	@.ci/fuzz $(FUZZTIME) $(PKG)

prove: ## hold PROVE conversations with the fast path and without it, then PROVE requests under the race detector: hours
	@.ci/prove $(PROVE) $(PROVESTEP)

release: ## build dist: binaries for Linux and macOS, SBOMs, Debian and RPM packages, checksums
	.ci/release dist

lint: fmt vet staticcheck openapi helm ## check formatting, vet, staticcheck, the OpenAPI document and the chart

fmt: ## fail where gofmt would change a file
	@unformatted=$$(gofmt -s -l .); \
	if [ -n "$$unformatted" ]; then echo "not formatted; run gofmt -s -w on:"; echo "$$unformatted"; exit 1; fi

vet: ## run go vet
	go vet $(PKG)
	go vet -tags real,$(TAGS) ./internal/real

staticcheck: ## run staticcheck
	go run $(STATICCHECK) $(PKG)

openapi: ## lint the OpenAPI document with redocly and spectral
	REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true npx --yes $(REDOCLY) lint --config gateway/v1/redocly.yaml $(OPENAPI)
	npx --yes $(SPECTRAL) lint --ruleset gateway/v1/spectral.yaml --fail-severity hint $(OPENAPI)

axe: ## check the accessibility of the pages with axe-core
	AXE_CORE=$$(.ci/axe) go test ./gateway/v1 ./gateway/ops/console -run InABrowser

vuln: ## look for known vulnerabilities in what is built (needs the vulnerability database: not in .ci/run)
	go run golang.org/x/vuln/cmd/govulncheck@latest ./...

helm: ## lint and render the Helm chart (builds helm: minutes the first time)
	go vet -tags helm,$(TAGS) ./deploy/helm
	go test -tags helm,$(TAGS) -timeout 15m ./deploy/helm
