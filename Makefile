# Every target works as the only command on a fresh clone.
PYTHON ?= python3
BIN := .venv/bin

# The tests start a hundred Python processes: each would compile every module anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup test test-quick test-all demo docs lint types clean

setup: .venv/.ready

# Again only where what has to be installed has changed.
.venv/.ready: pyproject.toml scripts/setup.sh
	PYTHON="$(PYTHON)" sh scripts/setup.sh
	@touch $@

# Three tiers: tests/support/tiers.py says what each runs. ARGUMENTS go to pytest: make test ARGUMENTS="-k gather".
PYTEST := $(BIN)/python -m pytest -n auto --dist worksteal $(ARGUMENTS)

test: setup
	$(PYTEST)

test-quick: setup
	$(PYTEST) --tier quick

test-all: setup
	$(PYTEST) --tier all

demo: setup
	$(BIN)/python -m framebind.demos.style_transfer --frames 48 --size 512x512 \
		--output out/style_transfer.mp4 --output out/style_transfer.png

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
