# `make` lists the targets. Every target that needs the environment sets it up first, once, and again
# when pyproject.toml, constraints.txt or what is compiled change.

# What .venv is made with; empty: see `PYTHONS`.
PYTHON ?=
WORKERS ?= 2
# What nodes, clients and tools of a test run speak through: lean, or grpcio.
TRANSPORT ?= lean
FUZZ_SECONDS ?= 60
SEEDS ?= 1..200
JOBS ?= 2
NAME ?= leader-kill
MINUTES ?= 1
DRILL_SECONDS ?= 30
GRPCURL_VERSION := v1.9.3
KUSTOMIZE_VERSION := v5.8.1
KUBECONFORM_VERSION := v0.7.0
# Their sources describe what manifests may contain.
KUBERNETES_VERSION := v1.33.13
PROMETHEUS_OPERATOR_VERSION := v0.85.0
H2SPEC_VERSION := v2.2.1+incompatible
GRPC_INTEROP_VERSION := v1.85.0
# Of 3.5.0, as modules count.
PROMETHEUS_VERSION := v0.305.0
GHZ_VERSION := v0.93.0

BIN := .venv/bin
INSTALLED := .venv/.set-up
SPARK := .venv/.spark
CODEC := .venv/.codec
GRPCURL := .tools/grpcurl-$(GRPCURL_VERSION)
MANIFEST_TOOLS := .tools/manifest-tools-$(KUSTOMIZE_VERSION)-$(KUBECONFORM_VERSION)
MANIFEST_SCHEMAS := .tools/manifest-schemas-$(KUBERNETES_VERSION)-$(PROMETHEUS_OPERATOR_VERSION)
H2SPEC := .tools/h2spec-$(H2SPEC_VERSION)
GRPC_INTEROP := .tools/grpc-interop-$(GRPC_INTEROP_VERSION)
PROMETHEUS := .tools/prometheus-$(PROMETHEUS_VERSION)
GHZ := .tools/ghz-$(GHZ_VERSION)
KAFKA_TOOLS := .tools/kafka
GO_EXAMPLE := .tools/hello-go
NODE_EXAMPLE := examples/node/node_modules/.package-lock.json
JAVA_EXAMPLE := examples/java/target/classes/Hello.class

# Tests and drills start hundreds of nodes: without bytecode each of them would compile 400 modules anew, half a second.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test check format protos docs docs-site bench spark pipeline-test sim drill deploy-test observability-test k8s-test drill-quorum fuzz pins clean grpcurl manifesttools promtool kafkatools languages stale conformance conformancetools
.DELETE_ON_ERROR:

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(CODEC) ## make .venv with everything in it; the other targets do this first

demo: setup ## three nodes under load, read by a group: kill -9 two leaders, verify every record on every node
	@$(BIN)/python -m quorate.chaos.demo

test: setup $(SPARK) grpcurl conformancetools kafkatools languages check ## everything CI runs: make check, then every suite, within its time budget
	@QUORATE_RPC_TRANSPORT=$(TRANSPORT) $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --enforce-budgets --durations 5 $(ARGS)

check: setup $(SPARK) manifesttools promtool ## format, lint, types, import rules, proto lint, generated stubs, namespace, manifests, alerts, links
	@$(BIN)/python tools/check.py $(PARTS)

format: setup ## rewrite the sources in the one format
	@$(BIN)/ruff check --quiet --select I --fix
	@$(BIN)/ruff format

protos: setup ## generate the Python stubs from proto/
	@$(BIN)/python tools/generate_protos.py

docs: setup ## generate docs/configuration.md and docs/client-options.md from the classes of the configuration
	@$(BIN)/python -m quorate.core.config.docs > .venv/configuration.md
	@mv .venv/configuration.md docs/configuration.md
	@$(BIN)/python tools/client_options.py > .venv/client-options.md
	@mv .venv/client-options.md docs/client-options.md

docs-site: setup ## the documentation as a site, in build/site; fails on a link that leads nowhere
	@# Not --quiet: warnings that are not told do not count as such, and --strict would find none.
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: setup $(SPARK) ## the benchmarks, each against its bar
	@$(BIN)/python -m bench $(ARGS)

conformance: setup conformancetools grpcurl languages ## the lean transport against h2spec, gRPC's own tests, ghz, grpcurl, and the examples in other languages
	@$(BIN)/python -m tools.conformance $(ARGS)
	@QUORATE_RPC_TRANSPORT=lean $(BIN)/python -m pytest -q --nothing-skipped tests/interop/test_grpcurl.py tests/interop/test_examples.py

spark: setup $(SPARK) ## Spark and Delta Lake into .venv; the other targets do this where they need them

