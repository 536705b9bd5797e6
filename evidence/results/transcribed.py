"""The tables of docs/results of runs that no summary was kept of: planted.md, masking.md, roar.md, ..."""

from __future__ import annotations

from evidence.earlier import earlier_table

PLANTED_TABLES = {
    "twins": lambda: earlier_table("planted"),
    "constrained": lambda: earlier_table("constrained_twins"),
}
MASKING_TABLES = {
    "models": lambda: earlier_table("masking_models"),
    "chosen": lambda: earlier_table("masking_chosen"),
}
PLAUSIBILITY_TABLES = {"table": lambda: earlier_table("erasure_plausibility")}
ERASED_TABLES = {
    "outside": lambda: earlier_table("erasure_outside"),
    "shares": lambda: earlier_table("erasure_outside_shares"),
    "cost": lambda: earlier_table("erasure_cost"),
    "valid": lambda: earlier_table("masf_valid"),
    "mixture": lambda: earlier_table("masf_mixture"),
    "soft": lambda: earlier_table("erasure_soft"),
}
ROAR_TABLES = {
    "planted": lambda: earlier_table("roar_planted"),
    "sst": lambda: earlier_table("roar_sst"),
    "bases": lambda: earlier_table("roar_bases"),
    "rest": lambda: earlier_table("roar_rest"),
    "cost": lambda: earlier_table("roar_cost"),
}
ONE_SEED_TABLES = {
    "correlation": lambda: earlier_table("one_seed_correlation"),
    "adversarial": lambda: earlier_table("one_seed_adversarial"),
    "yelp-single": lambda: earlier_table("one_seed_yelp_single"),
    "yelp-sets": lambda: earlier_table("one_seed_yelp_sets"),
    "sparsity": lambda: earlier_table("one_seed_sparsity"),
}
