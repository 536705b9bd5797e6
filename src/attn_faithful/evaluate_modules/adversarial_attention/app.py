"""A page that computes eps-max JSD from two pasted tables; ``python app.py`` starts it."""

from pathlib import Path

from attn_faithful.metrics.page import MetricPage

FIRST = "predictions,prediction_attentions\n0.9 0.1; 0.5 0.5,0 1; 1 0\n0.6 0.4,0.2 0.8"
SECOND = "references,reference_attentions\n0.9 0.1,0.8 0.2\n0.6 0.4,0.9 0.1"
ABOUT = "Probabilities and attention of the alternatives, a row of numbers each; the model's own."

metric_page = MetricPage(Path(__file__).with_name("adversarial_attention.py"), FIRST, SECOND, ABOUT)
compute = metric_page.compute
page = metric_page.interface()

if __name__ == "__main__":
    page.launch()
