# Every target works as the only command on a fresh clone.
PYTHON ?= python3
BIN := .venv/bin

# The tests start a hundred Python processes: each would compile every module anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup test test-quick test-all pythons demo docs lint types clean

setup: .venv/.ready

# In two steps: a demo needs a third of what tests and tools need. Again only if what has to be installed has changed.
.venv/.ready: pyproject.toml scripts/setup.sh
	@PYTHON="$(PYTHON)" sh scripts/setup.sh all
	@touch .venv/.demo $@

.venv/.demo: pyproject.toml scripts/setup.sh
	@PYTHON="$(PYTHON)" sh scripts/setup.sh demo
	@touch $@

# Three tiers: tests/support/tiers.py says what each runs. ARGUMENTS go to pytest: make test ARGUMENTS="-k gather".
PYTEST := $(BIN)/python -m pytest -n auto --dist worksteal $(ARGUMENTS)

test: setup
	$(PYTEST)

test-quick: setup
	$(PYTEST) --tier quick

test-all: setup
	$(PYTEST) --tier all

pythons: setup
	$(BIN)/python scripts/pythons.py

demo: .venv/.demo
	@echo "Painting 48 frames of a moving photograph (a software GPU takes half a minute):"
	@$(BIN)/python -m framebind demo style_transfer --frames 48 --size 512x512 \
		--output out/style_transfer.mp4 --output out/style_transfer.png
	@echo
	@echo "Made out/style_transfer.mp4, a photograph painted by the model that comes with framebind, and its last picture,"
	@echo "out/style_transfer.png. Look at them, then try one of these:"
	@echo
	@echo "  $(BIN)/python -m framebind demo style_transfer               in a window; --camera 0 paints your webcam"
	@echo "  $(BIN)/python -m framebind doctor                            what this machine has, and what is missing"
	@echo "  $(BIN)/python -m framebind inspect YOUR_MODEL.tflite         which of its operators run on the GPU"
	@echo
	@echo "docs/tutorial.md goes from here to a program of your own."

# Pages in out/docs/index.html. A warning is an error.
docs: .venv/.docs
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs out/docs

.venv/.docs: .venv/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	@touch $@

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/basedpyright

clean:
	rm -rf .venv out build dist *.egg-info
