# Everything a newcomer needs: `make demo` and `make test`. `make help` lists the rest.

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
STAMP := $(VENV)/.setup-done
# Repeatable examples by default; HYPOTHESIS_PROFILE=nightly searches much longer.
HYPOTHESIS_PROFILE ?= ci
STRICT ?=
# Test processes; JOBS=0 runs the tests in one. Each gets one stretch of files, so that what the tests of a file share is
# made once, and takes from the others when it has done its own.
JOBS ?= auto
PYTEST = $(RUN) -m pytest -q -n $(JOBS) --maxprocesses=4 --dist=worksteal
ARGS ?=
# Test processes share the cores already; threads of the linear algebra library would only fight for them.
OPENBLAS_NUM_THREADS ?= 1
export HYPOTHESIS_PROFILE STRICT OPENBLAS_NUM_THREADS
# Tests start hundreds of processes: each reads compiled modules instead of compiling them again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test suite lint format bench faults planted docs docs-serve package-check system-parts fuzz nightly clients licences sbom vulnerabilities clean

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## make .venv with the pinned dependencies (PYTHON=python3.12 picks another Python)

$(STAMP): pyproject.toml constraints.txt tools/setup_venv.py
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' || { \
	  echo "BlowfishDB needs Python 3.11 to 3.14, and $(PYTHON) is not one. Name one: make setup PYTHON=python3.12" >&2; \
	  exit 1; }
	@$(PYTHON) tools/setup_venv.py $(VENV)
	@touch $@

demo: $(STAMP) ## the web pages over real census data, with a curator and an analyst
	@$(RUN) -m blowfishdb demo || [ $$? -eq 130 ]

test: lint suite ## lint, all tests, and the floors of branch coverage (STRICT=1: a skip fails; ARGS="-k window" narrows it)

suite: $(STAMP) system-parts
	@$(PYTEST) --cov --cov-report=json:build/coverage.json $(ARGS)
	@$(if $(ARGS),,$(RUN) -m tools.coverage_floors build/coverage.json)

lint: $(STAMP) ## style, types and the direction of imports
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .
	@$(RUN) -m mypy
	@$(VENV)/bin/lint-imports --no-logo

format: $(STAMP) ## rewrite the files in the house format
	@$(RUN) -m ruff check --fix .
	@$(RUN) -m ruff format .

docs: $(STAMP) ## the documentation site, with its notebooks run, in build/site
	@NO_MKDOCS_2_WARNING=1 BLOWFISH_DOCS_EXECUTE=true $(RUN) -m mkdocs build --strict

docs-serve: $(STAMP) ## the documentation site at http://127.0.0.1:8001 while you write
	@NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs serve --dev-addr 127.0.0.1:8001

package-check: $(STAMP) ## build wheel and sources, install both in fresh environments and try them (minutes, needs an index)
	@$(RUN) -m tools.package_check

system-parts:
	@$(PYTHON) tools/system_parts.py

fuzz: $(STAMP) ## search minutes long for inputs that break something (tests/fuzz)
	@HYPOTHESIS_PROFILE=nightly $(PYTEST) tests/fuzz $(ARGS)

nightly: $(STAMP) system-parts ## the long forms of the checks that `make test` runs in short, and property tests 160 times as long
	@$(PYTEST) -m nightly $(ARGS)
	@HYPOTHESIS_PROFILE=nightly $(PYTEST) -m "hypothesis and not nightly" $(ARGS)

clients: $(STAMP) ## R, JDBC, ODBC, LibreOffice, Superset and Jupyter over the PostgreSQL port, and an OpenID provider; installs them (minutes)
	@$(RUN) tools/system_parts.py --clients
	@STRICT=1 $(RUN) -m pytest -q -n 0 -m clients tests/clients $(ARGS)

licences: $(STAMP) ## write docs/licences.md; fails on a licence that nobody approved
	@$(RUN) -m tools.supply_chain licences

sbom: $(STAMP) ## write build/sbom.json, a CycloneDX bill of materials
	@$(RUN) -m tools.supply_chain sbom $(ARGS)

vulnerabilities: $(STAMP) ## known vulnerabilities of the pinned packages (ARGS="--advisories FILE" works without a network)
	@$(RUN) -m tools.supply_chain vulnerabilities $(ARGS)

bench: $(STAMP) ## run one benchmark: make bench NAME=noise (without NAME: all that the project aims at; ARGS=--help lists them)
	@$(RUN) -m benchmarks $(NAME) $(ARGS)

faults: $(STAMP) ## break things during releases and count what is lost (an hour; ARGS="--releases 50" is shorter)
	@$(RUN) -m tools.faults $(ARGS)

planted: $(STAMP) ## plant faults one by one in a copy and print whether tests and audit find them (hours; ARGS="--list")
	@$(RUN) -m tools.planted $(ARGS)

clean: ## remove .venv and every cache
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage .coverage.*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
