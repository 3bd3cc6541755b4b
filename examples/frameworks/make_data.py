"""Makes the text and the tokenizer that the programs read, out of nothing: make_data.py FOLDER."""
import json
import pathlib
import random
import sys

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

VOCABULARY = 2048  # that of TorchTitan's debug model

folder = pathlib.Path(sys.argv[1])
(folder / "tokenizer").mkdir(parents=True, exist_ok=True)

generator = random.Random(0)
letters = "etaoinshrdlucmfwypvbgk"
words = ["".join(generator.choices(letters, k=generator.randint(2, 9))) for _ in range(4000)]
texts = [" ".join(generator.choices(words, k=600)) for _ in range(200)]

tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
    vocab_size=VOCABULARY, special_tokens=["<s>", "</s>"], show_progress=False,
    initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
tokenizer.save(str(folder / "tokenizer/tokenizer.json"))
(folder / "tokenizer/tokenizer_config.json").write_text(json.dumps(
    {"bos_token": "<s>", "eos_token": "</s>", "tokenizer_class": "PreTrainedTokenizerFast"}))

# The folder that a data set is loaded from holds it alone.
(folder / "text").mkdir(exist_ok=True)
(folder / "text/text.json").write_text("".join(json.dumps({"text": t}) + "\n" for t in texts))
