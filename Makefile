.PHONY: check test smoke bench

check:
	ruff check .
	ruff format --check .
	mypy

test:
	pytest

smoke:
	attn-faithful run recipes/quickstart.yaml --smoke --output $${TMPDIR:-/tmp}/attn-faithful-smoke

bench:
	python benchmarks/training.py
	python benchmarks/counterfactuals.py
	python benchmarks/erasure.py
