#!/usr/bin/env python3
"""Training steps, or answers, of each family of models that Transformers has, as its configuration comes but for fewer layers and experts, or of each that timm or Diffusers has; one JSON line for each.

Nobody chose these models, their sizes or their shapes for a simulator: a family's defaults are those of a model that its authors published, and of timm's, whose families are its modules,
the one in the middle of their names is taken, whole.
What a family's step takes of the GPU, and what of its memory, is measured in a process of its own, for an assertion on a GPU ends its process.

Those of Diffusers are diffusion.py's.

With --numbers it computes in fp16, by autocast, or in fp32, its products by tf32 or not.
With --compiled torch.compile compiles the model that is trained.
With --answers a step is inference in bf16: families that write text generate 16 tokens for 8 prompts of 256, others look at their input once.

Usage: families.py [--timm | --diffusers] [--compiled | --answers] [--numbers bf16|fp16|fp32|tf32] [--names NAME...] [--seconds N] [--what real|simulated] >> FILE     a name is TASK.FAMILY; same_host.py --table FILE
"""
import argparse
import functools
import io
import json
import os
import signal
import sys
import time
import traceback

import torch
import transformers as hf
from torch.nn.functional import cross_entropy
from transformers.models.auto import modeling_auto

import diffusion
import zoo
from trainings import step_of
from zoo import DEVICE, noise

TASKS = {
    "causal": modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    "masked": modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    "seq2seq": modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    "image": modeling_auto.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES,
    "segmentation": modeling_auto.MODEL_FOR_SEMANTIC_SEGMENTATION_MAPPING_NAMES,
    "depth": modeling_auto.MODEL_FOR_DEPTH_ESTIMATION_MAPPING_NAMES,
    "video": modeling_auto.MODEL_FOR_VIDEO_CLASSIFICATION_MAPPING_NAMES,
    "audio": modeling_auto.MODEL_FOR_AUDIO_CLASSIFICATION_MAPPING_NAMES,
    "ctc": modeling_auto.MODEL_FOR_CTC_MAPPING_NAMES,
}
FAMILIES = [f"{task}.{family}" for task, families in TASKS.items() for family in families]

# So many layers and experts a family keeps of its own, under the names that configurations have for them.
LAYERS = 4, ["num_hidden_layers", "num_layers", "n_layer", "n_layers", "encoder_layers", "decoder_layers", "num_decoder_layers", "num_encoder_layers"]
EXPERTS = 16, ["num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"]


def lowered(config, most, names):
    """Lowers these numbers of `config` to `most`; gives what they were."""
    for name in names:
        old = getattr(config, name, None)
        if isinstance(old, int) and old > most:
            try:
                setattr(config, name, most)
            except NotImplementedError:  # a name that stands for two others
                continue
            yield old


def fewer(config):
    """`config` of few layers and experts; lists that tell each layer's kind are cut to as many."""
    list(lowered(config, *EXPERTS))
    for layers in lowered(config, *LAYERS):
        for key, value in list(vars(config).items()):
            if isinstance(value, (list, tuple)) and len(value) == layers:
                setattr(config, key, value[:LAYERS[0]])
    for name in getattr(config, "sub_configs", {}):
        if getattr(config, name, None) is not None:
            fewer(getattr(config, name))
    return config


def inputs(task, config, batch=8, length=256):
    text = config.get_text_config()
    if task in ("causal", "masked", "seq2seq"):
        ids = torch.randint(10, min(text.vocab_size, 30000) - 10, (batch, length), device=DEVICE)
        return dict(input_ids=ids, labels=ids)
    size = getattr(config, "image_size", None) or 224
    height, width = size if isinstance(size, (list, tuple)) else (size, size)
    channels = getattr(config, "num_channels", 3)
    if task in ("image", "depth", "segmentation"):
        found = dict(pixel_values=noise(batch, channels, height, width))
        if task == "image":
            found["labels"] = torch.randint(0, config.num_labels, (batch,), device=DEVICE)
        if task == "segmentation":
            found["labels"] = torch.randint(0, config.num_labels, (batch, height, width), device=DEVICE)
        return found
    if task == "video":
        name = "pixel_values_videos" if config.model_type in ("vjepa2", "videoprism") else "pixel_values"
        return {name: noise(batch, getattr(config, "num_frames", 16), channels, height, width), "labels": torch.randint(0, config.num_labels, (batch,), device=DEVICE)}
    labels = torch.randint(0, config.num_labels, (batch,), device=DEVICE) if task == "audio" else torch.randint(5, 30, (batch, 20), device=DEVICE)
    encoder = getattr(config, "encoder_config", config)
    if hasattr(encoder, "num_mel_bins") or hasattr(encoder, "feature_projection_input_dim"):
        bins = getattr(encoder, "feature_projection_input_dim", None) or encoder.num_mel_bins
        frames = getattr(config, "max_length", 0) or 1024
        return dict(input_features=noise(batch, frames, bins), labels=labels)
    return dict(input_values=noise(batch, 160000), labels=labels)


def timms():
    """Names of timm's families, which is asked for them only if it is wanted."""
    import timm
    return [f"timm.{module}" for module in timm.list_modules()]


