"""What is proved and found of heads, in words, and what the verdict makes of it."""

from __future__ import annotations

import numpy as np
import pytest

from attn_faithful.reports.answer.answer import answer
from attn_faithful.reports.answer.findings import findings
from attn_faithful.reports.answer.head_statements import HeadStatements
from attn_faithful.reports.answer.verdict import AGAINST, FOR, OPEN
from attn_faithful.reports.scores import Scores
from tests.reports.answer.test_answer import with_scores
from tests.reports.made import long_texts
from tests.reports.made_heads import SITE, with_heads

TEXT = "a superb film of two hours"
FLIPS = (1.0, 0.181, 0.385)  # found to flip, the proved radius, the one found
NO_FLIP = (0.0, 0.5, 1.0)
NEVER = (0.0, 1.0, 1.0)
JOINT = (
    "Another attention of all heads together changes this decision: 39% of it mixed in is enough; up to 18% of any "
    "other mixed in changes nothing (proved)."
)


def of_text(path, letters, together=FLIPS, **further) -> str:
    run = with_heads(path, [TEXT], [letters], together=[together], **further)
    return HeadStatements(run, run.main_site)[0]


@pytest.mark.parametrize(
    ("letters", "words"),
    [
        (
            "pp?pf",
            "No attention of any one of heads 0, 1 and 3 could change this decision, the others keeping theirs "
            "(proved). Another attention of head 4 alone changes it. Of head 2 it is not known.",
        ),
        (
            "pppp",
            "No attention of any one of the 4 heads could change this decision, the others keeping theirs (proved).",
        ),
        ("ff", "Another attention of each of the 2 heads alone changes this decision."),
        (
            "ff?",
            "Another attention of each of heads 0 and 1 alone changes this decision. Of head 2 it is not known.",
        ),
        (
            "??",
            "Of heads 0 and 1 it is not known whether one alone could change this decision, the others keeping theirs.",
        ),
    ],
)
def test_which_head_it_is(tmp_path, letters, words):
    assert of_text(tmp_path / "run", letters) == f"{words} {JOINT}"


@pytest.mark.parametrize(
    ("together", "words"),
    [
        (NEVER, "No attention of all heads together could change this decision (proved)."),
        (
            NO_FLIP,
            "No attention of all heads together was found that changes this decision; up to 50% of any other mixed in "
            "changes nothing (proved).",
        ),
        (
            (1.0, 0.0, 1.0),
            "Another attention of all heads together changes this decision: 100% of it mixed in is enough.",
        ),
    ],
)
def test_what_all_heads_together_change(tmp_path, together, words):
    assert of_text(tmp_path / "run", "p?", together).endswith(f" {words}")


def test_a_proved_radius_is_rounded_down_and_one_that_was_found_up(tmp_path):
    words = of_text(tmp_path / "run", "pp", (1.0, 0.1899, 0.2001))
    assert "21% of it" in words
    assert "up to 18% of any other" in words


def test_heads_that_were_chosen_have_their_own_numbers(tmp_path):
    words = of_text(tmp_path / "chosen", "pf?", attention={"heads": [7, 2, 11]})
    assert words.startswith("No attention of head 7 could change this decision, the others keeping theirs (proved). ")
    assert "of head 2 alone changes it. Of head 11 it is not known." in words


def test_one_head_is_all_that_is_asked(tmp_path):
    words = of_text(tmp_path / "run", "p", NEVER, attention={"heads": [7]})
    assert words == "No attention of head 7 could change this decision (proved)."


def test_heads_of_several_layers_are_named_with_them(tmp_path):
    rows = {"layer.3": "token", "layer.4": "token"}
    words = of_text(tmp_path / "run", "pppppf", site="joint", attention={"rows": rows, "heads_in_all": 3})
    assert words.startswith("No attention of any one of heads 0 to 2 of layer 3 and heads 0 and 1 of layer 4 could")
    assert "Another attention of head 2 of layer 4 alone changes it." in words


@pytest.mark.parametrize("attention", [{"rows": {SITE: "all"}}, {"heads_in_all": 3}])
def test_slots_that_are_no_heads_have_shares(tmp_path, attention):
    words = of_text(tmp_path / "run", "ppp?", attention=attention)
    assert words.startswith("No attention of 75% of the heads could change this decision, the others keeping theirs")


def test_a_head_without_an_item_is_neither_proved_nor_open(tmp_path):
    words = of_text(tmp_path / "run", "p-?")
    assert words.startswith("No attention of head 0 could change this decision, the others keeping theirs (proved). ")
    assert words.endswith(f"Of head 2 it is not known. {JOINT}")


# many texts


def test_a_text_in_which_a_head_has_no_item_does_not_count_against_it(tmp_path):
    found = of_texts(tmp_path / "run", ["p-?"] * 20 + ["ppp"] * 20)
    assert found[0].startswith("In all 40 texts no attention of any one of heads 0 and 1 (2 of 3) could change")
    assert found[2].startswith("The least certain is head 2: proved in 20 of 40 texts")


