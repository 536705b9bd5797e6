r"""What the numbers of an appendix are: one table of formulas with the paper of each.

The range and the direction of a number are those of its metric, which a run's summary holds.

Letters: x a text of n items, y the model's decision, p_y(x, a) its probability under the attention a; g another
importance, r a ranking by importance and r_1..k its first k items; x without S, a without S: the items S deleted from
the text, or removed from the attention, the rest renormalised.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Definition:
    """How a number is computed for one text; the mean over texts is what is reported.

    Attributes:
        formula: in LaTeX's mathematics, without "|" (which would end a cell of a Markdown table).
        works: keys of the papers that it is from; none where this package defines it.
    """

    formula: str
    works: tuple[str, ...] = ()


# what the formulas of the tests share; stands above the table
NOTATION = (
    (r"\mathrm{TVD}(p,q)=\tfrac12\sum_c\lvert p_c-q_c\rvert", "of class probabilities"),
    (
        r"\mathrm{JSD}(a,b)=\tfrac12\mathrm{KL}(a\,\Vert\,m)+\tfrac12\mathrm{KL}(b\,\Vert\,m),\ m=\tfrac12(a+b)",
        "in nats",
    ),
)

_JW, _SS = "jain-wallace-2019", "serrano-smith-2019"
_AT_LEAST = r"\min\{k:\arg\max_c p_c(x,a\setminus r_{1..k})\neq y\}/n"

DEFINITIONS: Mapping[str, Definition] = {
    # correlation
    "attention_correlation": Definition(
        r"\tau_b(a,g)=(C-D)/\sqrt{(N-T_a)(N-T_g)}\text{ over the }N\text{ pairs of items}", (_JW, "kendall-1945")
    ),
    "significant": Definition(r"[\,p(\tau_b)\le 0.05\,]", (_JW,)),
    "top_k_overlap": Definition(r"\lvert a_{1..k}\cap g_{1..k}\rvert/k", ("fagin-2003",)),
    # permutation
    "attention_permutation": Definition(r"\mathrm{median}_{\pi}\ \mathrm{TVD}\bigl(p(x,a_\pi),p(x,a)\bigr)", (_JW,)),
    "permutation_flips": Definition(r"\mathrm{mean}_{\pi}\ [\,\arg\max_c p_c(x,a_\pi)\neq y\,]"),
    "permutation_largest": Definition(r"\max_{\pi}\ \mathrm{TVD}\bigl(p(x,a_\pi),p(x,a)\bigr)"),
    # adversarial
    "adversarial_attention": Definition(
        r"\max_b\ \mathrm{JSD}(a,b)\text{ s.t. }\mathrm{TVD}\bigl(p(x,b),p(x,a)\bigr)\le\varepsilon", (_JW,)
    ),
    "decision_jsd": Definition(r"\max_b\ \mathrm{JSD}(a,b)\text{ s.t. }\arg\max_c p_c(x,b)=y"),
    "flip_distance": Definition(r"\min_b\ \mathrm{JSD}(a,b)\text{ s.t. }\arg\max_c p_c(x,b)\neq y"),
    "attention_proof": Definition(r"[\,\arg\max_c p_c(x,b)=y\text{ for all }b\,]"),
    "head_certified": Definition(
        r"\mathrm{mean}_h\ [\,\arg\max_c p_c(x,b_h,a_{-h})=y\text{ for all }b_h\text{, proved}\,]"
    ),
    "head_flipped": Definition(
        r"\mathrm{mean}_h\ [\,\arg\max_c p_c(x,b_h,a_{-h})\neq y\text{ for some }b_h\text{, found}\,]"
    ),
    "joint_flip": Definition(r"[\,\arg\max_c p_c(x,b)\neq y\text{ for some }b\text{ of all heads, found}\,]"),
    "certified_radius": Definition(
        r"\max\{\rho:\arg\max_c p_c(x,(1-\rho)a+\rho q)=y\text{ for all }q\text{, proved}\}"
    ),
    # flips
    "decision_flip": Definition(_AT_LEAST, (_SS,)),
    "flip_optimal": Definition(r"[\,\text{no smaller set of items changes the decision}\,]", (_SS,)),
    "flip_never": Definition(r"[\,\text{no first }k\text{ items of the ranking change the decision}\,]", (_SS,)),
    "js_negative": Definition(
        r"[\,\mathrm{JSD}(p(x,a),p(x,a\setminus r_1))<\mathrm{JSD}(p(x,a),p(x,a\setminus i))\,],\ i\text{ at random}",
        (_SS,),
    ),
    "core_share": Definition(r"\min\{\lvert S\rvert:\arg\max_c p_c(x,b)=y\text{ for all }b\text{ with }b_S=a_S\}/n"),
    "naopc_removal": Definition(
        r"(A-A_-)/(A_+-A_-),\ A=\mathrm{mean}_{k<n}\,p_y(x,a)-p_y(x,a\setminus r_{1..k})", ("edin-2025",)
    ),
    # erasure
    "comprehensiveness": Definition(
        r"\mathrm{mean}_{s}\ p_y(x)-p_y(x\setminus r_{1..\lceil sn\rceil})", ("deyoung-2020",)
    ),
    "sufficiency": Definition(r"\mathrm{mean}_{s}\ p_y(x)-p_y(r_{1..\lceil sn\rceil})", ("deyoung-2020",)),
    "naopc": Definition(r"(A-A_-)/(A_+-A_-),\ A=\mathrm{mean}_{k<n}\,p_y(x)-p_y(x\setminus r_{1..k})", ("edin-2025",)),
    "deleted_outside": Definition(
        r"\mathrm{mean}_S\ [\,p_{\mathrm{MaSF}}(x\setminus S)<0.05\,]", ("haroush-2022", "madsen-2023")
    ),
    "mask_comprehensiveness": Definition(
        r"\text{comprehensiveness, }r_{1..\lceil sn\rceil}\text{ replaced by mask tokens}", ("madsen-2023",)
    ),
    "mask_sufficiency": Definition(
        r"\text{sufficiency, all but }r_{1..\lceil sn\rceil}\text{ replaced by mask tokens}", ("madsen-2023",)
    ),
    "naopc_mask": Definition(r"\text{NAOPC, items replaced by mask tokens}", ("edin-2025", "madsen-2023")),
    "masked_outside": Definition(
        r"\mathrm{mean}_S\ [\,p_{\mathrm{MaSF}}(x\text{ with }S\text{ masked})<0.05\,]",
        ("haroush-2022", "madsen-2023"),
    ),
    "soft_comprehensiveness": Definition(
        r"p_y(x)-p_y(e_{td}\,(1-z_{td})),\ z_{td}\sim\mathrm{Bernoulli}(q_t)", ("zhao-aletras-2023",)
    ),
    "soft_sufficiency": Definition(
        r"p_y(x)-p_y(e_{td}\,z_{td}),\ z_{td}\sim\mathrm{Bernoulli}(q_t)", ("zhao-aletras-2023",)
    ),
    # polarity, stability
    "polarity_violation": Definition(r"[\,p_y(x\setminus r_1)\ge p_y(x)\,]", ("liu-2022",)),
    "polarity_violation_removal": Definition(r"[\,p_y(x,a\setminus r_1)\ge p_y(x,a)\,]", ("liu-2022",)),
    "stability_tau": Definition(
        r"\tau_b(r(x),r(x'))\text{, the item of least effect exchanged in }x'", ("alvarez-melis-jaakkola-2018",)
    ),
    # entropy
    "importance_entropy": Definition(
        r"-\sum_i q_i\ln q_i/\ln n,\ q_i=\lvert g_i\rvert/\sum_j\lvert g_j\rvert", ("meister-2021",)
    ),
    "conicity": Definition(
        r"\mathrm{mean}_i\,\lvert\cos(h_i,\bar h)\rvert\text{ of the states }h_i", ("mohankumar-2020",)
    ),
    # marks
    "plausibility": Definition(r"\text{area under precision and recall of the marked items}", ("deyoung-2020",)),
    "plausibility_f1": Definition(r"2PR/(P+R)\text{ of selected against marked items}", ("deyoung-2020",)),
    "plausibility_iou": Definition(
        r"F_1\text{ of runs, found where }\lvert A\cap B\rvert/\lvert A\cup B\rvert\ge 0.5", ("deyoung-2020",)
    ),
    "impermissible_mass": Definition(r"\sum_{i\in I}\lvert g_i\rvert/\sum_i\lvert g_i\rvert", ("pruthi-2020",)),
    # randomisation
    "randomisation_tau": Definition(
        r"\tau_b(g_\theta(x),g_{\theta'}(x))\text{, all weights }\theta'\text{ drawn anew}", ("adebayo-2018",)
    ),
    # twins
    "attefa": Definition(
        r"\min\bigl(1,\ \overline{\mathrm{TVD}}\,/\,(\overline{\mathrm{JSD}}/\ln 2)\bigr)\text{ of twin and base}",
        ("amini-kosseim-2022",),
    ),
    "tvd": Definition(
        r"\mathrm{TVD}(p_{\mathrm{twin}}(x),p_{\mathrm{base}}(x))", ("amini-kosseim-2022", "wiegreffe-pinter-2019")
    ),
    "jsd": Definition(
        r"\mathrm{JSD}(a_{\mathrm{twin}},a_{\mathrm{base}})", ("amini-kosseim-2022", "wiegreffe-pinter-2019")
    ),
    "jsd_at_tvd": Definition(
        r"\max\ \overline{\mathrm{JSD}}\text{ of a twin found s.t. }\overline{\mathrm{TVD}}\le\text{max\_tvd}"
    ),
}

SOURCE_WORKS: Mapping[str, tuple[str, ...]] = {
    "saliency": ("simonyan-2014",),
    "input_x_gradient": (_JW,),
    "signed_input_x_gradient": ("simonyan-2014",),
    "integrated_gradients": ("sundararajan-2017",),
    "signed_integrated_gradients": ("sundararajan-2017",),
    "leave_one_out": ("li-2016",),
    "signed_leave_one_out": ("li-2016",),
    "attention_gradient": (_SS,),
    "attention_x_gradient": (_SS,),
    "rollout": ("abnar-zuidema-2020",),
    "attention_flow": ("abnar-zuidema-2020",),
    "attention_relevance": ("chefer-2021",),
    "value_norm": ("kobayashi-2020",),
    "value_zeroing": ("mohebbi-2023",),
    "learned_heads": ("cohen-wang-2025",),
}
