"""The works that an appendix cites: papers and books, as their proceedings and journals have them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Work:
    """A paper or a book.

    Attributes:
        key: with which it is cited.
        kind: of BibTeX: "inproceedings", "article", "book" or "misc".
        authors: "Family, Given", in the order of the paper.
        title: as printed.
        venue: proceedings, journal, publisher, or where a preprint is.
        year: of print.
        volume, number, pages: "" where there are none.
    """

    key: str
    kind: str
    authors: tuple[str, ...]
    title: str
    venue: str
    year: int
    volume: str = ""
    number: str = ""
    pages: str = ""


_ACL = "Annual Meeting of the Association for Computational Linguistics"

WORKS = (
    Work(
        "abnar-zuidema-2020",
        "inproceedings",
        ("Abnar, Samira", "Zuidema, Willem"),
        "Quantifying Attention Flow in Transformers",
        f"Proceedings of the 58th {_ACL}",
        2020,
        pages="4190-4197",
    ),
    Work(
        "adebayo-2018",
        "inproceedings",
        (
            "Adebayo, Julius",
            "Gilmer, Justin",
            "Muelly, Michael",
            "Goodfellow, Ian",
            "Hardt, Moritz",
            "Kim, Been",
        ),
        "Sanity Checks for Saliency Maps",
        "Advances in Neural Information Processing Systems 31",
        2018,
    ),
    Work(
        "alvarez-melis-jaakkola-2018",
        "misc",
        ("Alvarez-Melis, David", "Jaakkola, Tommi S."),
        "On the Robustness of Interpretability Methods",
        "arXiv:1806.08049",
        2018,
    ),
    Work(
        "amini-kosseim-2022",
        "inproceedings",
        ("Amini, Hessam", "Kosseim, Leila"),
        "How (Un)Faithful is Attention?",
        "Proceedings of the Fifth BlackboxNLP Workshop on Analyzing and Interpreting Neural Networks for NLP",
        2022,
        pages="119-130",
    ),
    Work(
        "chefer-2021",
        "inproceedings",
        ("Chefer, Hila", "Gur, Shir", "Wolf, Lior"),
        "Generic Attention-model Explainability for Interpreting Bi-Modal and Encoder-Decoder Transformers",
        "Proceedings of the IEEE/CVF International Conference on Computer Vision",
        2021,
        pages="397-406",
    ),
    Work(
        "cohen-wang-2025",
        "misc",
        ("Cohen-Wang, Benjamin", "Chuang, Yung-Sung", "Madry, Aleksander"),
        "Learning to Attribute with Attention",
        "arXiv:2504.13752",
        2025,
    ),
    Work(
        "deyoung-2020",
        "inproceedings",
        (
            "DeYoung, Jay",
            "Jain, Sarthak",
            "Rajani, Nazneen Fatema",
            "Lehman, Eric",
            "Xiong, Caiming",
            "Socher, Richard",
            "Wallace, Byron C.",
        ),
        "ERASER: A Benchmark to Evaluate Rationalized NLP Models",
        f"Proceedings of the 58th {_ACL}",
        2020,
        pages="4443-4458",
    ),
    Work(
        "edin-2025",
        "inproceedings",
        (
            "Edin, Joakim",
            "Motzfeldt, Andreas Geert",
            "Christensen, Casper L.",
            "Ruotsalo, Tuukka",
            "Maaløe, Lars",
            "Maistro, Maria",
        ),
        "Normalized AOPC: Fixing Misleading Faithfulness Metrics for Feature Attributions Explainability",
        f"Proceedings of the 63rd {_ACL} (Volume 1: Long Papers)",
        2025,
        pages="1715-1730",
    ),
    Work(
        "efron-tibshirani-1993",
        "book",
        ("Efron, Bradley", "Tibshirani, Robert J."),
        "An Introduction to the Bootstrap",
        "Chapman and Hall",
        1993,
    ),
    Work(
        "fagin-2003",
        "article",
        ("Fagin, Ronald", "Kumar, Ravi", "Sivakumar, D."),
        "Comparing Top k Lists",
        "SIAM Journal on Discrete Mathematics",
        2003,
        "17",
        "1",
        "134-160",
    ),
    Work(
        "haroush-2022",
        "inproceedings",
        ("Haroush, Matan", "Frostig, Tzviel", "Heller, Ruth", "Soudry, Daniel"),
        "A Statistical Framework for Efficient Out of Distribution Detection in Deep Neural Networks",
        "International Conference on Learning Representations",
        2022,
    ),
    Work(
        "holm-1979",
        "article",
        ("Holm, Sture",),
        "A simple sequentially rejective multiple test procedure",
        "Scandinavian Journal of Statistics",
        1979,
        "6",
        "2",
        "65-70",
    ),
    Work(
        "jain-wallace-2019",
        "inproceedings",
        ("Jain, Sarthak", "Wallace, Byron C."),
        "Attention is not Explanation",
        "Proceedings of the 2019 Conference of the North American Chapter of the Association for Computational "
        "Linguistics: Human Language Technologies, Volume 1 (Long and Short Papers)",
        2019,
        pages="3543-3556",
    ),
    Work(
        "kendall-1945",
        "article",
        ("Kendall, Maurice G.",),
        "The treatment of ties in ranking problems",
        "Biometrika",
        1945,
        "33",
        "3",
        "239-251",
    ),
    Work(
        "kobayashi-2020",
        "inproceedings",
        ("Kobayashi, Goro", "Kuribayashi, Tatsuki", "Yokoi, Sho", "Inui, Kentaro"),
        "Attention is Not Only a Weight: Analyzing Transformers with Vector Norms",
        "Proceedings of the 2020 Conference on Empirical Methods in Natural Language Processing",
        2020,
        pages="7057-7075",
    ),
    Work(
        "li-2016",
        "misc",
        ("Li, Jiwei", "Monroe, Will", "Jurafsky, Dan"),
        "Understanding Neural Networks through Representation Erasure",
        "arXiv:1612.08220",
        2016,
    ),
    Work(
        "liu-2022",
        "inproceedings",
        ("Liu, Yibing", "Li, Haoliang", "Guo, Yangyang", "Kong, Chenqi", "Li, Jing", "Wang, Shiqi"),
        "Rethinking Attention-Model Explainability through Faithfulness Violation Test",
        "Proceedings of the 39th International Conference on Machine Learning",
        2022,
        pages="13807-13824",
    ),
    Work(
        "madsen-2023",
        "misc",
        ("Madsen, Andreas", "Reddy, Siva", "Chandar, Sarath"),
        "Faithfulness Measurable Masked Language Models",
        "arXiv:2310.07819",
        2023,
    ),
    Work(
        "meister-2021",
        "inproceedings",
        ("Meister, Clara", "Lazov, Stefan", "Augenstein, Isabelle", "Cotterell, Ryan"),
        "Is Sparse Attention more Interpretable?",
        f"Proceedings of the 59th {_ACL} and the 11th International Joint Conference on Natural Language Processing "
        "(Volume 2: Short Papers)",
        2021,
        pages="122-129",
    ),
    Work(
        "mohankumar-2020",
        "inproceedings",
        (
            "Mohankumar, Akash Kumar",
            "Nema, Preksha",
            "Narasimhan, Sharan",
            "Khapra, Mitesh M.",
            "Srinivasan, Balaji Vasan",
            "Ravindran, Balaraman",
        ),
        "Towards Transparent and Explainable Attention Models",
        f"Proceedings of the 58th {_ACL}",
        2020,
    ),
    Work(
        "mohebbi-2023",
        "inproceedings",
        ("Mohebbi, Hosein", "Zuidema, Willem", "Chrupała, Grzegorz", "Alishahi, Afra"),
        "Quantifying Context Mixing in Transformers",
        "Proceedings of the 17th Conference of the European Chapter of the Association for Computational Linguistics",
        2023,
        pages="3378-3400",
    ),
    Work(
        "pratt-1959",
        "article",
        ("Pratt, John W.",),
        "Remarks on zeros and ties in the Wilcoxon signed rank procedures",
        "Journal of the American Statistical Association",
        1959,
        "54",
        "287",
        "655-667",
    ),
    Work(
        "pruthi-2020",
        "inproceedings",
        ("Pruthi, Danish", "Gupta, Mansi", "Dhingra, Bhuwan", "Neubig, Graham", "Lipton, Zachary C."),
        "Learning to Deceive with Attention-Based Explanations",
        f"Proceedings of the 58th {_ACL}",
        2020,
        pages="4782-4793",
    ),
    Work(
        "serrano-smith-2019",
        "inproceedings",
        ("Serrano, Sofia", "Smith, Noah A."),
        "Is Attention Interpretable?",
        f"Proceedings of the 57th {_ACL}",
        2019,
        pages="2931-2951",
    ),
    Work(
        "simonyan-2014",
        "inproceedings",
        ("Simonyan, Karen", "Vedaldi, Andrea", "Zisserman, Andrew"),
        "Deep Inside Convolutional Networks: Visualising Image Classification Models and Saliency Maps",
        "2nd International Conference on Learning Representations, Workshop Track",
        2014,
    ),
    Work(
        "sundararajan-2017",
        "inproceedings",
        ("Sundararajan, Mukund", "Taly, Ankur", "Yan, Qiqi"),
        "Axiomatic Attribution for Deep Networks",
        "Proceedings of the 34th International Conference on Machine Learning",
        2017,
        pages="3319-3328",
    ),
    Work(
        "wiegreffe-pinter-2019",
        "inproceedings",
        ("Wiegreffe, Sarah", "Pinter, Yuval"),
        "Attention is not not Explanation",
        "Proceedings of the 2019 Conference on Empirical Methods in Natural Language Processing and the 9th "
        "International Joint Conference on Natural Language Processing",
        2019,
        pages="11-20",
    ),
    Work(
        "wilcoxon-1945",
        "article",
        ("Wilcoxon, Frank",),
        "Individual comparisons by ranking methods",
        "Biometrics Bulletin",
        1945,
        "1",
        "6",
        "80-83",
    ),
    Work(
        "wilson-1927",
        "article",
        ("Wilson, Edwin B.",),
        "Probable inference, the law of succession, and statistical inference",
        "Journal of the American Statistical Association",
        1927,
        "22",
        "158",
        "209-212",
    ),
    Work(
        "zhao-aletras-2023",
        "inproceedings",
        ("Zhao, Zhixue", "Aletras, Nikolaos"),
        "Incorporating Attribution Importance for Improving Faithfulness Metrics",
        f"Proceedings of the 61st {_ACL} (Volume 1: Long Papers)",
        2023,
        pages="4732-4745",
    ),
)
