# Everything lies in .venv and .workbook; `make clean` removes both and the built weights.
#
#   make lab                    set up, start the server with its models, open JupyterLab
#   make lab BROWSER=no         the same without opening a browser
#   make lab OPTIONS="--http-port 9000 --grpc-port 9001 --metrics-port 9002"
#   make vllm                   add vLLM and the language models; make lab then loads them
#   make hub                    run JupyterHub for a class, each student with an own server
#   make check                  format, lint, types, and the tests that need no server: three minutes
#   make test                   set up, then the checks and the quick tests: twelve minutes
#   make test ALL=yes           add vLLM and JupyterHub, then all tests but those of `make mutants`
#   make setup PYTHON=python3.12

SHELL := /bin/bash
.DEFAULT_GOAL := help
BROWSER ?= yes
OPTIONS ?=
PYTHON ?= $(shell for p in python3.11 python3.12 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info[:2] not in ((3, 11), (3, 12)))' 2>/dev/null \
	&& echo $$p && break; done)

VENV := .venv
BIN := $(VENV)/bin
checksum = $(shell cat $(1) 2>/dev/null | cksum | cut -d' ' -f1)
LISTS := requirements-uv.txt requirements.txt requirements-torch.txt
STAMP := $(VENV)/.complete-$(call checksum,$(LISTS) pyproject.toml)
HUB_LISTS := requirements-hub.txt requirements-class.txt docker/hub/one_machine/proxy/package-lock.json
HUB_STAMP := $(VENV)/.hub-$(call checksum,$(HUB_LISTS))
VLLM_STAMP := $(VENV)/.vllm-$(call checksum,requirements-vllm.txt)
# The grader's packages. Its other folder, grader/work, holds what students handed in.
OURS := $(dir $(wildcard grader/*/__init__.py))
COMPILED := $(VENV)/.compiled-$(call checksum,$(LISTS) requirements-vllm.txt)

ASSIGNMENT ?=
ALL ?=

.PHONY: help packages setup lab check test mutants grade build site vllm hub bench bench-peers image image-test doctor lock clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

packages: $(STAMP)  # the first half of setup; the laptop image builds the halves apart

setup: $(STAMP) ## install everything into .venv and build the models; start nothing
	@$(BIN)/python -c "from workbook.measure import perf_install; perf_install.install()"
	@$(BIN)/workbook models

$(STAMP): $(LISTS) pyproject.toml
	@test "$$(uname -sm)" = "Linux x86_64" || { \
		echo "The course runs on Linux on x86-64, and this machine is $$(uname -sm)."; \
		echo "  to do: docs/students.md, \"Which machine\", says what to take instead."; \
		exit 1; }
	@test -x $(BIN)/python -o -n "$(PYTHON)" || { \
		echo "The course needs Python 3.11 or 3.12, and finds neither."; \
		echo "  to do: install one (Debian 12, Ubuntu 24.04: sudo apt install python3-venv python3-dev;"; \
		echo "         others: pyenv, with --enable-shared: docs/students.md, \"Linux\"),"; \
		echo "         then run make again, with PYTHON=/path/to/python3.12 where it is not on PATH."; \
		exit 1; }
	@echo "Installing the course's packages into $(VENV): 2.5 GB to download, 8 GB of disk; with a fast network"
	@echo "one to two minutes. With the CUDA build of PyTorch: 6.5 GB to download, 15 GB of disk."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { \
		echo "The virtual environment could not be made."; \
		echo "  to do: Debian 12, Ubuntu 24.04: sudo apt install python3-venv; then delete $(VENV) and run make again."; \
		exit 1; }
	@$(BIN)/python workbook/lab/install.py
	@rm -f $(VENV)/.complete-*; touch $@

lab: $(STAMP) ## set up, start the server, open JupyterLab; what is not built yet is built meanwhile
	@$(BIN)/workbook lab $(if $(filter no,$(BROWSER)),--no-browser) $(OPTIONS)

check: $(STAMP) ## format, lint, types, and the tests that need no server: three minutes
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	@$(types_of_lectures)
	$(BIN)/pytest -m "not server and not long"

# The modules of each notebook have the same names: mypy looks at one folder at a time.
UNITS := $(dir $(wildcard lectures/*__*/lesson.py lectures/*/*__*/lesson.py))
types_of_lectures = code=0; for unit in $(UNITS); do \
	$(BIN)/mypy --no-error-summary $$(ls $$unit*.py | grep -v '/lesson.py\|/solution.py') || code=1; done; exit $$code

# What runs in a sandbox cannot write compiled files, and would compile its packages every time.
# Where the environment belongs to another user, it is left as it is: grading takes longer.
$(COMPILED): | $(STAMP)
	@test -w $(VENV) || { echo "Python files are not compiled: $(VENV) belongs to another user."; exit 0; }; \
	echo "Compiling Python files: half a minute."; \
	$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib workbook $(OURS); \
	rm -f $(VENV)/.compiled-*; touch $@

