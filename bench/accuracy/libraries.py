#!/usr/bin/env python3
"""Steps of small programs on other projects' libraries, as their first pages show them, real or simulated.

Usage: libraries.py FOLDER --name NAME      # runs one of them, prints a JSON line

FOLDER has the tokenizer that examples/frameworks/make_data.py writes. Weights and data are random. Steps are counted as
scripts.py counts them; nothing here knows of a simulator.
"""
import argparse
import os
import pathlib
import random
import sys

# Before torch is imported: nothing is downloaded, and a program's tokenizer starts no threads beside its loader.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch

import scripts

PROGRAMS = {}
FOLDER = None


def library(function):
    PROGRAMS[function.__name__] = function
    return function


# --- What several share ---

def texts(count, length, seed=0):
    """Texts of so many words."""
    words = "time network model data learning gradient layer token value key query head loss step batch rank".split()
    draw = random.Random(seed)
    return [" ".join(draw.choice(words) for _ in range(length)) for _ in range(count)]


def tokenizer():
    from transformers import AutoTokenizer
    found = AutoTokenizer.from_pretrained(FOLDER / "tokenizer")
    if found.pad_token is None:
        found.pad_token = found.eos_token
    return found


def llama(layers=8, hidden=1024):
    from transformers import LlamaConfig, LlamaForCausalLM
    known = tokenizer()
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=32000, hidden_size=hidden, intermediate_size=hidden * 11 // 4, num_hidden_layers=layers, num_attention_heads=hidden // 64,
        num_key_value_heads=hidden // 256, pad_token_id=known.pad_token_id, bos_token_id=known.bos_token_id, eos_token_id=known.eos_token_id))


def tokens(*shape, below=32000):
    return torch.randint(0, below, shape, device="cuda")


def noise(*shape):
    return torch.randn(*shape, device="cuda")


def trainer(made, **arguments):
    """What trainers of Transformers' kind are told, by their own class of arguments."""
    return made(output_dir="/tmp/libraries", max_steps=1000, per_device_train_batch_size=8, report_to=[], save_strategy="no", logging_steps=100,
                disable_tqdm=True, **arguments)


def trained(parameters, loss_of, optimizer=None, scaled=False, autocast=None):
    """Steps without end."""
    optimizer = optimizer or torch.optim.AdamW([p for p in parameters if p.requires_grad], lr=1e-4)
    scaler = torch.amp.GradScaler(enabled=scaled)
    while True:
        with torch.autocast("cuda", autocast or torch.float16, enabled=scaled or autocast is not None):
            loss = loss_of()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


def language_model(model, batch=8, length=512, **settings):
    ids = tokens(batch, length)
    trained(model.parameters(), lambda: model(input_ids=ids, labels=ids).loss, **settings)


# --- Fine-tuning of language models ---

@library
def trl_sft():
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer
    SFTTrainer(model=llama(), args=trainer(SFTConfig, max_length=512, packing=True, bf16=True), processing_class=tokenizer(),
               train_dataset=Dataset.from_dict({"text": texts(1000, 200)})).train()


@library
def trl_sft_lora():
    from datasets import Dataset
    from peft import LoraConfig
    from trl import SFTConfig, SFTTrainer
    SFTTrainer(model=llama(), args=trainer(SFTConfig, max_length=512, bf16=True), processing_class=tokenizer(),
               train_dataset=Dataset.from_dict({"text": texts(1000, 200)}), peft_config=LoraConfig(r=16, target_modules="all-linear")).train()


@library
def trl_dpo():
    from datasets import Dataset
    from peft import LoraConfig
    from trl import DPOConfig, DPOTrainer
    pairs = Dataset.from_dict({"prompt": texts(400, 30), "chosen": texts(400, 100, 1), "rejected": texts(400, 100, 2)})
    DPOTrainer(model=llama(), args=trainer(DPOConfig, max_length=512, bf16=True), processing_class=tokenizer(), train_dataset=pairs,
               peft_config=LoraConfig(r=16, target_modules="all-linear")).train()


