"""Two result files hold each other's numbers (Jain and Wallace 2019, figures 3 and 4)."""

from __future__ import annotations

from collections.abc import Sequence

from evidence.published_faults.comparing import compared_means
from evidence.published_faults.effects import Comparison, Fault
from evidence.published_faults.trained import Trained, aligned

FAULT = Fault(
    name="swapped_files",
    title="Swapped result files",
    paper="jain_wallace_2019",
    where="successar/AttentionExplanation, Trainers/PlottingBC.py and PlottingQA.py, "
    "plot_correlation_between_grad_and_loo",
    published="keeps tau of attention with leave-one-out under the name ag (attention, gradient) and tau of attention "
    "with gradients under al: the files CorrGL-AG and CorrGL-AL, and the rows ag and al of CorrStats, are swapped",
    printed="leave-one-out in figure 3, gradients in figure 4: the captions fit what the files hold, not their names",
    remark="Their own files show it: for SST (BiLSTM, additive) CorrStats has 0.291 for ag and 0.351 for al, while "
    "GradientPval, written by another function, has 0.351 for attention with gradients. Who reads the files by their "
    "names gets the other number.",
)

LOO, GRADIENT = "leave_one_out", "input_x_gradient"
HELD = {
    "CorrGL-AG": f"tau_difference {GRADIENT}-attention~{LOO}",
    "CorrGL-AL": f"tau_difference {LOO}-attention~{GRADIENT}",
}
NAMED = {"CorrGL-AG": HELD["CorrGL-AL"], "CorrGL-AL": HELD["CorrGL-AG"]}


def measure(models: Sequence[Trained]) -> dict[tuple[str, str, str], Comparison]:
    """(metric, unit, texts) -> the mean that a file holds, and the one that its name says."""
    frames = aligned([model.scores({"correlation": {"against": [GRADIENT, LOO]}}) for model in models])
    found = {}
    for file, held in HELD.items():
        published = [frame[held].to_numpy() for frame in frames]
        printed = [frame[NAMED[file]].to_numpy() for frame in frames]
        found[f"mean difference of tau in the file {file}", "tau", "all"] = compared_means(published, printed)
    return found
