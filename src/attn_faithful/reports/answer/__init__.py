"""The answer of a run in words: how well the model predicts, what each test found, and the verdict."""