@library
def trl_grpo():
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer
    # No text ends by its end token: when one does, is what nobody can foresee.
    model = llama()
    model.generation_config.eos_token_id = None
    GRPOTrainer(model=model, reward_funcs=lambda completions, **_: [float(len(text)) for text in completions],
                args=trainer(GRPOConfig, num_generations=8, max_completion_length=64, bf16=True), processing_class=tokenizer(),
                train_dataset=Dataset.from_dict({"prompt": texts(400, 30)})).train()


@library
def sentence_transformers():
    from datasets import Dataset
    from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments, losses, models
    from transformers import BertConfig, BertModel
    BertModel(BertConfig()).save_pretrained("/tmp/libraries_bert")
    tokenizer().save_pretrained("/tmp/libraries_bert")
    words = models.Transformer("/tmp/libraries_bert", max_seq_length=128)
    model = SentenceTransformer(modules=[words, models.Pooling(768), models.Normalize()])
    pairs = Dataset.from_dict({"anchor": texts(4000, 40), "positive": texts(4000, 40, 1)})
    # Not fp16: how many steps its scaler leaves out is what nobody can foresee.
    SentenceTransformerTrainer(model=model, args=trainer(SentenceTransformerTrainingArguments, bf16=True),
                               train_dataset=pairs, loss=losses.MultipleNegativesRankingLoss(model)).train()


def quantised(layer_of):
    """A language model whose linear layers are `layer_of(layer)`, with adapters of rank 16."""
    from peft import LoraConfig, get_peft_model
    model = llama().to(torch.bfloat16)
    for block in model.model.layers:
        for part in (block.self_attn, block.mlp):
            for name, child in list(part.named_children()):
                if isinstance(child, torch.nn.Linear):
                    setattr(part, name, layer_of(child))
    layers = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    return get_peft_model(model.cuda(), LoraConfig(r=16, target_modules=layers))


@library
def bitsandbytes_4_bits():
    import bitsandbytes as bnb

    def layer(linear):
        made = bnb.nn.Linear4bit(linear.in_features, linear.out_features, bias=False, compute_dtype=torch.bfloat16, quant_type="nf4")
        made.weight = bnb.nn.Params4bit(linear.weight.data, requires_grad=False, quant_type="nf4")
        return made
    model = quantised(layer)
    language_model(model, optimizer=bnb.optim.PagedAdamW8bit([p for p in model.parameters() if p.requires_grad], lr=1e-4))


@library
def bitsandbytes_8_bits():
    import bitsandbytes as bnb

    def layer(linear):
        made = bnb.nn.Linear8bitLt(linear.in_features, linear.out_features, bias=False, has_fp16_weights=False)
        made.weight = bnb.nn.Int8Params(linear.weight.data.half(), requires_grad=False, has_fp16_weights=False)
        return made
    language_model(quantised(layer))


@library
def bitsandbytes_adam():
    import bitsandbytes as bnb
    model = llama().to("cuda", torch.bfloat16)
    language_model(model, optimizer=bnb.optim.AdamW8bit(model.parameters(), lr=1e-4))


@library
def liger():
    from liger_kernel.transformers import apply_liger_kernel_to_llama
    apply_liger_kernel_to_llama()
    language_model(llama().cuda(), length=1024, autocast=torch.bfloat16)


@library
def torchtune_lora():
    from torchtune.models.llama3_2 import lora_llama3_2_1b
    from torchtune.modules.loss import CEWithChunkedOutputLoss
    from torchtune.modules.peft import get_adapter_params, set_trainable_params
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = lora_llama3_2_1b(lora_attn_modules=["q_proj", "v_proj", "output_proj"], apply_lora_to_mlp=True, lora_rank=16)
    torch.set_default_dtype(torch.float32)
    set_trainable_params(model, get_adapter_params(model))
    loss = CEWithChunkedOutputLoss()
    model.set_num_output_chunks(loss.num_output_chunks)
    ids = tokens(2, 1024)
    trained(model.parameters(), lambda: loss(model(ids), ids))


@library
def torchao_float8():
    from torchao.float8 import convert_to_float8_training
    model = llama(layers=4, hidden=2048).to("cuda", torch.bfloat16)
    convert_to_float8_training(model, module_filter_fn=lambda _, name: "lm_head" not in name)
    compiled = torch.compile(model)
    ids = tokens(4, 1024)
    trained(model.parameters(), lambda: compiled(input_ids=ids, labels=ids).loss)


