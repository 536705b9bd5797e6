"""A page that computes the decision flip from two pasted tables; ``python app.py`` starts it."""

from pathlib import Path

from attn_faithful.metrics.page import MetricPage

FIRST = "predictions,token_logits\n3 2 1,0 1; 0 4; 3 0\n1 2,2 0; 0 1"
SECOND = "references,biases\n0.5 0.3 0.2,0 0\n0.7 0.3,0 0"
ABOUT = "Importance by the judged ranking and what each token says; attention and the biases."

metric_page = MetricPage(Path(__file__).with_name("decision_flip.py"), FIRST, SECOND, ABOUT)
compute = metric_page.compute
page = metric_page.interface()

if __name__ == "__main__":
    page.launch()