def of_texts(path, known, together=None, **further) -> list[str]:
    run = with_heads(path, long_texts(len(known), 12), known, together=together, right=True, **further)
    return answer(run).statements


def test_heads_that_never_matter_come_first_then_the_least_certain(tmp_path):
    known = ["ppp?f"] * 20 + ["ppppf"] * 15 + ["ppppp"] * 25
    found = of_texts(tmp_path / "run", known, [FLIPS] * 45 + [NEVER] * 15)
    assert found[:5] == [
        "In all 60 texts no attention of any one of heads 0 to 2 (3 of 5) could change the decision, the others "
        "keeping theirs (proved).",
        "In 25 of 60 texts (42%) no attention of any one of the 5 heads could change the decision, the others keeping "
        "theirs (proved).",
        "The least certain is head 4: proved in 25 of 60 texts; another attention of it alone changes the decision in "
        "35.",
        "In 15 of 60 texts (25%) no attention of all heads together could change the decision (proved); in the other "
        "45 up to a median of 18% of any other mixed in changes nothing (proved).",
        "Another attention of all heads together that changes the decision was found in 45 of 60 texts (75%): a median "
        "of 39% of it mixed in is enough.",
    ]


def test_of_heads_proved_in_as_many_texts_that_which_changes_more_is_the_least_certain(tmp_path):
    found = of_texts(tmp_path / "run", ["p??"] * 20 + ["pp?"] * 5 + ["p?f"] * 3 + ["p?p"] * 5)
    assert any(sentence.startswith("The least certain is head 2: proved in 5 of 33 texts") for sentence in found)


def test_medians_of_all_heads_together(tmp_path):
    together = [(1.0, 0.1, 0.2), (1.0, 0.3, 0.6), (0.0, 0.5, 1.0)] * 20
    found = of_texts(tmp_path / "run", ["pp"] * 60, together)
    assert found[1] == (
        "Another attention of all heads together that changes the decision was found in 40 of 60 texts (67%): a median "
        "of 40% of it mixed in is enough; up to a median of 30% of any other mixed in changes nothing (proved)."
    )


def test_heads_of_which_as_little_is_known_are_named_together(tmp_path):
    found = of_texts(tmp_path / "some", ["ppff"] * 10 + ["pppp"] * 30)
    assert found[2] == (
        "The least certain are heads 2 and 3: each is proved in 30 of 40 texts; another attention of it alone changes "
        "the decision in 10."
    )
    found = of_texts(tmp_path / "all", ["???"] * 10 + ["ppp"] * 30)
    assert found[1] == "Each head is proved in 30 of 40 texts; another attention of it alone changes the decision in 0."


def test_all_heads_proved_in_all_texts(tmp_path):
    found = of_texts(tmp_path / "run", ["ppp"] * 40, [NEVER] * 40)
    assert found[0].startswith("In all 40 texts no attention of any one of the 3 heads could change the decision")
    assert found[1] == "In all 40 texts no attention of all heads together could change the decision (proved)."
    assert not any("least certain" in sentence or "was found" in sentence for sentence in found[:3])


def test_no_head_proved_in_any_text(tmp_path):
    some = of_texts(tmp_path / "other", ["p?"] * 20 + ["?p"] * 20)
    assert some[0].startswith("In none of the 40 texts is it proved that no attention of any one of the 2 heads could")


NO_TAIL = "not known what follows the attention: BertForSequenceClassification, not the last layer alone"


@pytest.mark.parametrize(
    ("letters", "words"),
    [
        (
            "?f?f",
            "In 10 of 40 texts (25%) another attention of one head alone changes the decision: of heads 1 and 3 most "
            "often, each in 10.",
        ),
        (
            "??f?",
            "In 10 of 40 texts (25%) another attention of one head alone changes the decision: of head 2 most often, "
            "in 10.",
        ),
        ("????", "In none of the 40 texts was an attention of one head alone found that changes the decision."),
    ],
)
def test_what_is_found_without_proofs(tmp_path, letters, words):
    found = of_texts(tmp_path / "run", [letters] * 10 + ["????"] * 30, unproved=NO_TAIL)
    assert found[0] == f"What no attention of a head could change is not proved here: {NO_TAIL}."
    assert found[1] == words
    assert found[2] == (
        "Another attention of all heads together that changes the decision was found in all 40 texts: a median of 39% "
        "of it mixed in is enough."
    )


def test_of_one_text_without_proofs(tmp_path):
    run = with_heads(tmp_path / "run", [TEXT], ["?f"], together=[FLIPS], unproved=NO_TAIL)
    assert answer(run).statements[:2] == [
        f"What no attention of a head could change is not proved here: {NO_TAIL}.",
        "Another attention of head 1 alone changes this decision. Of head 0 it is not known. Another attention of all "
        "heads together changes this decision: 39% of it mixed in is enough.",
    ]


