"""A page that computes plausibility from two pasted tables; ``python app.py`` starts it."""

from pathlib import Path

from attn_faithful.metrics.page import MetricPage

FIRST = "predictions\n0.1 0.2 0.7\n0.5 0.3 0.2"
SECOND = "references\n0 0 1\n1 1 0"
ABOUT = "Importance of the tokens; 1 for those that people marked."

metric_page = MetricPage(Path(__file__).with_name("plausibility.py"), FIRST, SECOND, ABOUT)
compute = metric_page.compute
page = metric_page.interface()

if __name__ == "__main__":
    page.launch()
