"""A page that computes the correlation from two pasted tables; ``python app.py`` starts it."""

from pathlib import Path

from attn_faithful.metrics.page import MetricPage

FIRST = "predictions\n0.1 0.2 0.7\n0.5 0.3 0.2"
SECOND = "references\n0.3 0.1 0.9\n-0.8 0.4 0.1"
ABOUT = "Attention; importance of the same tokens."

metric_page = MetricPage(Path(__file__).with_name("attention_correlation.py"), FIRST, SECOND, ABOUT)
compute = metric_page.compute
page = metric_page.interface()

if __name__ == "__main__":
    page.launch()
