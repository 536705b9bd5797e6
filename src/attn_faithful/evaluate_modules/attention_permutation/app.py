"""A page that computes the change under permutations from two pasted tables; ``python app.py`` starts it."""

from pathlib import Path

from attn_faithful.metrics.page import MetricPage

FIRST = "predictions\n0.8 0.2; 0.6 0.4; 0.7 0.3\n0.1 0.9; 0.3 0.7"
SECOND = "references\n0.9 0.1\n0.2 0.8"
ABOUT = "Probabilities under each permutation, a row of numbers each; under the model's own attention."

metric_page = MetricPage(Path(__file__).with_name("attention_permutation.py"), FIRST, SECOND, ABOUT)
compute = metric_page.compute
page = metric_page.interface()

if __name__ == "__main__":
    page.launch()