test: setup $(if $(filter-out no,$(ALL)),$(VLLM_STAMP) $(HUB_STAMP)) $(COMPILED) ## checks and quick tests: twelve minutes; ALL=yes: all, what CI runs
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	@$(types_of_lectures)
	OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive $(BIN)/pytest --numprocesses=5 $(call record,first) -m "$(TESTS) and not alone and not last" || \
		$(call again,$(TESTS) and not alone and not last)
	$(BIN)/pytest --numprocesses=2 $(call record,more) -m "$(TESTS) and alone" $(call files,alone) || $(call again,$(TESTS) and alone)
	$(if $(filter-out no,$(ALL)),$(BIN)/pytest -m last --numprocesses=0 $(call files,last))

TESTS := not long$(if $(filter-out no,$(ALL)),, and (quick or not server))
# The files with a marker: to read all files of tests takes each worker ten seconds.
files = $$(grep -rl --include='*.py' 'mark\.$(1)\b' tests)
# With all tests, tests/durations.csv gets how long they took, and what failed once: for maintainers.
record = $(if $(filter-out no,$(ALL)),--record $(1))

# Tests drive real servers, on two cores with five workers. OpenMP's threads would wait for each
# other there, busily: one each is faster, and threads of a program that takes more wait asleep.
# Now and then a test is late all the same. What failed is tried once more with nothing beside it,
# up to the first that fails again.
# pytest exits with 1 where tests failed; any other status stands.
again = { test $$? -eq 1 && echo "Trying once more, each by itself, what failed:" && \
	$(BIN)/pytest -v -x --last-failed --last-failed-no-failures=none $(call record,again) -m "$(1)" --numprocesses=0; }

mutants: setup $(COMPILED) ## every wrong answer to assignments and tasks, second runs of long lectures, a class
	$(BIN)/pytest --durations=10 -m long

grade: setup $(COMPILED) ## grade what lies in grader/work/inbox, of all assignments; ASSIGNMENT=a2 for one
	@code=0; $(BIN)/grader autograde $(ASSIGNMENT) $(OPTIONS) || code=$$?; \
	test $$code -ne 4 || exit 0; \
	test $$code -eq 0 -o $$code -eq 3 || exit $$code; \
	$(BIN)/grader feedback $(ASSIGNMENT) && $(BIN)/grader report $(ASSIGNMENT) || exit; \
	test $$code -eq 0 || echo "All that could be graded is graded. The lines with ✗ above say what is not, and what to do."

build: setup ## build the notebooks of lectures and assignments from their sources
	@$(BIN)/workbook build

site: setup ## make the course's site in .workbook/site: every lecture as a page; minutes where they ran
	@$(BIN)/workbook site

vllm: setup $(VLLM_STAMP) ## add vLLM's CPU build and build the language models
	@$(BIN)/workbook models llama

$(VLLM_STAMP): requirements-vllm.txt
	@echo "Adding vLLM's CPU build to $(VENV): half a minute, 1.5 GB of disk."
	@$(BIN)/python workbook/lab/install.py vllm
	@rm -f $(VENV)/.vllm-*; touch $@

hub: setup $(HUB_STAMP) ## run JupyterHub for a class on this machine: docker/hub/README.md
	@$(BIN)/jupyterhub -f docker/hub/one_machine/jupyterhub_config.py

$(HUB_STAMP): $(HUB_LISTS) | $(STAMP)
	@echo "Adding JupyterHub and its proxy to $(VENV): 100 MB to download, 350 MB of disk."
	@$(BIN)/python workbook/lab/install.py hub
	@rm -f $(VENV)/.hub-*; touch $@

bench: setup ## measure the server against its peers on this machine; writes BENCHMARKS.md
	@$(BIN)/workbook bench

bench-peers: setup ## the same beside MLServer, BentoML and LitServe, each in an environment of its own
	@$(BIN)/workbook bench peers

.PHONY: gpu
gpu: setup $(COMPILED) ## with an NVIDIA GPU, no Docker: run what a laptop cannot show; writes docker/gpu/VERIFIED.md
	@docker/verify_gpu.sh $(OPTIONS)

.PHONY: gpu-stack
gpu-stack: setup ## check docker/gpu with a real Prometheus and redis; writes docker/gpu/CHECKED.md
	@WORKBOOK_RECORD=docker/gpu/CHECKED.md $(BIN)/pytest --numprocesses=0 tests/docker/test_gpu_stack.py

doctor: ## say what this machine lacks, and what to do about it
	@if test -x $(BIN)/workbook; then $(BIN)/workbook doctor; else $(or $(PYTHON),python3) workbook/lab/doctor.py; fi

image: ## build the laptop image, triton-workbook, with Docker
	docker build --file docker/laptop/Dockerfile --tag triton-workbook .

image-test: $(STAMP) ## build the laptop image with Docker or Podman and try it; writes docker/laptop/LAST_RUN.md
	@$(BIN)/python docker/laptop/try_image.py

lock: $(STAMP) ## write the lists of packages anew, with hashes, from requirements*.in
	@$(BIN)/python workbook/lab/install.py lock

clean: ## stop the server; remove .venv, .workbook and the built weights
	-@test -x $(BIN)/workbook && $(BIN)/workbook stop
	rm -rf $(VENV) .workbook .model_repository.staging *.egg-info
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find workbook grader lectures solutions assignments tests -name __pycache__ -prune -exec rm -rf {} +
	git clean -fdXq model_repository
