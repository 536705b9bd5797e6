"""A page that computes AtteFa from two pasted tables; ``python app.py`` starts it."""

from pathlib import Path

from attn_faithful.metrics.page import MetricPage

FIRST = "predictions,prediction_attentions\n0.7 0.3,0 0.1 0.9\n0.2 0.8,1 0"
SECOND = "references,reference_attentions\n0.9 0.1,0.8 0.2 0\n0.2 0.8,0 1"
ABOUT = "The twin's probabilities and attention; the base model's."

metric_page = MetricPage(Path(__file__).with_name("attefa.py"), FIRST, SECOND, ABOUT)
compute = metric_page.compute
page = metric_page.interface()

if __name__ == "__main__":
    page.launch()
