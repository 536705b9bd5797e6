"""AttentionBench: frozen models of which it is known whether their attention explains, and what tests say of them."""
