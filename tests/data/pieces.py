"""Small tokenizers of every common kind, made in memory: pieces of words, bytes, SentencePiece's blanks, slow ones."""

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import BertTokenizerFast, PreTrainedTokenizer, PreTrainedTokenizerFast

CORPUS = ["good bad movies are good, unbelievably bad. he isn't happy"] * 3


def wordpiece(**settings):
    """As BERT's, uncased: letters, and `un ##believ ##ably`."""
    letters = "abcdefghijklmnopqrstuvwxyz0123456789[]<>/.,!?'"
    more = ["good", "bad", "movie", "##s", "un", "##believ", "##ably", *"我喜欢电影مرحب", *(f"##{c}" for c in "مرحبا")]
    entries = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{c}" for c in letters if c != "s"), *more]
    return BertTokenizerFast(vocab={entry: i for i, entry in enumerate(entries)}, **settings)


def bytes_of(trim=None, **settings):
    """As GPT-2's, or with `trim` (whether offsets leave out blanks) as RoBERTa's, padding 1."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.train_from_iterator(
        CORPUS,
        trainers.BpeTrainer(
            vocab_size=290,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
            special_tokens=["<s>", "<pad>", "</s>"],
        ),
    )
    if trim is not None:
        backend.post_processor = processors.RobertaProcessing(
            ("</s>", 2), ("<s>", 0), trim_offsets=trim, add_prefix_space=False
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="<pad>", bos_token="<s>", eos_token="</s>", **settings
    )


def sentencepiece(split, **settings):
    """As XLM-R's, or with `split` False as Llama's, which does not cut a text into words before it looks for pieces."""
    backend = Tokenizer(models.BPE(unk_token="<unk>"))
    cut = [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")]
    backend.pre_tokenizer = pre_tokenizers.Sequence(cut)
    trainer = trainers.BpeTrainer(vocab_size=60, show_progress=False, special_tokens=["<unk>", "<pad>"])
    backend.train_from_iterator(CORPUS, trainer)
    if not split:
        backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    return PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="<pad>", unk_token="<unk>", **settings)


class Slow(PreTrainedTokenizer):
    """Written in Python, one token a white-space word, between [CLS] and [SEP]; it knows no offsets."""

    def __init__(self, **settings):
        self.entries = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "good", "bad"]
        super().__init__(
            pad_token="[PAD]",
            unk_token="[UNK]",
            cls_token="[CLS]",
            sep_token="[SEP]",
            special_tokens_pattern="cls_sep",
            **settings,
        )

    @property
    def vocab_size(self):
        return len(self.entries)

    def get_vocab(self):
        return {entry: i for i, entry in enumerate(self.entries)}

    def _tokenize(self, text, **settings):
        return text.split()

    def _convert_token_to_id(self, token):
        return self.entries.index(token) if token in self.entries else 1

    def _convert_id_to_token(self, index):
        return self.entries[index]


KINDS = {
    "wordpiece": wordpiece,
    "bytes": bytes_of,
    "bytes marked": lambda **settings: bytes_of(trim=True, **settings),
    "bytes marked, blanks in offsets": lambda **settings: bytes_of(trim=False, **settings),
    "sentencepiece": lambda **settings: sentencepiece(split=True, **settings),
    "sentencepiece uncut": lambda **settings: sentencepiece(split=False, **settings),
}