def test_proofs_that_all_fail_are_told(tmp_path):
    found = of_texts(tmp_path / "run", ["???"] * 40)
    assert found[:2] == [
        "Of no head is it proved that its attention changes nothing.",
        "In none of the 40 texts was an attention of one head alone found that changes the decision.",
    ]


def test_what_is_not_known_is_told_with_the_name(tmp_path):
    reason = "not known what follows the attention: BartForSequenceClassification, an encoder with a decoder"
    found = of_texts(tmp_path / "run", ["??"] * 40, reason=reason)
    assert found[0] == f"What no attention of a head could change is not proved here: {reason}."
    single = with_heads(tmp_path / "single", [TEXT], ["??"], reason=reason)
    assert HeadStatements(single, SITE)[0] == ""
    assert answer(single).statements[0] == found[0]


def test_exact_answers_are_told_alone(tmp_path):
    run = with_heads(tmp_path / "run", long_texts(40, 12), ["p"] * 40, right=True, exact=True)
    assert HeadStatements(run, SITE)[0] == ""
    assert not any("head" in sentence or "mixed in" in sentence for sentence in answer(run).statements)


# removal, and the verdict


def never_flips(run, stuck: int):
    """The run in which removal flips only the texts behind the first ones."""

    def change(metric, source, text, value):
        if metric == "flip_never":
            return float(text < stuck)
        if metric in ("decision_flip", "flip_size") and text < stuck:
            return 1.0 if metric == "decision_flip" else np.nan
        if metric == "flip_size":
            return 1.0
        return value

    return with_scores(run, change)


def test_removal_that_never_flips_does_not_reassure(tmp_path):
    together = [FLIPS] * 30 + [NO_FLIP] * 30
    made_run = with_heads(tmp_path / "run", long_texts(60, 12), ["pp"] * 60, together=together, right=True)
    found = answer(never_flips(made_run, 45)).statements
    (removal,) = [sentence for sentence in found if "never flips" in sentence]
    assert removal.startswith("In 45 of 60 texts removing words in attention's order never flips the decision, though ")
    assert removal.endswith("other attention does in 30 of them.")
    assert found.index(removal) > max(place for place, sentence in enumerate(found) if "all heads together" in sentence)


def test_removal_of_one_text(tmp_path):
    never = "Removing words in attention's order never flips the decision"
    run = never_flips(with_heads(tmp_path / "run", [TEXT], ["pp"], together=[FLIPS]), 1)
    assert f"{never}, though other attention does." in answer(run).statements
    run = never_flips(with_heads(tmp_path / "other", [TEXT], ["pp"], together=[NO_FLIP]), 1)
    assert f"{never}." in answer(run).statements


def says(run) -> dict[str, str]:
    return {found.test: found.says for found in findings(Scores([run], run.main_site))}


def far_but_not_too_far(run):
    """The run in whose texts no completely different attention was found, and there may be one."""

    def change(metric, source, text, value):
        return {"adversarial_attention": 0.1, "adversarial_upper": np.nan}.get(metric, value)

    return with_scores(run, change)


@pytest.mark.parametrize(("proved", "expected"), [(60, AGAINST), (45, AGAINST), (33, None), (0, None)])
def test_attention_that_changes_nothing_in_most_texts_is_no_explanation(tmp_path, proved, expected):
    together = [NEVER] * proved + [FLIPS] * (60 - proved)
    run = with_heads(tmp_path / "run", long_texts(60, 12), ["pp"] * 60, together=together, right=True)
    assert says(far_but_not_too_far(run)).get("adversarial") == expected


def test_neither_proved_single_heads_nor_a_large_radius_speak_against_attention(tmp_path):
    together = [(1.0, 0.99, 1.0)] * 60
    run = with_heads(tmp_path / "run", long_texts(60, 12), ["pp"] * 60, together=together, right=True)
    assert "adversarial" not in says(far_but_not_too_far(run))


def test_an_attention_that_was_found_to_flip_speaks_for_nothing(tmp_path):
    together = [(1.0, 0.0, 0.01)] * 60
    run = with_heads(tmp_path / "run", long_texts(60, 12), ["ff"] * 60, together=together, right=True)
    assert "adversarial" not in says(far_but_not_too_far(run))


@pytest.mark.parametrize(
    ("stuck", "flipped", "expected"),
    [(0, 0, FOR), (40, 0, FOR), (45, 45, OPEN), (20, 1, FOR), (40, 10, OPEN), (70, 0, OPEN), (70, 70, OPEN)],
)
def test_removal_speaks_for_attention_only_where_texts_that_it_misses_are_few(tmp_path, stuck, flipped, expected):
    """Of 100 texts; in all that removal flips attention's order is the shortest, and 30 are too few to say so."""
    together = [FLIPS] * flipped + [NO_FLIP] * (100 - flipped)
    run = with_heads(tmp_path / "run", long_texts(100, 12), ["pp"] * 100, together=together, right=True)
    assert says(never_flips(run, stuck))["flips"] == expected
