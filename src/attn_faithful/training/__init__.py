"""Training of base models and of their adversarial twins."""
