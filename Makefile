.PHONY: check test smoke bench evidence docs dist

check:
	ruff check .
	ruff format --check .
	mypy
	python -m pip check
	@if command -v pip-audit > /dev/null; then \
	  told=$$(pip-audit --local --progress-spinner off 2>&1); status=$$?; \
	  case "$$told" in *"known vulnerabilit"*"Fix Versions"*) echo "$$told"; exit 1;; esac; \
	  unknown=$$(echo "$$told" | grep -c "could not be audited"); \
	  if [ $$status = 0 ]; then echo "pip-audit: no known vulnerability; $$unknown packages could not be looked up"; \
	  else echo "pip-audit: nothing could be looked up here: $$(echo "$$told" | tail -1)"; fi; \
	else echo "pip-audit is not installed: known vulnerabilities were not looked up (pip install pip-audit)"; fi

test:
	pytest

smoke:
	attn-faithful run recipes/quickstart.yaml --smoke --output $${TMPDIR:-/tmp}/attn-faithful-smoke

bench:
	python benchmarks/bench.py
	python benchmarks/publish.py

evidence:
	python -m evidence.pages

docs:
	NO_MKDOCS_2_WARNING=1 python -m mkdocs build --strict
	ATTN_FAITHFUL_SITE=site pytest -q -n 0 --durations=0 --durations-min=20 tests/site

dist:
	rm -rf dist
	python -m build --quiet
	twine check --strict dist/*
	python .ci/check_dist.py
