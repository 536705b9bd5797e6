"""A page that computes the entropy from two pasted tables; ``python app.py`` starts it."""

from pathlib import Path

from attn_faithful.metrics.page import MetricPage

FIRST = "predictions\n0.1 0.2 0.7\n0.5 0.3 0.2"
SECOND = ""
ABOUT = "Importance of the tokens; the second table stays empty."

metric_page = MetricPage(Path(__file__).with_name("importance_entropy.py"), FIRST, SECOND, ABOUT)
compute = metric_page.compute
page = metric_page.interface()

if __name__ == "__main__":
    page.launch()