class Labelled(torch.nn.Module):
    """A model of timm's that is asked as those of Transformers are: `pixel_values` and `labels` give a loss."""

    def __init__(self, module):
        import timm
        super().__init__()
        names = timm.list_models(module=module)
        self.model = timm.create_model(names[len(names) // 2])
        self.config = argparse.Namespace()

    def forward(self, pixel_values, labels=None):
        scores = self.model(pixel_values)
        if labels is None:
            return scores
        # Models that tell features have no classes.
        return [cross_entropy(scores, labels) if self.model.num_classes else scores]


def built_timm(module):
    """With as many images as have the pixels of 32 of ImageNet's, channels last."""
    with torch.device(DEVICE):
        model = Labelled(module)
    size = model.model.default_cfg["input_size"]
    batch = max(2, 32 * 224**2 // (size[1] * size[2]))
    given = dict(pixel_values=noise(batch, *size).to(memory_format=torch.channels_last), labels=torch.randint(0, 1000, (batch,), device=DEVICE))
    return model.to(memory_format=torch.channels_last), given


def built(name):
    """A model of this family and what it is given."""
    task, family = name.split(".")
    if task == "timm":
        return built_timm(family)
    if task == "diffusers":
        return diffusion.built(family)
    model_class = getattr(hf, TASKS[task][family] if isinstance(TASKS[task][family], str) else TASKS[task][family][0])
    config = fewer(model_class.config_class())
    with torch.device(DEVICE):
        model = model_class(config).to(DEVICE)
    return model, inputs(task, config)


def precision(name):
    """The type that a model computes in; fp32's products as Ampere and later have them round to tf32 first if that is the name."""
    torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
    return dict(bf16=torch.bfloat16, fp16=torch.float16).get(name, torch.float32)


def answer(name, numbers="bf16"):
    """A step that generates text, or looks once at what is no text."""
    dtype = precision(numbers)
    model, given = built(name)
    model.to(dtype).eval()
    given.pop("labels", None)
    for key, value in given.items():
        if torch.is_tensor(value) and value.is_floating_point():
            given[key] = value.to(dtype)

    writes = name.startswith(("causal.", "seq2seq."))
    if writes:
        given |= dict(attention_mask=torch.ones_like(given["input_ids"]), max_new_tokens=16, do_sample=False)
    if name.startswith("seq2seq."):
        given["decoder_start_token_id"] = 0  # some families' configurations say none

    @torch.inference_mode()
    def step():
        (model.generate if writes else model)(**given)
    return step


def training(name, compiled=False, numbers="bf16"):
    """A step of AdamW, by autocast unless it computes in fp32."""
    dtype = precision(numbers)
    model, given = built(name)
    model.config.use_cache = False
    called = torch.compile(model) if compiled else model

    def loss():
        out = called(**given)
        return out.loss if getattr(out, "loss", None) is not None else out[0].float().square().mean()
    return step_of(model, loss, dtype=None if dtype == torch.float32 else dtype)


def measure(name, made, what):
    """Prints the row of the step that `made(name)` makes, with the time of the kernels of a step, of two that are profiled: those that ran beside others took none of it."""
    kernels = io.StringIO()
    warmup, steps = (2, 3) if made.func is answer else (3, 5)  # an answer takes several times as long
    row = zoo.measure(name, made, warmup, steps, kernels)
    numbers = made.keywords["numbers"]
    row |= dict(name=name if numbers == "bf16" else f"{name} {numbers}", what=what)
    row["gpu_s"] = sum(json.loads(line)["total_us"] for line in kernels.getvalue().splitlines()) / 2e6
    print(json.dumps(row), flush=True)


def measure_apart(name, made, what, most_seconds):
    """In a child of this process, which has not asked for a GPU yet."""
    child = os.fork()
    if child == 0:
        try:
            measure(name, made, what)
        except BaseException:
            print(f"{name}: {traceback.format_exc()}", file=sys.stderr, flush=True)
        os._exit(0)
    until = time.monotonic() + most_seconds
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > until:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.02)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--names", nargs="+", metavar="NAME", help="all of Transformers' if left out")
    arguments.add_argument("--timm", action="store_true", help="all of timm's in their place")
    arguments.add_argument("--diffusers", action="store_true", help="those of Diffusers in their place")
    way = arguments.add_mutually_exclusive_group()
    way.add_argument("--answers", action="store_true", help="inference in place of training")
    way.add_argument("--compiled", action="store_true", help="training by torch.compile")
    arguments.add_argument("--numbers", choices=("bf16", "fp16", "fp32", "tf32"), default="bf16", help="what it computes in")
    arguments.add_argument("--seconds", type=float, default=float("inf"), help="begin none after so long")
    arguments.add_argument("--what", choices=("real", "simulated"), default="real", help="said in the rows")
    options = arguments.parse_args()
    until = time.monotonic() + options.seconds
    made = functools.partial(answer if options.answers else training, numbers=options.numbers, **(dict(compiled=True) if options.compiled else {}))
    diffusers = [f"diffusers.{model}" for model in diffusion.MODELS]
    names = options.names or (timms() if options.timm else diffusers if options.diffusers else FAMILIES)
    known = set(FAMILIES + diffusers) | set(timms() if any(name.startswith("timm.") for name in names) else ())
    if unknown := [name for name in names if name not in known]:
        arguments.error(f"argument --names: no family is called {', '.join(unknown)}; names are TASK.FAMILY, as causal.llama, timm.MODULE or diffusers.MODEL")
    for name in names:
        if time.monotonic() < until:
            measure_apart(name, made, options.what, 600 if options.compiled else 120)


if __name__ == "__main__":
    main()
