"""What is printed: in any encoding, and with nothing of a text, a name or a path acting on the terminal."""

import doctest
import io
import json
import re
import sys

import pytest

import attn_faithful as af
from attn_faithful._checks import InputError
from attn_faithful.cli import main
from attn_faithful.data.tokenizer import train_tokenizer
from attn_faithful.models.pooled import AttentionClassifier, AttentionClassifierConfig
from attn_faithful.reports import characters
from attn_faithful.reports.characters import visible, writable
from tests.reports.altered import CELLS

ACTS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
NASTY = "a \x1b[31mred\x1b[0m \x07film \x9b2J \u202egood"
TEXTS = ["un café agréable", "ein übles Stück …", "好 电影", NASTY, "not bad — at all", "so so"]
NAMES = ["néga\x1b[2Jtif", "positif ±"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model whose classes have names of any characters, and texts of the same kind."""
    place = tmp_path_factory.mktemp("output")
    tokenizer = train_tokenizer(TEXTS)
    settings = {"vocab_size": len(tokenizer), "encoder": "mlp", "embedding_size": 4, "hidden_size": 4}
    model = AttentionClassifier(AttentionClassifierConfig(**settings, id2label=dict(enumerate(NAMES))))
    model.save_pretrained(place / "model")
    tokenizer.save_pretrained(place / "model")
    rows = [{"text": text, "label": NAMES[i % 2]} for i, text in enumerate(TEXTS)]
    (place / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return place


def written(monkeypatch, encoding, *arguments):
    """Exit status, and what stands on standard output and standard error, in an encoding."""
    streams = {name: io.TextIOWrapper(io.BytesIO(), encoding, write_through=True) for name in ("stdout", "stderr")}
    with monkeypatch.context() as patch:
        for name, stream in streams.items():
            patch.setattr(sys, name, stream)
        status = main(list(arguments))
    return status, *(stream.buffer.getvalue().decode(encoding) for stream in streams.values())


ENCODINGS = ("ascii", "cp1252", "cp437", "utf-8", "utf-16")


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_tables_in_any_encoding(monkeypatch, encoding):
    monkeypatch.setenv("COLUMNS", "240")  # the folders' paths are as long as the checkout's
    status, out, err = written(monkeypatch, encoding, "ls", str(CELLS))
    assert (status, err) == (0, "")
    assert "Mock-1" in out
    assert ("│" in out) == encoding.startswith("utf")


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
def test_every_command_that_shows_texts_or_names(monkeypatch, tmp_path, folder, encoding):
    data, model, output = str(folder / "data.jsonl"), str(folder / "model"), str(tmp_path / "out")
    commands = [
        ["check", data, "--set", "train.select_by=loss"],  # texts too few for any other
        ["explain", model, *TEXTS],
        ["evaluate", model, "--data", data, "--tests", "permutation", "--controls", "", "--output", output],
        ["report", output],
        ["attefa", "--data", data, "--label-column", NAMES[0]],
        ["evaluate", model, "--data", data, "--target", NASTY],
    ]
    for place, command in enumerate(commands):
        status, out, err = written(monkeypatch, encoding, *command)
        assert status == (2 if place > 3 else 0), err
        assert not ACTS.search(re.sub("\x1b\\[[0-9;]*m", "", out + err).replace("\n", "")), command
        assert "\x1b[2J" not in out + err
        assert "\x1b[31m" not in out + err


def test_flags_that_do_not_exist_are_repeated_harmlessly(capsys):
    with pytest.raises(SystemExit):
        main(["ls", "--\x1b[31m"])
    assert "\x1b" not in capsys.readouterr().err


def test_streams_are_left_as_they_were(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="strict")
    with characters.degrading(stream, io.StringIO()):
        print("0.5 ±0.1 café \udc80", file=stream)
    assert stream.errors == "strict"
    stream.seek(0)
    assert stream.read() == "0.5 +-0.1 caf\\xe9 \\udc80\n"


@pytest.mark.parametrize("code", [*range(32), *range(127, 160), 0x2028, 0x202A, 0x202E, 0x2066, 0xD800, 0xDFFF])
def test_no_character_acts(code):
    shown = visible(f"a{chr(code)}b")
    assert not ACTS.search(shown)
    assert (shown[0], shown[-1]) == ("a", "b")
    assert len(shown) >= 3, "something stands in its place"
    assert writable(f"a{chr(code)}b", "ascii").isascii()
    shown.encode()


def test_ordinary_text_is_left_as_it_is():
    family = "👨‍👩‍👧 हिन्दी می‌خواهم é好"  # joiners belong to the words
    assert visible(family) == writable(family, "utf-8") == family


# --- half a character


def test_a_lone_surrogate_is_named_by_its_row(capsys, tmp_path, folder):
    lines = ['{"text": "good", "label": "a"}', '{"text": "bad \\ud83d", "label": "b"}']
    for name, content in (("rows.jsonl", "\n".join(lines)), ("rows.json", f"[{','.join(lines)}]")):
        (tmp_path / name).write_text(content)
        for command in (["check", str(tmp_path / name)], ["attefa", "--data", str(tmp_path / name)]):
            assert main(command) == 2
            (line,) = capsys.readouterr().err.splitlines()
            assert "row 1 of" in line
            assert "'\\ud83d'" in line
    assert main(["explain", str(folder / "model"), "good", "bad \udc80"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "row 1 of" in line
    assert "'\\udc80'" in line


@pytest.mark.parametrize("rows", [["good", "b\ud83d"], [{"text": "a"}, {"text": "b\ud83d"}]])
def test_lists_too(folder, rows):
    model, tokenizer = af.load(folder / "model")
    with pytest.raises(InputError, match="row 1 of data holds '\\\\ud83d'"):
        af.evaluate_attention(model, tokenizer, rows, ["permutation"])


def test_examples_in_docstrings():
    assert doctest.testmod(characters).failed == 0
