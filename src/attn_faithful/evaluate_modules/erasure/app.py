"""A page that computes erasure from two pasted tables; ``python app.py`` starts it."""

from pathlib import Path

from attn_faithful.metrics.page import MetricPage

FIRST = "predictions,sufficient\n0.9 0.8 0.6 0.5 0.2,0.3 0.5 0.8 0.9 0.95\n0.7 0.7 0.7 0.4 0.5,0.6 0.6 0.6 0.6 0.7"
SECOND = "references\n0.9\n0.7"
ABOUT = "Probabilities without the top tokens and with only them, a number a share; of the whole text."

metric_page = MetricPage(Path(__file__).with_name("erasure.py"), FIRST, SECOND, ABOUT)
compute = metric_page.compute
page = metric_page.interface()

if __name__ == "__main__":
    page.launch()
