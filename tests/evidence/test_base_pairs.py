"""Pairs of bases: what is collected later stands beside what was there."""

from evidence.base_pairs import PairsOfBases, read_pairs, write_pairs


def pairs(data, *jsd):
    return PairsOfBases("p", {"data": data}, [1, 2], [0.1] * len(jsd), list(jsd))


def test_pairs_of_other_cells_stay_and_the_same_are_written_over(tmp_path):
    path = tmp_path / "deep" / "pairs.json"
    assert read_pairs(path) == []
    write_pairs([pairs("SST", 0.1), pairs("IMDB", 0.2)], path)
    write_pairs([pairs("SST", 0.3, 0.4)], path)
    assert read_pairs(path) == [pairs("IMDB", 0.2), pairs("SST", 0.3, 0.4)]
    text = path.read_text()
    write_pairs([], path)
    assert path.read_text() == text
