# A few commands, the same everywhere. Each does its own set-up on a fresh clone.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

# Weights and the demo's workspace stay inside the clone.
export RAGFORGE_MODELS := $(CURDIR)/.cache/models
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Tests start thousands of processes: each would compile what it imports where this is set.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo ui test test-stacks check screenshots bench bench-peers bench-search bench-answers bench-lessons bench-discovery bench-scale prove docs setup models clean

## a sample project: built, listed, searched, asked
demo: models
	@rm -rf .demo
	@echo "\n$$ ragforge init"
	@$(BIN)/ragforge --workspace .demo init
	@echo "\n$$ ragforge add samples"
	@$(BIN)/ragforge --workspace .demo add src/ragforge/samples --project demo
	@echo "\n$$ ragforge ls"
	@$(BIN)/ragforge --workspace .demo ls --project demo
	@echo "\n$$ ragforge search \"How long can I return a chair?\" -k 3"
	@$(BIN)/ragforge --workspace .demo search "How long can I return a chair?" --project demo -k 3
	@echo "\n$$ ragforge ask \"How long can I return a chair?\""
	@$(BIN)/ragforge --workspace .demo ask "How long can I return a chair?" --project demo
	@echo "\n$$ ragforge ask \"Who won the football cup in 1998?\"   (the documents do not say: exit code 4)"
	@$(BIN)/ragforge --workspace .demo ask "Who won the football cup in 1998?" --project demo; test $$? -eq 4

## the web page, of the demo's workspace
ui: models
	@test -d .demo || $(MAKE) --no-print-directory demo
	$(BIN)/ragforge --workspace .demo ui

## every test that needs no outside server, after lint, types and import contracts
test: check models
	$(BIN)/pytest -n 3

## the acceptance tests of ingestion, retrieval, answers and lessons, with Postgres as the catalog and as the indexes
test-stacks: models
	$(BIN)/python -m tests.stacks

## format, lint, types, import contracts
check: setup
	$(BIN)/ruff format --check -q .
	$(BIN)/ruff check -q .
	$(BIN)/mypy
	$(BIN)/lint-imports

## ingestion measured: DOCS is a folder of Markdown, FILES one of all kinds (by default the shared data beside the clone)
bench: models
	$(BIN)/python -m bench.ingest $(if $(DOCS),--docs $(DOCS))
	$(BIN)/python -m bench.files $(if $(FILES),--files $(FILES))

## the frameworks that `bench`, `bench-search` and `bench-scale` compare with, each in an environment of its own
bench-peers:
	$(PYTHON) -m venv .cache/peers/llamaindex && .cache/peers/llamaindex/bin/pip install -q llama-index-core llama-index-readers-file llama-index-retrievers-bm25
	$(PYTHON) -m venv .cache/peers/langchain && .cache/peers/langchain/bin/pip install -q langchain-community langchain-classic langchain-text-splitters langchain-chroma rank_bm25
	$(PYTHON) -m venv .cache/peers/haystack && .cache/peers/haystack/bin/pip install -q haystack-ai
	$(PYTHON) -m venv .cache/peers/txtai && .cache/peers/txtai/bin/pip install -q txtai
	$(PYTHON) -m venv .cache/peers/lancedb && .cache/peers/lancedb/bin/pip install -q lancedb
	$(PYTHON) -m venv .cache/peers/procrastinate && .cache/peers/procrastinate/bin/pip install -q procrastinate "psycopg[binary]"

## retrieval measured side by side, and the tables of docs/benchmarks.md: PARTS is some of quality, speed, large,
## million, minilm, failures
bench-search: models
	$(BIN)/python -m bench.retrieval $(PARTS) $(if $(DATA),--data $(DATA))

## answers without a model measured, and their tables of docs/benchmarks.md: PARTS is some of quotes, abstention,
## elsewhere, speed
bench-answers: models
	$(BIN)/python -m bench.answers $(PARTS) $(if $(DATA),--data $(DATA))

## lessons measured, and their table of docs/benchmarks.md: PARTS is some of quality, speed
bench-lessons: models
	$(BIN)/python -m bench.learning $(PARTS)

## interviews without a model measured, and their tables of docs/benchmarks.md
bench-discovery: models
	$(BIN)/python -m bench.discovery

## how it scales, and the tables of docs/explain/scale.md: PARTS is some of million, workers, nodes, queue, engines;
## SMALL=1 only shows that it works
bench-scale: models
	$(BIN)/python -m bench.scale $(PARTS) $(if $(DATA),--data $(DATA)) $(if $(DOCS),--docs $(DOCS)) $(if $(SMALL),--small)

## the same tests with the full counts, and a record of the figures in docs/proof.json; AGAIN=1 repeats what failed in it
prove: check models
	RAGFORGE_PROVE=1 $(BIN)/python -m tests.prove $(if $(AGAIN),--again)

## the generated reference
docs: setup
	$(BIN)/python -m ragforge.interfaces.cli.reference docs/reference

## pictures of every page, in docs/images/ui; they need Chromium
screenshots: models
	$(BIN)/python -m tools.make_screenshots

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --constraint constraints.txt --editable ".[dev]"
	@touch $@

models: setup $(RAGFORGE_MODELS)/minilm/verified.json

$(RAGFORGE_MODELS)/minilm/verified.json:
	$(BIN)/ragforge models pull minilm

clean:
	rm -rf $(VENV) .cache .demo
