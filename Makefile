# `make chat` sets up what is missing and opens the chat; `make help` lists the rest.
#
# PYTHON=/path/to/python3.12   the interpreter for .venv, when that is made
# ARGS="..."                   passed on: make chat ARGS="--model NAME", make test ARGS="-k history"

SHELL := /bin/sh
MAKEFLAGS += --no-print-directory
PYTHON ?=
export PYTHON

PY := .venv/bin/python
RESULTS := benchmarks/results

# Any Python from 3.9 on can do the set-up, or say what is wrong with it.
SETUP = for p in "$(PYTHON)" $(PY) python3 python3.13 python3.12 python3.11 python; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null && exec "$$p" -m scripts.setup $(1); \
	done; \
	echo 'localchat needs Python 3.11 or newer, and no Python that runs was found on PATH.' >&2; \
	echo '    Debian, Ubuntu   sudo apt install python3 python3-venv' >&2; \
	echo '    Fedora           sudo dnf install python3' >&2; \
	echo '    macOS            brew install python@3.13' >&2; \
	echo 'Or name one that is not on PATH:  make chat PYTHON=/path/to/python3.12' >&2; \
	exit 1

.PHONY: chat test setup dev lint bench soak constraints clean distclean help

chat: ## open the chat
	@$(call SETUP)
	@exec .venv/bin/localchat $(ARGS)

test: lint ## every check: lint, types, import rules, tests
	$(PY) -m pytest $(ARGS)

setup: ## only set up
	@$(call SETUP)

dev: ## set up with the tools for development
	@$(call SETUP,--dev)

lint: dev ## ruff, mypy and the import rules
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(PY) -m mypy scripts benchmarks
	$(PY) .venv/bin/lint-imports

bench: dev ## measure every figure (close other programs first)
	@failed=; for script in benchmarks/bench_*.py; do \
	name=$$(basename $$script .py); \
	echo "== $$name"; \
	$(PY) -m benchmarks.$$name --json $(RESULTS)/$${name#bench_}.json || failed="$$failed $$name"; \
	done; test -z "$$failed" || { echo "Did not finish:$$failed" >&2; exit 1; }

soak: dev ## hours of use in one sitting: memory and idle CPU must stay flat
	$(PY) -m benchmarks.soak $(ARGS)

constraints: dev ## the newest versions that pyproject.toml allows, into constraints.txt
	$(PY) -m pip install --upgrade --upgrade-strategy eager --editable '.[dev]'
	$(PY) -m scripts.freeze

clean: ## remove caches and results, keep .venv
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist *.egg-info
	rm -rf $(RESULTS) snapshot_report.html
	find localchat router bandwidth_model tests scripts benchmarks -name __pycache__ -prune -exec rm -rf {} +

distclean: clean ## remove .venv as well
	rm -rf .venv

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1|\2/p' Makefile | while IFS='|' read -r what does; do \
	printf '    %-18s%s\n' "$$what" "$$does"; done