pipeline-test: setup $(SPARK) ## Spark as a cluster, executors, brokers and drivers killed; beside Kafka; every job, killed at chosen places
	@PIPELINE_STANDALONE=1 $(BIN)/python -m pytest -v tests/pipeline $(ARGS)

sim: setup ## whole clusters under simulated faults: SEED=7, or SEEDS=1..200 JOBS=2
	@$(BIN)/quorate sim run $(if $(SEED),--seed $(SEED),--seeds $(SEEDS) --jobs $(JOBS)) $(ARGS)

drill: setup ## a failure drill on real processes, by name: NAME=leader-kill MINUTES=1 ARGS='--seed 7'
	@$(BIN)/quorate drill run $(NAME) --minutes $(MINUTES) $(ARGS)

deploy-test: setup promtool ## the containers of deploy/ for real: build, kill a leader, roll, down and up, drills; needs or installs an engine
	@$(BIN)/python -m deploy.test $(ARGS)

observability-test: setup promtool ## every query of the dashboards and alerts, against a Prometheus that scrapes a real cluster
	@$(BIN)/python -m deploy.observability.live $(ARGS)

k8s-test: setup ## the manifests of deploy/k8s on the Kubernetes that kubectl points to; ARGS says how images get there (deploy/k8s/test)
	@$(BIN)/python -m deploy.k8s.test $(ARGS)

drill-quorum: setup ## quorums of real processes under load and faults, for DRILL_SECONDS=30 each
	@$(BIN)/python -m quorate.chaos.quorum_drills --seconds $(DRILL_SECONDS) $(ARGS)

fuzz: setup ## look for input that breaks the record codec or the lean transport, each for FUZZ_SECONDS=60
	@$(BIN)/python -m tests.fuzz.fuzz_records -max_total_time=$(FUZZ_SECONDS)
	@$(BIN)/python -m tests.fuzz.fuzz_transport -max_total_time=$(FUZZ_SECONDS)
	@$(BIN)/python -m tests.fuzz.fuzz_answers -max_total_time=$(FUZZ_SECONDS)
	@$(BIN)/python -m tests.fuzz.fuzz_server -max_total_time=$(FUZZ_SECONDS)

pins: setup ## write constraints.txt anew with the newest versions that pyproject.toml allows
	@$(BIN)/python tools/pin_versions.py

clean: ## remove all that the other targets made, the environment too
	@rm -rf .venv .tools .hypothesis sim-failures .pytest_cache .mypy_cache .ruff_cache .import_linter_cache build dist
	@rm -rf examples/go/quoratev1 examples/node/node_modules examples/java/target
	@rm -f core/quorate/core/records/*.so rpc/quorate/rpc/lean/*.so
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --- what the targets above stand on -------------------------------------------------------------------

# An environment whose Python is gone, or that was copied along with its tree, is as good as none.
ifneq ($(shell test -x $(BIN)/python && grep -sxF '$(CURDIR)' $(INSTALLED)),$(CURDIR))
$(INSTALLED): stale
endif

# The system's comes first where it can make environments and compile: distributors build theirs with a profile, and one
# that was compiled by hand without takes a fifth more time for every message (docs/performance.md).
PYTHONS := /usr/bin/python3 python3 python3.13 python3.12 python3.11
IS_NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
IS_COMPLETE := import ensurepip, os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")

$(INSTALLED): pyproject.toml constraints.txt
	@for wanted in '$(IS_COMPLETE); $(IS_NEW_ENOUGH)' '$(IS_NEW_ENOUGH)'; do \
	    for python in $(or $(PYTHON),$(PYTHONS)); do \
	        if $$python -c "$$wanted" 2>/dev/null; then \
	            exec $$python tools/set_up.py; \
	        fi; \
	    done; \
	done; \
	echo 'set-up needs Python 3.11 or newer and found none; name one with: make PYTHON=/path/to/python3' >&2; \
	exit 1

# Beside the installation: a change of what is compiled needs a compiler run, not pip. A failure is one only
# where there is a compiler; without, everything stays pure Python, as build_codec.py says.
CODEC_SOURCES := $(wildcard $(addprefix core/quorate/core/records/,*.pyx *.pxd */*.pxi) $(addprefix rpc/quorate/rpc/lean/,*.py *.pxd))