@library
def torchao_adam():
    from torchao.optim import AdamW8bit
    model = llama(layers=4, hidden=2048).to("cuda", torch.bfloat16)
    language_model(model, batch=4, length=1024, optimizer=AdamW8bit(model.parameters(), lr=1e-4))


# --- Images ---

def latent_diffusion(adapters):
    """train_text_to_image.py's step, or train_text_to_image_lora.py's, by Diffusers' parts of Stable Diffusion 1."""
    from diffusers import AutoencoderKL, DDPMScheduler, UNet2DConditionModel
    from transformers import CLIPTextConfig, CLIPTextModel
    with torch.device("cuda"):
        unet = UNet2DConditionModel(sample_size=64, cross_attention_dim=768)
        vae = AutoencoderKL(down_block_types=["DownEncoderBlock2D"] * 4, up_block_types=["UpDecoderBlock2D"] * 4, block_out_channels=[128, 256, 512, 512],
                            layers_per_block=2, sample_size=512).requires_grad_(False).half()
        text = CLIPTextModel(CLIPTextConfig(vocab_size=49408, hidden_size=768, intermediate_size=3072, num_hidden_layers=12,
                                            num_attention_heads=12)).requires_grad_(False).half()
    if adapters:
        from peft import LoraConfig
        unet.requires_grad_(False).half()
        unet.add_adapter(LoraConfig(r=4, lora_alpha=4, target_modules=["to_k", "to_q", "to_v", "to_out.0"]))
        for parameter in unet.parameters():
            parameter.data = parameter.data.float() if parameter.requires_grad else parameter.data
    schedule = DDPMScheduler()
    images, ids = torch.randn(4, 3, 512, 512).pin_memory(), tokens(4, 77, below=49408)

    def loss():
        latents = vae.encode(images.cuda(non_blocking=True).half()).latent_dist.sample() * vae.config.scaling_factor
        added, times = torch.randn_like(latents), torch.randint(0, 1000, (4,), device="cuda")
        predicted = unet(schedule.add_noise(latents, added, times), times, text(ids)[0], return_dict=False)[0]
        return torch.nn.functional.mse_loss(predicted.float(), added.float())
    trained(unet.parameters(), loss, scaled=True)


@library
def diffusers_unet():
    latent_diffusion(adapters=False)


@library
def diffusers_lora():
    latent_diffusion(adapters=True)


@library
def ultralytics_yolo():
    import cv2
    import numpy
    from ultralytics import YOLO
    root = pathlib.Path("/tmp/libraries_yolo")
    for part, count in (("train", 256), ("val", 16)):
        for kind in ("images", "labels"):
            (root / kind / part).mkdir(parents=True, exist_ok=True)
        for i in range(count):
            draw = numpy.random.default_rng(i)
            cv2.imwrite(str(root / f"images/{part}/{i}.jpg"), draw.integers(0, 255, (640, 640, 3), dtype=numpy.uint8))
            (root / f"labels/{part}/{i}.txt").write_text("".join(
                f"{draw.integers(0, 80)} " + " ".join(f"{x:.4f}" for x in draw.uniform((.3, .3, .1, .1), (.7, .7, .4, .4))) + "\n" for _ in range(5)))
    (root / "data.yaml").write_text(f"path: {root}\ntrain: images/train\nval: images/val\nnames:\n" + "".join(f"  {i}: c{i}\n" for i in range(80)))
    # Accumulates no gradients, and does not look for a checkpoint to try half precision with.
    YOLO("yolo11s.yaml").train(data=str(root / "data.yaml"), epochs=100, batch=16, nbs=16, imgsz=640, device=0, workers=4, amp=True, plots=False, val=False,
                               project=str(root / "runs"), exist_ok=True, pretrained=False, optimizer="SGD")


@library
def open_clip():
    import open_clip as clip
    model = clip.create_model("ViT-B-32", device="cuda")
    loss = clip.loss.ClipLoss()
    images, ids = noise(128, 3, 224, 224), tokens(128, 77, below=49000)
    trained(model.parameters(), lambda: loss(*model(images, ids)), scaled=True)


