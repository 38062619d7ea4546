# Everything here needs Go and make alone; the gpu verbs also a C compiler and python3.
# `make help` lists the verbs.

GO    ?= go
export GO
BIN   := bin/diskgnn
TOOLS := $(GO) tool -modfile=internal/tools/go.mod
RELEASE := $(GO) tool -modfile=internal/tools/release/go.mod goreleaser
# Time given to each fuzz target by `make fuzz`, and the packages that have them.
FUZZTIME ?= 30s
FUZZ ?= ./...
# File to which test verbs append the outcomes of tests, in place of the list of skipped tests.
# .ci/run lists the tests that none of its parts ran.
OUTCOMES ?=
# Number of kills of test-kill.
KILLS ?= 50
# Number of random programs of metamorphic; SEED draws them.
PROGRAMS ?= 1000
# Directory of test-many-edges.
MANY  ?= /tmp
# Directory of test-container.
ROOTS ?= /tmp/diskgnn-roots
# Parameters of `make mutate`: the package that is changed, the number of changes, the seed that
# draws them, further packages with tests to run, a pattern for the tests, and a pattern for the
# changed line or the kind of change.
PKG   ?= ./pipeline
N     ?= 60
SEED  ?= 1
TESTS ?=
RUN   ?=
ONLY  ?=

# Modules of their own: one that uses the storage stack by itself, the program with a store of its own, and tests of
# manifests.
EXAMPLE := examples/nvme-overlap
STORE := examples/store-foo
MANIFESTS := examples/kubernetes examples/kubernetes/trainer

# The gpu variant: its toolchain, the packages with its tests, the kernels that are embedded in it,
# and the flags of cgo.
CUDA := $(CURDIR)/.cuda
GPU_TESTS := ./device/cuda ./device/cuda/kernels ./device/nccl ./iostack/cufile ./iostack/nvme/gpuqueue ./iostack/nvme/gpuread ./presample/sampler/gpusampler ./train/gpu ./train
KERNELS := $(patsubst %.cu,%.fatbin,$(wildcard device/cuda/kernels/*.cu iostack/nvme/gpuqueue/*.cu))
GPU_ENV := CGO_ENABLED=1 CGO_CFLAGS="-O2 -g -I$(CUDA)/compat -I$(CUDA)/include" CGO_LDFLAGS="-L$(CUDA)/lib"
# Machine code for Hopper, and PTX that the driver compiles for other devices from Ampere on. Fused
# products would not give the bits of the plain twins.
NVCC := $(CUDA)/bin/nvcc -O3 -std=c++17 -fmad=false -gencode arch=compute_90,code=sm_90 -gencode arch=compute_80,code=compute_80

# Paths of installed files below PREFIX, in DESTDIR.
PREFIX  ?= /usr/local
DESTDIR ?=
MAN  := share/man/man1/diskgnn.1
BASH := share/bash-completion/completions/diskgnn
ZSH  := share/zsh/site-functions/_diskgnn
FISH := share/fish/vendor_completions.d/diskgnn.fish
INSTALLED := bin/diskgnn $(MAN) $(BASH) $(ZSH) $(FISH)

# QEMU for programs of arm64; QEMU and a kernel for its guest; Slurm and Open MPI; a Python with
# PyTorch Geometric.
ARM64 := $(CURDIR)/.arm64
NVME := $(CURDIR)/.nvme
SLURM := $(CURDIR)/.slurm
PYG_DIR := $(CURDIR)/.pyg

# go test, with a list of skipped tests at its end.
GOTEST := $(CURDIR)/bin/gotest
GO_TEST = $(GOTEST) $(if $(OUTCOMES),-log $(OUTCOMES))

.DEFAULT_GOAL := help
# The command of a GPU test. Of package train, only the tests of GPUs run.
RUN_GPU_TEST = case $$t in */train.test) $$run $$t -test.count=1 -test.run GPU ;; *) $$run $$t -test.count=1 ;; esac

# Tests of storage wait for drives, so two packages are tested at a time for each processor.
PACKAGES_AT_ONCE := $(shell echo $$(( 2 * $$(nproc 2>/dev/null || echo 2) )))
# The packages that take longest begin first, so that no processor waits for one at the end.
LONGEST := ./commands ./train ./featurestore/packed ./pack ./dataset/importer/all
# Packages of test-race and test-nocgo, and tests that test-race leaves out.
SKIP  ?=
RACE  ?= ./...
NOCGO ?= $(LONGEST) ./...

