"""What words are, as patterns of Oniguruma, the regular expressions of `tokenizers`."""

from __future__ import annotations

import re


def _either_case(pattern: str) -> str:
    """Lower-case letters of a pattern as ``[aA]``; Oniguruma's ``(?i)`` is ten times slower."""
    return re.sub("[a-z]", lambda match: f"[{match[0]}{match[0].upper()}]", pattern)


# Oniguruma patterns. Letters carry their marks and joiners; scripts written without spaces go character by character.
_ALONE = r"\p{Han}\p{Hiragana}\p{Katakana}\x{30FC}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_LETTER = rf"[\p{{L}}\p{{M}}\x{{200C}}\x{{200D}}&&[^{_ALONE}]]"
_CLITIC = rf"['\u2019](?:{_either_case('s|re|ve|ll|d|m')})(?!{_LETTER})"
_NOT = rf"[nN]['\u2019][tT](?!{_LETTER})"
_NUMBER = rf"(?<!{_LETTER}){_LETTER}*\p{{Nd}}+(?:[.,:/]\p{{Nd}}+)*(?:{_LETTER}|\p{{Nd}})*"
_EMOJI = (
    r"\p{Regional_Indicator}{2}"
    r"|\p{Extended_Pictographic}[\x{FE0F}\p{Emoji_Modifier}]*(?:\x{200D}\p{Extended_Pictographic}[\x{FE0F}\p{Emoji_Modifier}]*)*"
)
WORDS = "|".join(
    [
        _either_case("(?:https?://|www[.])") + r"[^\s<>\x22]*[^\s<>\x22.,;:!?)\]']",
        r"(?<![a-zA-Z0-9._+-])[a-zA-Z0-9._+-]+@[a-zA-Z0-9-]+(?:\.[a-zA-Z0-9-]+)+",
        r"</?[a-zA-Z][a-zA-Z0-9]*\s?/?>",
        _either_case("(?:mr|mrs|ms|dr|prof|st|jr|sr|vs|etc|inc|ltd)[.]"),
        r"(?:[a-zA-Z]\.){2,}",
        _NOT,
        _CLITIC,
        _NUMBER,
        rf"{_LETTER}+(?={_NOT})",
        rf"{_LETTER}+(?:(?!{_CLITIC})['\u2019]{_LETTER}+)*",
        rf"[{_ALONE}]\p{{M}}*",
        _EMOJI,
        r"\.{2,}|-{2,}|``|['\u2019]{2}",
        r"[^\s\p{Cc}\p{Cf}]",
    ]
)
DIGIT_WORD = {"words": _NUMBER, "whitespace": r"(?<!\S)\S*\p{Nd}\S*"}
