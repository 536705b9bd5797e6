"""Scores of stretches of a text as scores of its items, character by character, in fractions."""

from fractions import Fraction


def laid_scores(spans, scores, items):
    """A score an item, None where no stretch reaches it; and the sum of the scores that are of no item.

    Each stretch hands out its score in equal parts to those of its characters that stand in an item. One without any
    gives all of it to the item that begins where it ends.
    """
    totals = [None] * len(items)
    lost = Fraction(0)
    for (start, end), score in zip(spans, scores, strict=True):
        receivers = []
        for character in range(start, end):
            for item, (item_start, item_end) in enumerate(items):
                if item_start <= character < item_end:
                    receivers.append(item)
        if not receivers and start != end:
            for item, (item_start, item_end) in enumerate(items):
                if item_start == end and item_end > item_start:
                    receivers.append(item)
        if not receivers:
            lost += Fraction(score)
        for item in receivers:
            totals[item] = (totals[item] or 0) + Fraction(score) / len(receivers)
    return totals, lost
