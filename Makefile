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
	for name in runtime dev gpu; do .venv/tools/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate --custom-compile-command "make lock" requirements/$$name.in -o requirements/$$name.lock; done

.PHONY: bench-ingest
bench-ingest: setup ## ingestion against the stock components, three sizes, 5 GB; ARGS="--parts csv" is shorter
	$(BIN)/python benchmarks/ingest.py $(ARGS)

.PHONY: bench-pipeline
bench-pipeline: setup ## the whole pipeline against the stock one, 15,002 and 300,040 rows
	$(BIN)/python benchmarks/whole_pipeline.py $(ARGS)

.PHONY: bench-evaluate
bench-evaluate: setup ## the Evaluator against the stock one on the rows of the last `make run`, repeated to 300,040
	$(BIN)/python benchmarks/evaluate.py $(ARGS)

.PHONY: bench-validation
bench-validation: setup ## the gate: precision and recall over 120 changes of real data, cost beside StatisticsGen
	$(BIN)/python benchmarks/validation.py $(ARGS)

.PHONY: bench-serve
bench-serve: setup ## batching against none, overhead over a bare call, KServe's Python server, a 1 GB push
	$(BIN)/python benchmarks/serve.py $(ARGS)

.PHONY: e2e-serving
e2e-serving: setup ## the API tests against TensorFlow Serving itself; IMAGE=tensorflow/serving:2.19.1
	@test -n "$(IMAGE)" || { echo "error: name an image: make e2e-serving IMAGE=tensorflow/serving:2.19.1" >&2; exit 2; }
	SLUICE_SERVING_IMAGE="$(IMAGE)" $(BIN)/pytest tests/modules/serving/test_rest.py tests/modules/serving/test_grpc.py tests/components/pusher/test_servers.py -m docker $(ARGS)

.PHONY: e2e-train
e2e-train: setup ## chief and worker of a training killed at all kinds of moments; about ten minutes
	SLUICE_KILLS=all $(BIN)/pytest tests/modules/training/test_kills.py -v $(ARGS)

.PHONY: bench-train
bench-train: setup ## the training engine beside bare loops and tf_keras fit, communication, a million examples
	$(BIN)/python benchmarks/train.py $(ARGS)

.PHONY: bench-images
bench-images: setup ## ResNet-50 on 224 x 224 pictures, two workers and one: examples/s; two minutes
	$(BIN)/python benchmarks/images.py $(ARGS)

.PHONY: bench-generate
bench-generate: setup ## token generation: cache against none, a batch against one by one, cost by position, KerasHub
	$(BIN)/python benchmarks/generate.py $(ARGS)

.PHONY: bench-push
bench-push: setup ## a 1 GB push against cp, sync and sha256sum, and against stock TFX's copies
	$(BIN)/python benchmarks/push.py $(ARGS)

.PHONY: compile
compile: setup ## compile the taxi pipeline for Kubeflow; IMAGE=registry.example/sluice:GIT_SHA
	@$(BIN)/sluice compile $(if $(IMAGE),--image "$(IMAGE)",$(if $(wildcard build/kubeflow/image.json kubeflow.yaml),,--image "sluice:$(shell git rev-parse --short=12 HEAD)")) $(ARGS)

.PHONY: image
image: ## build the image of the steps; IMAGE=registry.example/team/sluice LOCK=gpu PUSH=1
	@IMAGE="$(IMAGE)" LOCK="$(LOCK)" PUSH="$(PUSH)" BUILD="$(BUILD)" scripts/image.sh

.PHONY: e2e-kfp-sim
e2e-kfp-sim: setup ## the compiled taxi pipeline on a simulated Kubeflow, all rows, two workers; about ten minutes
	SLUICE_KFP_SIM=full $(BIN)/pytest tests/kubeflow/test_taxi_on_simulated_kfp.py tests/kubeflow/test_stock_on_simulated_kfp.py tests/kubeflow/test_workloads_on_simulated_kfp.py -v $(ARGS)

.PHONY: check-kfp
check-kfp: setup ## compiled pipelines against Kubeflow's own API server code; needs Go; KFP_SOURCE=a checkout of kubeflow/pipelines
	@test -n "$(KFP_SOURCE)" || { echo "error: name a checkout: make check-kfp KFP_SOURCE=../pipelines" >&2; exit 2; }
	SLUICE_KFP_SOURCE="$(KFP_SOURCE)" $(BIN)/pytest tests/kubeflow/test_real_compiler.py -v $(ARGS)

.PHONY: e2e-docker
e2e-docker: setup ## the whole pipeline, and two training workers of which one is killed, in the real image; IMAGE=sluice:GIT_SHA
	@test -n "$(IMAGE)" || { echo "error: name an image: make e2e-docker IMAGE=sluice:\$$(git rev-parse --short=12 HEAD)" >&2; exit 2; }
	SLUICE_IMAGE="$(IMAGE)" $(BIN)/pytest tests/kubeflow/test_image.py tests/kubeflow/test_gang_in_docker.py tests/kubeflow/test_kfp_local.py -m docker -v $(ARGS)

.PHONY: e2e-flink
e2e-flink: setup ## ingestion and the whole taxi pipeline on an embedded Flink; needs Java; FLINK_JOB_SERVER_JAR=PATH if Beam cannot fetch its own
	FLINK_JOB_SERVER_JAR="$(FLINK_JOB_SERVER_JAR)" $(BIN)/pytest -m flink tests/components/example_gen/test_engines.py tests/pipeline/test_flink.py -v $(ARGS)

.PHONY: e2e-cluster
e2e-cluster: setup ## the taxi pipeline on a real Kubeflow; KFP_HOST=http://localhost:8080 IMAGE=registry.example/sluice:GIT_SHA
	@test -n "$(KFP_HOST)" -a -n "$(IMAGE)" || { echo "error: make e2e-cluster KFP_HOST=http://localhost:8080 IMAGE=registry.example/sluice:GIT_SHA" >&2; exit 2; }
	SLUICE_KFP_HOST="$(KFP_HOST)" SLUICE_IMAGE="$(IMAGE)" $(BIN)/pytest tests/kubeflow/test_cluster.py -m cluster -v $(ARGS)