# A compiler, but nothing compiled: it was removed, or the compiler came later.
ifeq ($(and $(wildcard core/quorate/core/records/*.so),$(wildcard rpc/quorate/rpc/lean/*.so)),)
ifneq ($(shell command -v cc),)
$(CODEC): stale
endif
endif

$(CODEC): $(INSTALLED) build_codec.py $(CODEC_SOURCES)
	@test "$$QUORATE_BUILD_CODEC" = off || $(BIN)/python build_codec.py || ! command -v cc >/dev/null
	@touch $@

# Apart, because only the pipeline's checks, tests and figures need half a gigabyte more. Its version is in constraints.txt.
$(SPARK): $(INSTALLED)
	@echo 'set-up: installing Spark for the pipeline (some minutes, once)'
	@# Quieter than quiet: of pyspark, which has no wheel, pip tells how it will be built one day.
	@PIP_CONSTRAINT='$(CURDIR)/constraints.txt' $(BIN)/python -m pip --disable-pip-version-check --no-input install --quiet --quiet --no-compile pyspark deltalake
	@touch $@

# Only one test wants grpcurl, and it is skipped, saying so, where grpcurl is missing.
grpcurl: $(if $(shell command -v go),$(GRPCURL))

$(GRPCURL):
	@mkdir -p .tools/bin
	@echo 'set-up: building grpcurl $(GRPCURL_VERSION) for the interoperability test (a minute, once)'
	@if GOBIN='$(CURDIR)/.tools/bin' go install github.com/fullstorydev/grpcurl/cmd/grpcurl@$(GRPCURL_VERSION) 2>.tools/grpcurl.log; then \
	    touch $@; \
	else \
	    echo 'set-up: grpcurl could not be built, its test will be skipped; see .tools/grpcurl.log' >&2; \
	fi

# Likewise: alerts are checked where promtool is or can be built, which takes minutes and is done once.
promtool: $(if $(shell command -v promtool),,$(if $(shell command -v go),$(PROMETHEUS)))

# Not by `go install`: the module replaces another one, which is allowed only in its own tree.
$(PROMETHEUS):
	@mkdir -p .tools/bin
	@echo 'set-up: building promtool and Prometheus $(PROMETHEUS_VERSION) to check the alerts (some minutes, once)'
	@rm -rf .tools/prometheus-source
	@if (source=$$(go mod download -json github.com/prometheus/prometheus@$(PROMETHEUS_VERSION) \
	        | sed -n 's/^\t"Dir": "\(.*\)",$$/\1/p') \
	    && cp -r "$$source" .tools/prometheus-source && chmod -R u+w .tools/prometheus-source \
	    && cd .tools/prometheus-source \
	    && CGO_ENABLED=0 go build -ldflags "-X github.com/prometheus/common/version.Version=$$(cat VERSION)" \
	        -o ../bin/ ./cmd/promtool ./cmd/prometheus) \
	    2>.tools/prometheus.log; then \
	    rm -rf .tools/prometheus-source; touch $@; \
	else \
	    echo 'set-up: it could not be built, the alerts will not be checked; see .tools/prometheus.log' >&2; \
	fi

# Likewise: the manifests of deploy/k8s are checked where these can be built, and said to be skipped elsewhere.
manifesttools: $(if $(shell command -v go),$(MANIFEST_TOOLS) $(MANIFEST_SCHEMAS))

$(MANIFEST_TOOLS):
	@mkdir -p .tools/bin
	@echo 'set-up: building kustomize $(KUSTOMIZE_VERSION) and kubeconform $(KUBECONFORM_VERSION) to check the manifests (two minutes, once)'
	@if (GOBIN='$(CURDIR)/.tools/bin' go install sigs.k8s.io/kustomize/kustomize/v5@$(KUSTOMIZE_VERSION) \
	    && GOBIN='$(CURDIR)/.tools/bin' go install github.com/yannh/kubeconform/cmd/kubeconform@$(KUBECONFORM_VERSION)) \
	    2>.tools/manifest-tools.log; then \
	    touch $@; \
	else \
	    echo 'set-up: they could not be built, the manifests will not be checked; see .tools/manifest-tools.log' >&2; \
	fi

$(MANIFEST_SCHEMAS): tools/make_manifest_schemas.py | $(INSTALLED)
	@mkdir -p .tools
	@echo 'set-up: making the schemas of Kubernetes $(KUBERNETES_VERSION) (ten seconds, once)'
	@rm -rf .tools/manifest-schemas
	@if go mod download -json k8s.io/kubernetes@$(KUBERNETES_VERSION) \
	        github.com/prometheus-operator/prometheus-operator@$(PROMETHEUS_OPERATOR_VERSION) \
	        >.tools/manifest-modules.json 2>.tools/manifest-schemas.log; then \
	    $(BIN)/python tools/make_manifest_schemas.py .tools/manifest-modules.json .tools/manifest-schemas && touch $@; \
	else \
	    echo 'set-up: their sources could not be fetched, the manifests will not be checked; see .tools/manifest-schemas.log' >&2; \
	fi

# Likewise: the suites that the lean transport is held against.
conformancetools: $(if $(shell command -v go),$(H2SPEC) $(GRPC_INTEROP) $(GHZ))

$(H2SPEC):
	@mkdir -p .tools/bin
	@echo 'set-up: building h2spec $(H2SPEC_VERSION) for the conformance tests (a minute, once)'
	@if GOBIN='$(CURDIR)/.tools/bin' go install github.com/summerwind/h2spec/cmd/h2spec@$(H2SPEC_VERSION) 2>.tools/h2spec.log; then \
	    touch $@; \
	else \
	    echo 'set-up: h2spec could not be built, its tests will be skipped; see .tools/h2spec.log' >&2; \
	fi

$(GHZ):
	@mkdir -p .tools/bin
	@echo 'set-up: building ghz $(GHZ_VERSION) for the conformance tests (a minute, once)'
	@if GOBIN='$(CURDIR)/.tools/bin' go install github.com/bojand/ghz/cmd/ghz@$(GHZ_VERSION) 2>.tools/ghz.log; then \
	    touch $@; \
	else \
	    echo 'set-up: ghz could not be built, its test will be skipped; see .tools/ghz.log' >&2; \
	fi

# Both programs have names that are anybody's, so they are built apart and renamed.
$(GRPC_INTEROP):
	@mkdir -p .tools/bin .tools/grpc-interop
	@echo "set-up: building gRPC's interoperability tests $(GRPC_INTEROP_VERSION) (two minutes, once)"
	@if GOBIN='$(CURDIR)/.tools/grpc-interop' go install \
	        google.golang.org/grpc/interop/client@$(GRPC_INTEROP_VERSION) \
	        google.golang.org/grpc/interop/server@$(GRPC_INTEROP_VERSION) 2>.tools/grpc-interop.log; then \
	    mv .tools/grpc-interop/client .tools/bin/grpc-interop-client; \
	    mv .tools/grpc-interop/server .tools/bin/grpc-interop-server; \
	    touch $@; \
	else \
	    echo 'set-up: they could not be built, their tests will be skipped; see .tools/grpc-interop.log' >&2; \
	fi

# Likewise: one test lets Kafka's own tool read our segments.
kafkatools: $(if $(shell command -v mvn),$(KAFKA_TOOLS))

$(KAFKA_TOOLS): tools/kafka-tools.pom.xml
	@echo "set-up: fetching Kafka's tools for the interoperability test (half a minute, once)"
	@mkdir -p .tools
	@rm -rf $@ $@.new
	@if mvn -q -f $< dependency:copy-dependencies -DoutputDirectory='$(CURDIR)/$@.new' >.tools/kafka.log 2>&1; then \
	    mv $@.new $@ && touch $@; \
	else \
	    echo 'set-up: they could not be fetched, the test will be skipped; see .tools/kafka.log' >&2; \
	fi

# The examples in other languages, for the test that runs them. A toolchain that is missing or a registry that
# cannot be reached costs that language's test; a program that no longer compiles fails the run.
languages: $(if $(shell command -v go),$(GO_EXAMPLE)) \
    $(if $(shell command -v npm),$(NODE_EXAMPLE)) \
    $(if $(shell command -v mvn),$(JAVA_EXAMPLE))

STUB_SOURCES := $(addprefix proto/quorate/v1/,broker.proto errors.proto records.proto)

$(GO_EXAMPLE): $(wildcard examples/go/*.go examples/go/go.* examples/go/*.yaml) $(STUB_SOURCES) | $(INSTALLED)
	@mkdir -p .tools
	@echo 'set-up: building the example in Go (a minute, once)'
	@rm -f $@
	@if (cd examples/go && go mod download) >.tools/go-example.log 2>&1; then \
	    cd examples/go && PATH='$(CURDIR)/$(BIN)':"$$PATH" GOPROXY=off go generate \
	        && GOPROXY=off go build -buildvcs=false -o '$(CURDIR)/$@'; \
	else \
	    echo 'set-up: its modules could not be fetched, its test will be skipped; see .tools/go-example.log' >&2; \
	fi

$(NODE_EXAMPLE): examples/node/package.json
	@mkdir -p .tools
	@echo 'set-up: fetching the packages of the example in Node (ten seconds, once)'
	@if npm install --prefix examples/node --no-audit --no-fund >.tools/node-example.log 2>&1; then \
	    touch $@; \
	else \
	    echo 'set-up: they could not be fetched, its test will be skipped; see .tools/node-example.log' >&2; \
	fi

$(JAVA_EXAMPLE): examples/java/pom.xml $(shell find examples/java/src -name '*.java') $(STUB_SOURCES)
	@mkdir -p .tools
	@echo 'set-up: building the example in Java (a minute, once)'
	@rm -f $@
	@if mvn -q -B -f examples/java compile >.tools/java-example.log 2>&1; then \
	    touch $@; \
	elif grep -q 'COMPILATION ERROR' .tools/java-example.log; then \
	    cat .tools/java-example.log >&2; exit 1; \
	else \
	    echo 'set-up: it could not be built, its test will be skipped; see .tools/java-example.log' >&2; \
	fi