.PHONY: help build test metamorphic planted test-manifests test-race test-nocgo test-kill test-flips test-power test-many-edges mutate house lint fuzz bench demo clean \
	install uninstall release-dry-run test-arm64 test-container gpu-toolchain build-gpu lint-gpu test-gpu sanitize-gpu nvme-toolchain test-nvme \
	slurm-toolchain test-slurm python-wheel python-wheel-gpu pyg-toolchain test-pyg test-ways

help: ## list the verbs
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build bin/diskgnn
	$(GO) build -o $(BIN) ./cmd/diskgnn

# The heaps of most tests are a few megabytes: Go's collector would run hundreds of times a second.
# The race detector's tests run with its usual frequency. lint runs go vet.
test: export GOGC ?= 400
test: $(GOTEST) ## run the tests (three minutes on two cores, five if nothing is compiled yet)
	$(GO_TEST) -vet=off -p $(PACKAGES_AT_ONCE) $(LONGEST) ./... -- -C $(EXAMPLE) -vet=off ./... -- -C $(STORE) -vet=off ./...

test-manifests: $(GOTEST) ## test the manifests for Kubernetes against its types (a minute if nothing is compiled yet)
	$(GO_TEST) $(foreach module,$(MANIFESTS),-C $(module) ./... $(if $(filter-out $(lastword $(MANIFESTS)),$(module)),--))

test-race: $(GOTEST) ## run all tests under the race detector (needs a C compiler), or the packages RACE, without the tests SKIP
	CGO_ENABLED=1 $(GO_TEST) -race -timeout 30m -p $(PACKAGES_AT_ONCE) $(if $(SKIP),-skip '$(SKIP)') $(RACE) -- -C $(EXAMPLE) -race ./...

test-nocgo: $(GOTEST) ## build everything and run all tests without cgo, or those of NOCGO
	CGO_ENABLED=0 $(GO) build ./...
	CGO_ENABLED=0 $(GO_TEST) -p $(PACKAGES_AT_ONCE) $(NOCGO) -- -C $(EXAMPLE) ./...

test-kill: $(GOTEST) ## kill training at KILLS random moments and compare the results of the resumed runs; kill either side of a Python loader as often
	DISKGNN_KILLS=$(KILLS) $(GO_TEST) -count=1 -v -run '^(TestKill|TestPythonLoader)$$' -timeout 30m ./commands

test-flips: $(GOTEST) ## interrupt packing at every operation, flip a bit of every existing file, and resume
	DISKGNN_FLIPS=all $(GO_TEST) -count=1 -v -run '^TestFlip$$' -timeout 60m ./pack

test-power: $(GOTEST) ## cut the power after every operation of every command, and compare the output of the next run
	DISKGNN_POWER=5 $(GO_TEST) -count=1 -v -run '^TestPower$$' -timeout 60m ./commands

metamorphic planted: export GOGC ?= 400
metamorphic: $(GOTEST) ## run PROGRAMS random programs, drawn by SEED, under several sets of options and with faults, and compare what they make
	DISKGNN_PROGRAMS=$(PROGRAMS) DISKGNN_SEED=$(SEED) $(GO_TEST) -count=1 -v -run '^TestMetamorphic$$' -timeout 600m ./commands

planted: ## plant ten defects in copies of the source, one by one, and find each by at most PROGRAMS random programs (SEED)
	internal/metamorphic/planted.sh $(PROGRAMS) $(SEED)

test-many-edges: $(GOTEST) ## import more edges than 31 bits count, in MANY (26 GB of disk, minutes)
	DISKGNN_MANY_EDGES=$(MANY) $(GO_TEST) -count=1 -v -run '^TestManyEdges$$' -timeout 60m ./dataset/importer

mutate: ## change PKG in N places, drawn by SEED, and list the changes that no test notices (also of TESTS)
	@$(GO) run ./internal/mutate -n $(N) -seed $(SEED) -only '$(ONLY)' -tests '$(TESTS)' -run '$(RUN)' $(PKG)

house: ## print the numbers of lines, packages, functions, and backward arrows between files
	@$(GO) run ./internal/house

lint: ## run gofmt, go vet, staticcheck, and the test of the import layers
	@unformatted=$$(gofmt -l .); \
	if [ -n "$$unformatted" ]; then echo "not formatted by gofmt:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	CGO_ENABLED=0 $(GO) build ./...
	$(TOOLS) staticcheck ./...
	set -e; check=$$($(TOOLS) -n staticcheck); for module in $(EXAMPLE) $(STORE) $(MANIFESTS); do \
		(cd $$module && $(GO) vet ./... && $$check ./...); done
	$(GO) test -count=1 ./internal/deps

