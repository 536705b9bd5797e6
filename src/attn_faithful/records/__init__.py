"""What a run folder's two JSON files hold, as types: the records of summary.json and the facts of meta.json.

Each type is made by one builder where the numbers are computed, written by `as_json` and read by `from_json`. An
undefined number is NaN in memory and null on disk. Keys that an older folder lacks take defaults; keys that a newer one
adds are ignored. Imports nothing heavy.
"""
