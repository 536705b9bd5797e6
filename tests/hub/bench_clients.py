"""What the client processes of test_push_bench do; each prints one line of JSON at its end.

Run as ``python bench_clients.py NAME FOLDER``: the environment names the Hub and the caches.
"""

import json
import sys
from pathlib import Path


def push(folder):
    """Push a set and a leaderboard, and what is refused."""
    from attn_faithful.hub.push_bench import push_bench, push_leaderboard

    page = "<!doctype html><title>board</title>"
    urls = [
        push_bench(folder / "set", "user/bench", licence="cc0-1.0"),
        push_leaderboard(page, [folder / "results"], "user/board"),
        push_bench(folder / "set", "user/drop-once"),
        push_bench(folder / "set", "user/secret", private=True),
    ]
    refused = {
        "changed": message(lambda: push_bench(folder / "changed", "user/changed")),
        "no_set": message(lambda: push_bench(folder / "results", "user/none")),
        "licence": message(lambda: push_bench(folder / "set", "user/l", licence="My own")),
        "taken": message(lambda: push_bench(folder / "set", "other/taken")),
        "lost": message(lambda: push_bench(folder / "set", "user/drop-always")),
        "twice": message(lambda: push_leaderboard(page, [folder / "results", folder / "more"], "user/twice")),
        "no_results": message(lambda: push_leaderboard(page, [folder / "set" / "texts"], "user/none")),
    }
    return {"urls": urls, "refused": refused}


def download(folder):
    """Read the set back, twice, and what cannot be read."""
    from attn_faithful.bench_files import check_set, read_manifest
    from attn_faithful.hub.bench_download import download_set

    place = download_set("user/bench")
    manifest = read_manifest(place)
    check_set(place, manifest)
    names = ["user/missing", "user/board-data", "user/half", "bench"]
    refused = {name: message(lambda name=name: download_set(name)) for name in names}
    refused["revision"] = message(lambda: download_set("user/bench", revision="v9"))
    refused["token"] = message(lambda: download_set("user/secret", token="hf_unknown"))
    return {
        "files": manifest.files(),
        "there": sorted(path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file()),
        "again": str(download_set("user/bench")) == str(place),
        "secret": len(read_manifest(download_set("user/secret")).models),
        "refused": refused,
    }


def offline(folder):
    """The set from the cache, and one that is not there."""
    from attn_faithful.bench_files import check_set, read_manifest
    from attn_faithful.hub.bench_download import download_set

    place = download_set("user/bench")
    check_set(place, read_manifest(place))
    return {"models": len(read_manifest(place).models), "refused": message(lambda: download_set("user/drop-once"))}


def message(call):
    """Class and text of the error that a call raises."""
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


if __name__ == "__main__":
    result = globals()[sys.argv[1]](Path(sys.argv[2]))
    print(f"\n{json.dumps(result)}")