fuzz: ## fuzz every decoder for FUZZTIME each
	internal/tools/fuzz.sh $(FUZZTIME) $(FUZZ)

bench: ## run every Go benchmark
	$(GO) test -run '^$$' -bench . -benchmem ./...

demo: build ## run the whole pipeline on a generated graph (about 20 s; a minute if nothing is compiled yet)
	$(GO) run ./internal/demo -diskgnn $(BIN) -dir demo

# An existing program is not built again, so root needs no Go. The program prints its own manual page
# and completions.
install: | $(BIN) ## install bin/diskgnn, its manual page and completions below PREFIX (/usr/local), in DESTDIR
	install -d $(addprefix "$(DESTDIR)$(PREFIX)"/,$(dir $(INSTALLED)))
	install -m 755 $(BIN) "$(DESTDIR)$(PREFIX)/bin/diskgnn"
	$(BIN) man >"$(DESTDIR)$(PREFIX)/$(MAN)"
	$(BIN) completion bash >"$(DESTDIR)$(PREFIX)/$(BASH)"
	$(BIN) completion zsh >"$(DESTDIR)$(PREFIX)/$(ZSH)"
	$(BIN) completion fish >"$(DESTDIR)$(PREFIX)/$(FISH)"

uninstall: ## remove the installed files
	rm -f $(addprefix "$(DESTDIR)$(PREFIX)"/,$(INSTALLED))

$(BIN):
	$(GO) build -o $(BIN) ./cmd/diskgnn

release-dry-run: build $(KERNELS) ## build the files of a release into dist, check them, and publish nothing
	mkdir -p bin/release/completions
	$(GO) run ./internal/licences -tags gpu -o bin/release/THIRD_PARTY_LICENCES.txt ./cmd/diskgnn
	$(BIN) man >bin/release/diskgnn.1
	$(BIN) completion bash >bin/release/completions/diskgnn.bash
	$(BIN) completion zsh >bin/release/completions/_diskgnn
	$(BIN) completion fish >bin/release/completions/diskgnn.fish
	$(RELEASE) check
	CUDA="$(CUDA)" $(RELEASE) release --snapshot --clean --skip=publish
	internal/tools/release/check.sh dist

test-arm64: build ## run the program for arm64, emulated, from a graph to predictions; it fetches QEMU first (64 MB)
	CGO_ENABLED=0 GOARCH=arm64 $(GO) build -o $(BIN)-arm64 ./cmd/diskgnn
	@if internal/tools/release/emulator.sh $(ARM64); then \
		internal/tools/release/smoke.sh $(BIN) $(ARM64)/usr/bin/qemu-aarch64-static -L $(ARM64)/usr/aarch64-linux-gnu $(BIN)-arm64; \
	else \
		echo "NOT CHECKED: the program for arm64. QEMU could not be fetched."; \
	fi

test-container: ## build and test HEAD, and try the Dockerfile, in roots with only Debian, make and Go, in ROOTS (needs root; 5 GB)
	internal/tools/container/test.sh $(ROOTS)

gpu-toolchain: $(CUDA)/version ## fetch the toolchain of the gpu variant into .cuda (210 MB)

