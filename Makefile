# Every target works as the only command on a fresh clone.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup test demo lint types clean

setup: .venv/.ready

# Again only where what has to be installed has changed.
.venv/.ready: pyproject.toml scripts/setup.sh
	PYTHON="$(PYTHON)" sh scripts/setup.sh
	@touch $@

test: setup
	$(BIN)/python -m pytest

demo: setup
	$(BIN)/python -m framebind.demos.style_transfer --frames 48 --size 512x512 \
		--output out/style_transfer.mp4 --output out/style_transfer.png

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/basedpyright

clean:
	rm -rf .venv out build dist *.egg-info