@library
def segmentation_models():
    import segmentation_models_pytorch as models
    model = models.Unet("resnet34", encoder_weights=None, classes=10).to("cuda", memory_format=torch.channels_last)
    loss = models.losses.DiceLoss("multiclass")
    images, classes = noise(8, 3, 512, 512).to(memory_format=torch.channels_last), tokens(8, 512, 512, below=10)
    trained(model.parameters(), lambda: loss(model(images), classes), autocast=torch.bfloat16)


@library
def monai():
    from monai.losses import DiceCELoss
    from monai.networks.nets import UNet
    model = UNet(spatial_dims=3, in_channels=1, out_channels=14, channels=(16, 32, 64, 128, 256), strides=(2, 2, 2, 2), num_res_units=2).cuda()
    loss = DiceCELoss(to_onehot_y=True, softmax=True)
    volumes, classes = noise(2, 1, 96, 96, 96), tokens(2, 1, 96, 96, 96, below=14)
    trained(model.parameters(), lambda: loss(model(volumes), classes), scaled=True)


@library
def kornia():
    import kornia.augmentation as augmentation
    import torchvision
    augment = augmentation.AugmentationSequential(
        augmentation.RandomHorizontalFlip(), augmentation.ColorJitter(.2, .2, .2, .1, p=1.), augmentation.RandomAffine(15., p=1.),
        augmentation.RandomResizedCrop((224, 224)), data_keys=["input"])
    model = torchvision.models.resnet18().cuda()
    images, classes = torch.rand(64, 3, 256, 256, device="cuda"), tokens(64, below=1000)
    trained(model.parameters(), lambda: torch.nn.functional.cross_entropy(model(augment(images)), classes))


# --- Graphs, games ---

def graph_network(layer):
    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList(layer(inputs, outputs) for inputs, outputs in ((128, 256), (256, 256), (256, 40)))

        def forward(self, x, edges):
            for one in self.layers[:-1]:
                x = torch.nn.functional.dropout(one(x, edges).relu(), training=self.training)
            return self.layers[-1](x, edges)
    nodes, model = 40000, Network().cuda()
    x, edges, classes = noise(nodes, 128), tokens(2, 600000, below=nodes), tokens(nodes, below=40)
    trained(model.parameters(), lambda: torch.nn.functional.cross_entropy(model(x, edges), classes))


@library
def pyg_gcn():
    from torch_geometric.nn import GCNConv
    graph_network(GCNConv)


@library
def pyg_gat():
    from torch_geometric.nn import GATConv
    graph_network(lambda inputs, outputs: GATConv(inputs, outputs // 4, heads=4))


@library
def pyg_graphs():
    """Many small graphs in batches that a loader makes."""
    from torch_geometric.data import Data
    from torch_geometric.loader import DataLoader
    from torch_geometric.nn import GIN, global_add_pool
    graphs = [Data(x=torch.randn(30, 16), edge_index=torch.randint(0, 30, (2, 64)), y=torch.randint(0, 2, (1,))) for _ in range(20000)]
    model, head = GIN(16, 64, 5, norm="batch_norm").cuda(), torch.nn.Linear(64, 2).cuda()
    loader = iter(DataLoader(graphs, batch_size=128, shuffle=True))

    def loss():
        batch = next(loader).to("cuda")
        return torch.nn.functional.cross_entropy(head(global_add_pool(model(batch.x, batch.edge_index), batch.batch)), batch.y)
    trained([*model.parameters(), *head.parameters()], loss)


@library
def stable_baselines():
    """PPO on a cart with a pole: a step of the optimizer for each 64 of 512 moves, ten times over."""
    from stable_baselines3 import PPO
    PPO("MlpPolicy", "CartPole-v1", device="cuda", n_steps=512).learn(10**6)


def main():
    global FOLDER
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--name", choices=PROGRAMS, required=True)
    parser.add_argument("--kernels", help="what each kernel took is appended to this file")
    options = parser.parse_args()
    FOLDER = options.folder.resolve()
    # A round of PPO is 80 steps of its optimizer, 512 moves before the first of them.
    steps = 80 if options.name == "stable_baselines" else 6
    from torch.optim.optimizer import register_optimizer_step_post_hook
    register_optimizer_step_post_hook(scripts.Timed(scripts.Script(options.name, "", warmup=steps, steps=steps), options.kernels))
    PROGRAMS[options.name]()
    sys.exit(f"{options.name} ended before {5 * steps} steps")


if __name__ == "__main__":
    main()