$(CUDA)/version: $(wildcard internal/tools/cuda/*)
	internal/tools/cuda/setup.sh $(CUDA)
	@touch $@

%.fatbin: %.cu $(wildcard device/cuda/kernels/*.cuh) $(CUDA)/version
	$(NVCC) -fatbin -o $@ $<

build-gpu: $(KERNELS) ## build bin/diskgnn-gpu, which runs with a GPU and without
	$(GPU_ENV) $(GO) build -tags gpu -o $(BIN)-gpu ./cmd/diskgnn

lint-gpu: $(KERNELS) ## go vet and staticcheck of the gpu variant
	$(GPU_ENV) $(GO) vet -tags gpu ./device/... ./iostack/... ./presample/sampler/gpusampler ./train/gpu
	$(GPU_ENV) $$($(TOOLS) -n staticcheck) -tags gpu ./device/... ./iostack/... ./presample/sampler/gpusampler ./train/gpu
	cd $(EXAMPLE) && $(GPU_ENV) $(GO) vet -tags gpu ./...

test-gpu: $(KERNELS) $(GOTEST) ## build the tests of the gpu variant as bin/gpu/*.test and run them; without a GPU most are skipped
	mkdir -p bin/gpu
	$(GPU_ENV) $(GO) test -c -tags gpu -o bin/gpu/ $(GPU_TESTS)
	cd $(EXAMPLE) && $(GPU_ENV) $(GO) test -c -tags gpu -o $(CURDIR)/bin/gpu/ .
	@[ -e /dev/nvidiactl ] || echo "this machine has no GPU: tests that need one are built and skipped"
	@set -e; run="$(GO_TEST)"; for t in bin/gpu/*.test; do echo "== $$t"; $(RUN_GPU_TEST); done

sanitize-gpu: ## run the tests that test-gpu built under compute-sanitizer, on a machine with a GPU
	@set -e; for tool in memcheck racecheck; do \
		run="compute-sanitizer --tool $$tool --error-exitcode 1"; \
		for t in bin/gpu/*.test; do echo "== $$tool $$t"; $(RUN_GPU_TEST); done; \
	done

nvme-toolchain: $(NVME)/version ## fetch QEMU and a kernel for test-nvme into .nvme (44 MB)

$(NVME)/version: internal/tools/nvme/setup.sh internal/tools/debian/unpacked.sh
	internal/tools/nvme/setup.sh $(NVME)
	@touch $@

test-nvme: nvme-toolchain $(GOTEST) ## run the NVMe driver on QEMU's controller, and train from it, in a guest (three minutes)
	DISKGNN_NVME_TOOLCHAIN=$(NVME) DISKGNN_NVME_RUN='$(RUN)' $(GO_TEST) -count=1 -v -run '^TestQEMU$$' -timeout 15m ./iostack/nvme/qemutest

slurm-toolchain: $(SLURM)/version ## fetch Slurm and Open MPI for test-slurm into .slurm (10 MB)

$(SLURM)/version: internal/tools/slurm/setup.sh internal/tools/debian/unpacked.sh
	internal/tools/slurm/setup.sh $(SLURM)
	@touch $@

test-slurm: slurm-toolchain $(GOTEST) ## run examples/slurm on a cluster of two nodes in namespaces (needs root; a minute)
	DISKGNN_SLURM_TOOLCHAIN=$(SLURM) DISKGNN_SLURM_RUN='$(RUN)' $(GO_TEST) -count=1 -v -run '^TestSlurm$$' -timeout 15m ./internal/slurmtest

# Wheels of the Python package with the program inside. Their directories have one wheel each.
python-wheel: ## build bin/wheel/*.whl: the Python package with the program inside
	rm -rf bin/wheel
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags=-s -o bin/wheel/diskgnn ./cmd/diskgnn
	$(call WHEEL,bin/wheel)

python-wheel-gpu: $(KERNELS) ## build bin/wheel-gpu/*.whl: the same with the gpu variant, for the glibc of this machine
	rm -rf bin/wheel-gpu
	$(GPU_ENV) $(GO) build -trimpath -ldflags=-s -tags gpu -o bin/wheel-gpu/diskgnn ./cmd/diskgnn
	$(call WHEEL,bin/wheel-gpu,-label gpu)

WHEEL = $(GO) run ./internal/licences -tags gpu -o $(1)/THIRD_PARTY_LICENCES.txt ./cmd/diskgnn && \
	$(GO) run ./internal/wheel $(2) -o $(1) python $(1)/diskgnn LICENSE $(1)/THIRD_PARTY_LICENCES.txt

pyg-toolchain: $(PYG_DIR)/version ## fetch PyTorch Geometric, DGL, pandas, PyArrow and SciPy into .pyg (680 MB)

$(PYG_DIR)/version: $(wildcard internal/tools/pyg/*)
	internal/tools/pyg/setup.sh $(PYG_DIR)
	@touch $@

test-pyg: pyg-toolchain python-wheel $(GOTEST) ## compare with PyTorch Geometric, NumPy and torchrun, and test the Python package (three minutes)
	WHEEL=$$(echo $(CURDIR)/bin/wheel/*.whl) PYG=$(PYG_DIR)/bin/python $(GO_TEST) -count=1 -run 'PyTorch|Python|Launched' ./train ./train/exact ./commands

test-ways: pyg-toolchain build ## import one graph in more than a hundred ways of the libraries that write graphs (a minute)
	$(PYG_DIR)/bin/python bench/importing/ways.py $(BIN)

$(GOTEST): $(wildcard internal/gotest/*.go)
	$(GO) build -o $@ ./internal/gotest

clean: ## remove the outputs of build and demo
	rm -rf bin demo $(KERNELS)
	$(GO) clean -testcache
