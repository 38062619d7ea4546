# Everything here needs Go and make alone. `make help` lists the verbs.

GO    ?= go
BIN   := bin/diskgnn
TOOLS := $(GO) tool -modfile=internal/tools/go.mod
# Time given to each fuzz target by `make fuzz`.
FUZZTIME ?= 30s

.DEFAULT_GOAL := help
.PHONY: help build test test-race test-nocgo test-kill lint fuzz bench demo clean

help: ## list the verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build bin/diskgnn
	$(GO) build -o $(BIN) ./cmd/diskgnn

test: ## run all tests (under five minutes on two cores)
	$(GO) test ./...

test-race: ## run all tests under the race detector (needs a C compiler)
	CGO_ENABLED=1 $(GO) test -race ./...

test-nocgo: ## build everything and run all tests without cgo
	CGO_ENABLED=0 $(GO) build ./...
	CGO_ENABLED=0 $(GO) test ./...

test-kill: ## kill training at 50 random moments and compare what the resumed runs end with
	DISKGNN_KILLS=50 $(GO) test -count=1 -v -run '^TestKill$$' -timeout 30m ./cmd/diskgnn

lint: ## gofmt, go vet, staticcheck, and the layers that imports follow
	@unformatted=$$(gofmt -l .); \
	if [ -n "$$unformatted" ]; then echo "not formatted by gofmt:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	CGO_ENABLED=0 $(GO) build ./...
	$(TOOLS) staticcheck ./...
	$(GO) test -count=1 ./internal/deps

fuzz: ## fuzz every decoder for FUZZTIME each
	@set -e; for pkg in $$($(GO) list ./...); do \
		for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "== $$pkg $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$pkg; \
		done; \
	done

bench: ## run every Go benchmark
	$(GO) test -run '^$$' -bench . -benchmem ./...

demo: build ## the whole pipeline on a generated graph, in two minutes
	$(GO) run ./internal/demo -diskgnn $(BIN) -dir demo

clean: ## remove what build and demo made
	rm -rf bin demo
	$(GO) clean -testcache
