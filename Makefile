# Each target is one line over a command. `make help` lists them.
SHELL := /bin/bash
PYTHON ?=
BIN := .venv/bin
export TF_USE_LEGACY_KERAS := 1
export TF_CPP_MIN_LOG_LEVEL := 2

.DEFAULT_GOAL := help
.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | awk -F'\t' '{printf "  make %-18s %s\n", $$1, $$2}'

.PHONY: setup
setup: ## make .venv (idempotent; the other targets do it by themselves)
	@PYTHON="$(PYTHON)" scripts/bootstrap.sh

.PHONY: run
run: setup ## run the taxi pipeline on real data; ARGS="--no-cache" passes options on
	@$(BIN)/sluice run $(ARGS)

.PHONY: test
test: setup ## all tests that need no cluster, Docker or GPU
	$(BIN)/pytest -m "not cluster and not docker and not gpu and not flink" $(ARGS)

.PHONY: test-unit
test-unit: setup ## the tests that take seconds
	$(BIN)/pytest -m "not e2e and not cluster and not docker and not gpu and not flink" $(ARGS)

.PHONY: lint
lint: setup ## ruff and mypy
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

.PHONY: format
format: setup ## rewrite the sources in the project's format
	$(BIN)/ruff format . && $(BIN)/ruff check --fix .

.PHONY: lock
lock: setup ## resolve requirements/*.in again
	for name in runtime dev; do .venv/tools/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate --custom-compile-command "make lock" requirements/$$name.in -o requirements/$$name.lock; done

.PHONY: bench-pipeline
bench-pipeline: setup ## the whole pipeline against the stock one, 15,002 and 300,040 rows
	$(BIN)/python benchmarks/pipeline.py


.PHONY: bench-serve
bench-serve: setup ## batching against none, overhead over a bare call, KServe's Python server, a 1 GB push
	$(BIN)/python benchmarks/serve.py $(ARGS)

.PHONY: e2e-serving
e2e-serving: setup ## the API tests against TensorFlow Serving itself; IMAGE=tensorflow/serving:2.19.1
	@test -n "$(IMAGE)" || { echo "error: name an image: make e2e-serving IMAGE=tensorflow/serving:2.19.1" >&2; exit 2; }
	SLUICE_SERVING_IMAGE="$(IMAGE)" $(BIN)/pytest tests/modules/serving/test_rest.py tests/modules/serving/test_grpc.py tests/components/pusher/test_servers.py -m docker $(ARGS)

.PHONY: bench-push
bench-push: setup ## a 1 GB push against cp, sync and sha256sum, and against stock TFX's copies
	$(BIN)/python benchmarks/push.py $(ARGS)
