#!/usr/bin/env python3
"""Training steps of 82 architectures that no model was fitted to: one JSON line for each.

Plain PyTorch, torchvision and Transformers on one GPU; nothing here knows of a simulator.

Usage: zoo.py [--only TEXT | --names NAME...] [--without NAME...] [--steps N] [--kernels FILE]

--kernels also profiles two steps of each, and writes one JSON line per kernel, grid and block: launches
and their time in us.
"""
import argparse
import gc
import json
import statistics
import sys
import tempfile
import time
import traceback

import torch
import torch.nn.functional as F
from torch import nn

DEVICE = torch.device("cuda")
ARCHITECTURES = {}


def architecture(function):
    """`function` makes a model and what computes a loss with it: nothing is on the GPU before."""
    ARCHITECTURES[function.__name__] = function
    return function


def ids(batch, length, words=30000):
    return torch.randint(0, words, (batch, length), device=DEVICE)


def noise(*shape):
    return torch.randn(*shape, device=DEVICE)


# --- Images ---

def classifier(name, batch, size=224, channels_last=True, **more):
    import torchvision
    model = getattr(torchvision.models, name)(**more).to(DEVICE)
    images = noise(batch, 3, size, size)
    if channels_last:
        model, images = (x.to(memory_format=torch.channels_last) for x in (model, images))
    labels = torch.randint(0, 1000, (batch,), device=DEVICE)
    return model, lambda: F.cross_entropy(model(images), labels)


@architecture
def vit_b_16():
    return classifier("vit_b_16", 48, channels_last=False)


@architecture
def swin_t():
    return classifier("swin_t", 48, channels_last=False)


@architecture
def efficientnet_b0():
    return classifier("efficientnet_b0", 96)


@architecture
def mobilenet_v3():
    return classifier("mobilenet_v3_large", 96)


@architecture
def regnet_y_3_2gf():
    return classifier("regnet_y_3_2gf", 48)


@architecture
def densenet121():
    return classifier("densenet121", 40, channels_last=False)


@architecture
def convnext_tiny():
    return classifier("convnext_tiny", 48)


@architecture
def resnext50():
    return classifier("resnext50_32x4d", 40)


@architecture
def wide_resnet50_tf32():
    """In float32 with TF32, without autocast."""
    model, loss = classifier("wide_resnet50_2", 40, channels_last=False)

    def in_tf32():
        with torch.autocast("cuda", enabled=False):
            return loss()
    return model, in_tf32


@architecture
def deeplab():
    import torchvision
    model = torchvision.models.segmentation.deeplabv3_resnet50(
        weights=None, weights_backbone=None).to(DEVICE)
    images = noise(6, 3, 320, 320)
    labels = torch.randint(0, 21, (6, 320, 320), device=DEVICE)
    return model, lambda: F.cross_entropy(model(images)["out"], labels)


def clips_of(name, batch, frames=16, size=224):
    import torchvision
    model = getattr(torchvision.models.video, name)(weights=None).to(DEVICE)
    clips, labels = noise(batch, 3, frames, size, size), torch.randint(0, 400, (batch,), device=DEVICE)
    return model, lambda: F.cross_entropy(model(clips), labels)


@architecture
def video_resnet():
    return clips_of("r3d_18", 6, size=112)


@architecture
def generator():
    """Transposed convolutions, as in DCGAN."""
    def up(cin, cout):
        return [nn.ConvTranspose2d(cin, cout, 4, 2, 1, bias=False), nn.BatchNorm2d(cout), nn.ReLU()]
    model = nn.Sequential(nn.ConvTranspose2d(128, 1024, 4), nn.BatchNorm2d(1024), nn.ReLU(),
                          *up(1024, 512), *up(512, 256), *up(256, 128), *up(128, 64),
                          nn.ConvTranspose2d(64, 3, 4, 2, 1), nn.Tanh()).to(DEVICE)
    seeds = noise(192, 128, 1, 1)
    return model, lambda: model(seeds).square().mean()


@architecture
def diffusion_unet():
    class Block(nn.Module):
        def __init__(self, cin, cout):
            super().__init__()
            self.first = nn.Sequential(nn.GroupNorm(16, cin), nn.SiLU(), nn.Conv2d(cin, cout, 3, padding=1))
            self.second = nn.Sequential(nn.GroupNorm(16, cout), nn.SiLU(), nn.Conv2d(cout, cout, 3, padding=1))
            self.skip = nn.Conv2d(cin, cout, 1)

        def forward(self, x):
            return self.second(self.first(x)) + self.skip(x)

    class Unet(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem, self.head = nn.Conv2d(4, 192, 3, padding=1), nn.Conv2d(192, 4, 3, padding=1)
            self.down = nn.ModuleList([Block(192, 384), Block(384, 768)])
            self.attention = nn.MultiheadAttention(768, 8, batch_first=True)
            self.up = nn.ModuleList([Block(768 + 384, 384), Block(384 + 192, 192)])

        def forward(self, x):
            first = self.stem(x)
            second = self.down[0](F.avg_pool2d(first, 2))
            x = self.down[1](F.avg_pool2d(second, 2))
            tokens = x.flatten(2).transpose(1, 2)
            x = x + self.attention(tokens, tokens, tokens, need_weights=False)[0].transpose(1, 2).reshape(x.shape)
            x = self.up[0](torch.cat([F.interpolate(x, scale_factor=2.0), second], 1))
            return self.head(self.up[1](torch.cat([F.interpolate(x, scale_factor=2.0), first], 1)))
    model, images = Unet().to(DEVICE), noise(12, 4, 64, 64)
    return model, lambda: F.mse_loss(model(images), images)


# --- Text ---

def language_model(kind, batch, length, **config):
    """A causal or masked model of Transformers by the name of its class."""
    import transformers
    kind = getattr(transformers, kind)
    model, text = kind(kind.config_class(**config)).to(DEVICE), ids(batch, length)
    return model, lambda: model(input_ids=text, labels=text).loss


@architecture
def t5():
    from transformers import T5Config, T5ForConditionalGeneration
    model = T5ForConditionalGeneration(T5Config(
        d_model=768, d_ff=2048, num_layers=8, num_heads=12, d_kv=64, vocab_size=32128,
        feed_forward_proj="gated-gelu", decoder_start_token_id=0)).to(DEVICE)
    source, target = ids(8, 384), ids(8, 128)
    return model, lambda: model(input_ids=source, labels=target).loss


@architecture
def distilbert():
    return language_model("DistilBertForMaskedLM", 48, 160)


@architecture
def qwen2():
    return language_model(
        "Qwen2ForCausalLM", 3, 1536, hidden_size=896, intermediate_size=4864, num_hidden_layers=12,
        num_attention_heads=14, num_key_value_heads=2, vocab_size=64000)


@architecture
def gemma2():
    """Sliding windows, capped logits, large heads."""
    return language_model(
        "Gemma2ForCausalLM", 4, 1024, hidden_size=1152, intermediate_size=4608, num_hidden_layers=8,
        num_attention_heads=8, num_key_value_heads=4, head_dim=144, vocab_size=48000, sliding_window=512)


@architecture
def transformer_encoder():
    """Post-norm, with dropout and a mask of padding."""
    layer = nn.TransformerEncoderLayer(640, 10, 2560, dropout=0.1, batch_first=True)
    model = nn.Sequential(nn.Embedding(20000, 640), nn.TransformerEncoder(layer, 8), nn.Linear(640, 200)).to(DEVICE)
    text, labels = ids(24, 320, 20000), torch.randint(0, 200, (24,), device=DEVICE)
    return model, lambda: F.cross_entropy(model(text).mean(1), labels)


@architecture
def lora():
    """A frozen bf16 base with low-rank adapters."""
    from transformers import LlamaConfig, LlamaForCausalLM

    class Adapter(nn.Module):
        def __init__(self, base):
            super().__init__()
            self.base, self.down, self.up = base, nn.Linear(base.in_features, 16, bias=False), nn.Linear(
                16, base.out_features, bias=False)

        def forward(self, x):
            return self.base(x) + self.up(self.down(x)) * 2.0
    model = LlamaForCausalLM(LlamaConfig(
        hidden_size=1280, intermediate_size=3584, num_hidden_layers=10, num_attention_heads=20,
        num_key_value_heads=4, vocab_size=32000)).to(DEVICE, torch.bfloat16).requires_grad_(False)
    for block in model.model.layers:
        for name in ("q_proj", "v_proj"):
            setattr(block.self_attn, name, Adapter(getattr(block.self_attn, name)).to(DEVICE))
    text = ids(4, 768)
    return model, lambda: model(input_ids=text, labels=text).loss


@architecture
def gru():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.cells, self.out = nn.Embedding(12000, 640), nn.GRU(
                640, 896, 3, batch_first=True, dropout=0.2), nn.Linear(896, 12000)

        def forward(self, text):
            return self.out(self.cells(self.words(text))[0])
    model, text = Model().to(DEVICE), ids(48, 192, 12000)
    return model, lambda: F.cross_entropy(model(text).flatten(0, 1), text.flatten())


# --- Experts, states, graphs, speech, tables ---

class Experts(nn.Module):
    """The best two of eight, chosen by a router, whose tokens are gathered one expert at a time."""

    def __init__(self, width=768, inner=2048, count=8):
        super().__init__()
        self.router = nn.Linear(width, count, bias=False)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(width, inner), nn.SiLU(), nn.Linear(inner, width))
                                     for _ in range(count))

    def forward(self, x):
        flat = x.flatten(0, 1)
        weights, chosen = self.router(flat).softmax(-1, dtype=torch.float32).topk(2)
        out = torch.zeros_like(flat)
        for index, expert in enumerate(self.experts):
            token, place = torch.where(chosen == index)
            out.index_add_(0, token, (expert(flat[token]) * weights[token, place, None]).to(out.dtype))
        return out.view_as(x)


@architecture
def experts_by_loops():
    model = nn.Sequential(nn.Embedding(16000, 768), Experts(), nn.LayerNorm(768), Experts(), nn.LayerNorm(768),
                          nn.Linear(768, 16000)).to(DEVICE)
    text = ids(8, 512, 16000)
    return model, lambda: F.cross_entropy(model(text).flatten(0, 1).float(), text.flatten())


@architecture
def experts_by_sorting():
    """Tokens sorted by expert and cut to a capacity: sizes that no value decides."""
    class Sorted(nn.Module):
        def __init__(self, width=768, inner=2048, count=8):
            super().__init__()
            self.count, self.router = count, nn.Linear(width, count, bias=False)
            self.first = nn.Parameter(torch.randn(count, width, inner) * 0.02)
            self.second = nn.Parameter(torch.randn(count, inner, width) * 0.02)

        def forward(self, x):
            flat = x.flatten(0, 1)
            weight, chosen = self.router(flat).softmax(-1).max(-1)
            order = chosen.argsort()
            rows = flat[order].view(self.count, -1, flat.shape[1])
            rows = torch.bmm(F.gelu(torch.bmm(rows, self.first)), self.second)
            out = torch.empty_like(flat).scatter(0, order[:, None].expand_as(flat),
                                                 rows.flatten(0, 1).to(flat.dtype))
            return (out * weight[:, None]).view_as(x).to(x.dtype)
    model = nn.Sequential(nn.Embedding(16000, 768), Sorted(), nn.LayerNorm(768), Sorted(), nn.LayerNorm(768),
                          nn.Linear(768, 16000)).to(DEVICE)
    text = ids(8, 512, 16000)
    return model, lambda: F.cross_entropy(model(text).flatten(0, 1).float(), text.flatten())


@architecture
def state_space():
    """Gated depthwise convolutions and a scan by sums, as in linear state-space models."""
    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.norm, self.into = nn.LayerNorm(width), nn.Linear(width, 3 * width)
            self.mix, self.out = nn.Conv1d(width, width, 4, padding=3, groups=width), nn.Linear(width, width)

        def forward(self, x):
            value, gate, decay = self.into(self.norm(x)).chunk(3, -1)
            value = F.silu(self.mix(value.transpose(1, 2))[..., :x.shape[1]]).transpose(1, 2)
            logs = F.logsigmoid(decay.float()).cumsum(1)
            state = torch.exp(logs) * (value * torch.exp(-logs).clamp(max=1e4)).cumsum(1)
            return x + self.out((state * F.silu(gate)).to(x.dtype))
    model = nn.Sequential(nn.Embedding(16000, 768), *(Block(768) for _ in range(8)), nn.Linear(768, 16000)).to(DEVICE)
    text = ids(6, 768, 16000)
    return model, lambda: F.cross_entropy(model(text).flatten(0, 1).float(), text.flatten())


@architecture
def graph_network():
    nodes, edges, width = 40000, 400000, 192
    source, target = (torch.randint(0, nodes, (edges,), device=DEVICE) for _ in range(2))
    layers = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(4)).to(DEVICE)
    features, labels = noise(nodes, width), torch.randint(0, width, (nodes,), device=DEVICE)

    def loss():
        x = features
        for layer in layers:
            gathered = torch.zeros_like(x).index_add_(0, target, x[source])
            x = F.relu(layer(torch.cat([x, gathered], 1))).float()
        return F.cross_entropy(x, labels)
    return layers, loss


@architecture
def wav2vec2():
    from transformers import Wav2Vec2Config, Wav2Vec2Model
    model = Wav2Vec2Model(Wav2Vec2Config(num_hidden_layers=8, mask_time_prob=0.0, layerdrop=0.0)).to(DEVICE)
    sound = noise(6, 64000)
    return model, lambda: model(input_values=sound).last_hidden_state.square().mean()


@architecture
def conformer():
    import torchaudio
    model = torchaudio.models.Conformer(384, 6, 1536, 8, 31).to(DEVICE)
    sound, lengths = noise(12, 500, 384), torch.full((12,), 500, device=DEVICE)
    return model, lambda: model(sound, lengths)[0].square().mean()


@architecture
def recommender():
    """Wide and deep: one large embedding bag and a tall stack."""
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.bags = nn.ModuleList(nn.EmbeddingBag(100000, 64, mode="mean") for _ in range(20))
            self.deep = nn.Sequential(nn.Linear(20 * 64, 2048), nn.ReLU(), nn.Linear(2048, 512), nn.ReLU(),
                                      nn.Linear(512, 1))

        def forward(self, which):
            return self.deep(torch.cat([bag(which[:, i]) for i, bag in enumerate(self.bags)], 1))
    model = Model().to(DEVICE)
    which, labels = torch.randint(0, 100000, (4096, 20, 6), device=DEVICE), torch.rand(4096, 1, device=DEVICE)
    return model, lambda: F.binary_cross_entropy_with_logits(model(which), labels)


@architecture
def radiance_field():
    """A tall stack of small layers over many points."""
    layers = [nn.Linear(63, 256), nn.ReLU()]
    for _ in range(7):
        layers += [nn.Linear(256, 256), nn.ReLU()]
    model, points = nn.Sequential(*layers, nn.Linear(256, 4)).to(DEVICE), noise(393216, 63)
    return model, lambda: model(points).square().mean()


@architecture
def half_precision():
    """float16 with a scaler of gradients."""
    model, loss = classifier("resnet34", 80, channels_last=True)
    return model, loss, torch.float16


@architecture
def compiled_blocks():
    """torch.compile over transformer blocks."""
    layer = nn.TransformerEncoderLayer(1024, 16, 4096, dropout=0.0, batch_first=True, norm_first=True)
    model = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False).to(DEVICE)
    compiled, x = torch.compile(model), noise(8, 512, 1024)
    return model, lambda: compiled(x).square().mean()


# --- Sixteen more, written and taken after the models were made: no rule was found on them. ---

@architecture
def resnet152():
    return classifier("resnet152", 56)


@architecture
def vgg13_bn():
    return classifier("vgg13_bn", 56, channels_last=False)


@architecture
def shufflenet():
    return classifier("shufflenet_v2_x1_5", 128)


@architecture
def squeezenet():
    return classifier("squeezenet1_1", 160, channels_last=False)


@architecture
def maxvit():
    return classifier("maxvit_t", 24, channels_last=False)


@architecture
def vit_l_32():
    return classifier("vit_l_32", 48, channels_last=False)


@architecture
def bert():
    return language_model("BertForMaskedLM", 20, 448, num_hidden_layers=10)


@architecture
def gpt_neox():
    return language_model(
        "GPTNeoXForCausalLM", 6, 1024, hidden_size=1536, intermediate_size=6144, num_hidden_layers=8,
        num_attention_heads=12, vocab_size=50304)


@architecture
def opt():
    return language_model(
        "OPTForCausalLM", 5, 1280, hidden_size=1280, ffn_dim=5120, num_hidden_layers=10, num_attention_heads=20,
        word_embed_proj_dim=1280)


@architecture
def mistral():
    return language_model(
        "MistralForCausalLM", 2, 3072, hidden_size=2048, intermediate_size=7168, num_hidden_layers=6,
        num_attention_heads=16, num_key_value_heads=4, vocab_size=32000, sliding_window=None)


@architecture
def whisper():
    from transformers import WhisperConfig, WhisperForConditionalGeneration
    model = WhisperForConditionalGeneration(WhisperConfig(
        d_model=768, encoder_layers=6, decoder_layers=6, encoder_attention_heads=12, decoder_attention_heads=12,
        encoder_ffn_dim=3072, decoder_ffn_dim=3072)).to(DEVICE)
    sound, text = noise(6, 80, 3000), ids(6, 256)
    return model, lambda: model(input_features=sound, labels=text).loss


@architecture
def lstm():
    words, cells, out = nn.Embedding(20000, 1024), nn.LSTM(1024, 1024, 2, batch_first=True), nn.Linear(1024, 20000)
    model, text = nn.ModuleList([words, cells, out]).to(DEVICE), ids(40, 160, 20000)
    return model, lambda: F.cross_entropy(out(cells(words(text))[0]).flatten(0, 1), text.flatten())


@architecture
def mlp_mixer():
    class Mixer(nn.Module):
        def __init__(self, width=640, tokens=196):
            super().__init__()
            self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
            self.across = nn.Sequential(nn.Linear(tokens, 384), nn.GELU(), nn.Linear(384, tokens))
            self.within = nn.Sequential(nn.Linear(width, 2560), nn.GELU(), nn.Linear(2560, width))

        def forward(self, x):
            x = x + self.across(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
            return x + self.within(self.norms[1](x))
    model = nn.Sequential(nn.Conv2d(3, 640, 16, 16), nn.Flatten(2)).to(DEVICE)
    blocks, images = nn.Sequential(*[Mixer() for _ in range(10)]).to(DEVICE), noise(64, 3, 224, 224)
    both = nn.ModuleList([model, blocks])
    return both, lambda: blocks(model(images).transpose(1, 2)).square().mean()


@architecture
def volume_unet():
    """Three-dimensional convolutions, as for medical images."""
    def block(cin, cout):
        return nn.Sequential(nn.Conv3d(cin, cout, 3, padding=1), nn.InstanceNorm3d(cout, affine=True), nn.LeakyReLU(0.01))
    first, second, third = block(2, 48), block(48, 96), block(96, 192)
    up, last = nn.ConvTranspose3d(192, 96, 2, 2), block(192, 96)
    head = nn.Conv3d(96, 3, 1)
    model, images = nn.ModuleList([first, second, third, up, last, head]).to(DEVICE), noise(2, 2, 64, 64, 64)

    def loss():
        wide = second(F.max_pool3d(first(images), 2))
        return head(last(torch.cat([up(third(F.max_pool3d(wide, 2))), wide], 1))).square().mean()
    return model, loss


@architecture
def captured_decoder():
    """A decoder's forward and backward in a CUDA graph each."""
    layer = nn.TransformerEncoderLayer(1024, 16, 4096, dropout=0.0, batch_first=True, norm_first=True)
    model, x = nn.TransformerEncoder(layer, 8, enable_nested_tensor=False).to(DEVICE), noise(6, 640, 1024).requires_grad_()
    with torch.autocast("cuda", dtype=torch.bfloat16, cache_enabled=False):
        captured = torch.cuda.make_graphed_callables(model, (x,))
    return model, lambda: captured(x).square().mean()


@architecture
def compiled_gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel
    model = GPT2LMHeadModel(GPT2Config(n_layer=6, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False)).to(DEVICE)
    compiled, text = torch.compile(model), ids(8, 768, 50000)
    return model, lambda: compiled(input_ids=text, labels=text).loss


# --- Sixteen more of 2026-11-23, written before any was run, and taken after the last price of that day was made. ---

@architecture
def efficientnet_v2_s():
    return classifier("efficientnet_v2_s", 40)


@architecture
def swin_v2_t():
    return classifier("swin_v2_t", 32, size=256, channels_last=False)


@architecture
def convnext_small():
    return classifier("convnext_small", 40)


@architecture
def mnasnet():
    return classifier("mnasnet1_0", 112, channels_last=False)


@architecture
def inception_v3():
    return classifier("inception_v3", 40, size=299, aux_logits=False, init_weights=False)


@architecture
def alexnet():
    return classifier("alexnet", 320, channels_last=False)


@architecture
def r2plus1d():
    return clips_of("r2plus1d_18", 4, size=112)


@architecture
def roberta():
    from transformers import RobertaConfig, RobertaForSequenceClassification
    model = RobertaForSequenceClassification(RobertaConfig(num_hidden_layers=12, num_labels=3)).to(DEVICE)
    text, labels = ids(28, 320) + 2, torch.randint(0, 3, (28,), device=DEVICE)
    return model, lambda: model(input_ids=text, labels=labels).loss


@architecture
def albert():
    return language_model(
        "AlbertForMaskedLM", 12, 512, hidden_size=1024, intermediate_size=4096, num_attention_heads=16,
        num_hidden_layers=10)


@architecture
def bart():
    from transformers import BartConfig, BartForConditionalGeneration
    model = BartForConditionalGeneration(BartConfig(
        d_model=768, encoder_layers=6, decoder_layers=6, encoder_attention_heads=12, decoder_attention_heads=12,
        encoder_ffn_dim=3072, decoder_ffn_dim=3072)).to(DEVICE)
    text, summary = ids(8, 768), ids(8, 192)
    return model, lambda: model(input_ids=text, labels=summary).loss


@architecture
def phi():
    return language_model(
        "PhiForCausalLM", 4, 1152, hidden_size=1792, intermediate_size=7168, num_hidden_layers=7,
        num_attention_heads=28, vocab_size=51200)


@architecture
def falcon():
    return language_model(
        "FalconForCausalLM", 4, 1024, hidden_size=1536, num_hidden_layers=8, num_attention_heads=24, vocab_size=65024)


@architecture
def bloom():
    return language_model("BloomForCausalLM", 6, 640, hidden_size=1280, n_layer=8, n_head=20, vocab_size=50272)


@architecture
def stablelm():
    return language_model(
        "StableLmForCausalLM", 3, 1536, hidden_size=1664, intermediate_size=4608, num_hidden_layers=8,
        num_attention_heads=26, num_key_value_heads=26, vocab_size=50304)


@architecture
def clip():
    from transformers import CLIPConfig, CLIPModel
    model = CLIPModel(CLIPConfig(
        text_config=dict(num_hidden_layers=8), vision_config=dict(num_hidden_layers=8, image_size=192, patch_size=16))).to(DEVICE)
    text, images = ids(96, 64), noise(96, 3, 192, 192)
    return model, lambda: model(input_ids=text, pixel_values=images, return_loss=True).loss


@architecture
def segformer():
    from transformers import SegformerConfig, SegformerForSemanticSegmentation
    model = SegformerForSemanticSegmentation(SegformerConfig(
        hidden_sizes=[64, 128, 320, 512], depths=[2, 2, 2, 2], decoder_hidden_size=256, num_labels=21)).to(DEVICE)
    images, labels = noise(8, 3, 384, 384), torch.randint(0, 21, (8, 384, 384), device=DEVICE)
    return model, lambda: model(pixel_values=images, labels=labels).loss


# --- Twenty of 2026-11-25, written before any was run, and taken after the last price of that day was made. ---

def speech(kind, batch, samples, **config):
    """An encoder of waves, of Transformers."""
    import transformers
    chosen = getattr(transformers, f"{kind}Config")(num_hidden_layers=6, mask_time_prob=0.0, layerdrop=0.0, **config)
    model, sound = getattr(transformers, f"{kind}Model")(chosen).to(DEVICE), noise(batch, samples)
    return model, lambda: model(input_values=sound).last_hidden_state.square().mean()


@architecture
def hubert_large():
    return speech("Hubert", 5, 56000, hidden_size=1024, num_attention_heads=16, intermediate_size=4096, feat_extract_norm="layer",
                  conv_bias=True, do_stable_layer_norm=True)


@architecture
def wavlm():
    return speech("WavLM", 4, 48000)


@architecture
def data2vec_audio():
    return speech("Data2VecAudio", 6, 56000)


@architecture
def speech_to_text():
    from transformers import Speech2TextConfig, Speech2TextForConditionalGeneration
    model = Speech2TextForConditionalGeneration(Speech2TextConfig(encoder_layers=6, decoder_layers=4, d_model=384)).to(DEVICE)
    sound, text = noise(12, 800, 80), ids(12, 96, 9000)
    return model, lambda: model(input_features=sound, labels=text).loss


@architecture
def encodec():
    from transformers import EncodecConfig, EncodecModel
    model, sound = EncodecModel(EncodecConfig()).to(DEVICE), noise(6, 1, 24000)
    return model, lambda: F.l1_loss(model(sound).audio_values, sound)


@architecture
def deberta():
    from transformers import DebertaV2Config, DebertaV2ForSequenceClassification
    model = DebertaV2ForSequenceClassification(DebertaV2Config(
        hidden_size=768, num_hidden_layers=6, num_attention_heads=12, intermediate_size=3072, relative_attention=True,
        pos_att_type=["p2c", "c2p"], position_buckets=128, num_labels=3)).to(DEVICE)
    text, labels = ids(14, 288), torch.randint(0, 3, (14,), device=DEVICE)
    return model, lambda: model(input_ids=text, labels=labels).loss


@architecture
def modernbert():
    return language_model("ModernBertForMaskedLM", 10, 704, hidden_size=768, num_hidden_layers=9, vocab_size=50368)


@architecture
def longformer():
    return language_model("LongformerForMaskedLM", 3, 1280, hidden_size=768, num_hidden_layers=5, attention_window=[256] * 5,
                          max_position_embeddings=1400)


@architecture
def xlnet():
    return language_model("XLNetLMHeadModel", 10, 352, d_model=768, n_layer=7, n_head=12, d_inner=3072)


@architecture
def fourier_encoder():
    # Transforms of such lengths are there in fp32 alone.
    return *language_model("FNetForMaskedLM", 14, 512, hidden_size=768, num_hidden_layers=7), torch.float32


@architecture
def qwen3_moe():
    return language_model(
        "Qwen3MoeForCausalLM", 4, 576, hidden_size=1024, num_hidden_layers=5, num_attention_heads=16, num_key_value_heads=4,
        head_dim=64, num_experts=16, num_experts_per_tok=4, moe_intermediate_size=768, vocab_size=50304)


def pictures(kind, batch, size, **more):
    """A classifier of Transformers."""
    import transformers
    chosen = getattr(transformers, f"{kind}Config")(num_labels=1000, **more)
    model = getattr(transformers, f"{kind}ForImageClassification")(chosen).to(DEVICE)
    images, labels = noise(batch, 3, size, size), torch.randint(0, 1000, (batch,), device=DEVICE)
    return model, lambda: model(pixel_values=images, labels=labels).loss


@architecture
def dinov2():
    return pictures("Dinov2", 28, 224, num_hidden_layers=9)


@architecture
def convnext_v2():
    return pictures("ConvNextV2", 28, 224)


@architecture
def mobilevit():
    return pictures("MobileViT", 44, 256)


@architecture
def hiera():
    return pictures("Hiera", 28, 224)


@architecture
def poolformer():
    return pictures("PoolFormer", 56, 224)


@architecture
def levit():
    return pictures("Levit", 160, 224)


@architecture
def video_masks():
    from transformers import VideoMAEConfig, VideoMAEForVideoClassification
    model = VideoMAEForVideoClassification(VideoMAEConfig(
        hidden_size=512, num_hidden_layers=7, num_attention_heads=8, intermediate_size=2048, num_labels=400)).to(DEVICE)
    clips, labels = noise(3, 16, 3, 224, 224), torch.randint(0, 400, (3,), device=DEVICE)
    return model, lambda: model(pixel_values=clips, labels=labels).loss


@architecture
def segment_anything():
    from transformers import SamVisionConfig, SamVisionModel
    model = SamVisionModel(SamVisionConfig(
        hidden_size=512, num_hidden_layers=7, num_attention_heads=8, image_size=640, global_attn_indexes=[2, 6])).to(DEVICE)
    images = noise(2, 3, 640, 640)
    return model, lambda: model(pixel_values=images).last_hidden_state.square().mean()


@architecture
def super_resolution():
    from transformers import Swin2SRConfig, Swin2SRForImageSuperResolution
    model = Swin2SRForImageSuperResolution(Swin2SRConfig(embed_dim=96, depths=[4, 4, 4], num_heads=[6, 6, 6])).to(DEVICE)
    images = noise(6, 3, 64, 64)
    return model, lambda: model(pixel_values=images).reconstruction.square().mean()


BESIDE = "beside other kernels"


def profile(name, step, out):
    """Appends what the GPU runs in two steps to `out`."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        step()
        step()
        torch.cuda.synchronize()
    with tempfile.NamedTemporaryFile(suffix=".json") as trace:
        profiler.export_chrome_trace(trace.name)
        events = json.load(open(trace.name))["traceEvents"]
    found, beside, until = {}, 0.0, 0.0
    events = [event for event in events if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    for event in sorted(events, key=lambda event: event["ts"]):
        about, end = event["args"], event["ts"] + event["dur"]
        key = (event["name"], *(tuple(about.get(part, ())) for part in ("grid", "block")))
        found.setdefault(key, []).append(event["dur"])
        beside += min(event["dur"], max(0.0, until - event["ts"]))
        until = max(until, end)
    # What ran beside others took none of the step's time: cuDNN has streams of its own.
    found[BESIDE, (), ()] = [-beside]
    for (kernel, grid, block), times in found.items():
        out.write(json.dumps(dict(model=name, kernel=kernel, grid=grid, block=block, count=len(times) * (kernel != BESIDE),
                                  total_us=sum(times))) + "\n")
    out.flush()


# --- Clips and scans ---

@architecture
def video_inception():
    return clips_of("s3d", 6)


@architecture
def video_mixed_resnet():
    return clips_of("mc3_18", 8, size=112)


@architecture
def video_swin():
    return clips_of("swin3d_t", 2)


@architecture
def video_mvit():
    return clips_of("mvit_v2_s", 2)


@architecture
def channel_separated():
    """Bottlenecks whose filters over space and time have one channel each."""
    class Block(nn.Module):
        def __init__(self, cin, cout, stride):
            super().__init__()
            inner = cout // 4
            self.path = nn.Sequential(nn.Conv3d(cin, inner, 1, bias=False), nn.BatchNorm3d(inner), nn.ReLU(),
                                      nn.Conv3d(inner, inner, 3, stride, 1, groups=inner, bias=False), nn.BatchNorm3d(inner), nn.ReLU(),
                                      nn.Conv3d(inner, cout, 1, bias=False), nn.BatchNorm3d(cout))
            self.beside = nn.Conv3d(cin, cout, 1, stride, bias=False) if stride != 1 or cin != cout else nn.Identity()

        def forward(self, x):
            return F.relu(self.path(x) + self.beside(x))

    widths = (64, 256, 512, 1024, 2048)
    blocks = [Block(widths[i] if first else widths[i + 1], widths[i + 1], 2 if first and i else 1) for i in range(4) for first in (True, False)]
    model = nn.Sequential(nn.Conv3d(3, 64, (3, 7, 7), (1, 2, 2), (1, 3, 3), bias=False), nn.BatchNorm3d(64), nn.ReLU(), nn.MaxPool3d((1, 3, 3), (1, 2, 2), (0, 1, 1)),
                          *blocks, nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(2048, 400)).to(DEVICE)
    clips, labels = noise(6, 3, 16, 112, 112), torch.randint(0, 400, (6,), device=DEVICE)
    return model, lambda: F.cross_entropy(model(clips), labels)


@architecture
def clip_autoencoder():
    """Convolutions that see no later frame, as video models' autoencoders have them."""
    class Causal(nn.Conv3d):
        def __init__(self, cin, cout, taps=3, stride=1):
            super().__init__(cin, cout, taps, stride, (0, taps // 2, taps // 2))

        def forward(self, x):
            return super().forward(F.pad(x, (0, 0, 0, 0, self.kernel_size[0] - 1, 0), mode="replicate"))

    class Residual(nn.Module):
        def __init__(self, cin, cout):
            super().__init__()
            self.path = nn.Sequential(nn.GroupNorm(32, cin), nn.SiLU(), Causal(cin, cout), nn.GroupNorm(32, cout), nn.SiLU(), Causal(cout, cout))
            self.beside = nn.Conv3d(cin, cout, 1) if cin != cout else nn.Identity()

        def forward(self, x):
            return self.path(x) + self.beside(x)

    model = nn.Sequential(Causal(3, 96), Residual(96, 96), Causal(96, 96, stride=2), Residual(96, 192), Causal(192, 192, stride=2), Residual(192, 384), Residual(384, 384),
                          nn.Upsample(scale_factor=2), Causal(384, 192), Residual(192, 192), nn.Upsample(scale_factor=2), Causal(192, 96), Residual(96, 96), Causal(96, 3)).to(DEVICE)
    clips = noise(1, 3, 16, 160, 160)
    return model, lambda: F.mse_loss(model(clips), clips)


@architecture
def scan_unet():
    """A U-Net over scans, with strides and transposed convolutions between its levels."""
    widths = (32, 64, 128, 256, 320)

    def block(cin, cout, stride=1):
        return nn.Sequential(nn.Conv3d(cin, cout, 3, stride, 1), nn.InstanceNorm3d(cout, affine=True), nn.LeakyReLU(0.01),
                             nn.Conv3d(cout, cout, 3, 1, 1), nn.InstanceNorm3d(cout, affine=True), nn.LeakyReLU(0.01))

    down = nn.ModuleList([block(1 if i == 0 else widths[i - 1], widths[i], 1 if i == 0 else 2) for i in range(5)])
    up = nn.ModuleList([nn.ConvTranspose3d(widths[i + 1], widths[i], 2, 2) for i in range(4)])
    joined = nn.ModuleList([block(2 * widths[i], widths[i]) for i in range(4)])
    model = nn.ModuleList([down, up, joined, nn.Conv3d(32, 4, 1)]).to(DEVICE)
    scans, labels = noise(2, 1, 96, 96, 96), torch.randint(0, 4, (2, 96, 96, 96), device=DEVICE)

    def loss():
        x, kept = scans, []
        for level in down:
            x = level(x)
            kept.append(x)
        for i in reversed(range(4)):
            x = joined[i](torch.cat([up[i](x), kept[i]], 1))
        return F.cross_entropy(model[3](x), labels)
    return model, loss


def training_step(name):
    """A step of the architecture of that name."""
    model, loss, *dtype = ARCHITECTURES[name]()
    dtype = dtype[0] if dtype else torch.bfloat16
    scaler = torch.amp.GradScaler(enabled=dtype == torch.float16)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4)
    model.train()

    def step():
        with torch.autocast("cuda", dtype=dtype):
            value = loss()
        scaler.scale(value).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    return step


def measure(name, make, warmup, steps, kernels=None):
    """The row of the steps that `make(name)` makes."""
    torch.manual_seed(0)
    torch.cuda.reset_peak_memory_stats()
    step = make(name)
    times, cpu = [], []
    for number in range(warmup + steps):
        torch.cuda.synchronize()
        began, cpu_began = time.perf_counter(), time.process_time()
        step()
        used = time.process_time() - cpu_began
        torch.cuda.synchronize()
        if number >= warmup:
            times.append(time.perf_counter() - began)
            cpu.append(used)
    peak = torch.cuda.max_memory_allocated()
    if kernels:
        profile(name, step, kernels)
    return dict(model=name, median_s=statistics.median(times), min_s=min(times), max_s=max(times),
                cpu_s=statistics.median(cpu), peak_alloc=peak,
                torch=torch.__version__, gpu=torch.cuda.get_device_name())


def main(names, make, about):
    """Measures those of `names` that the command line asks for; `make(name)` makes a step."""
    arguments = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--only", default="", help="one of them, or those whose names contain this")
    arguments.add_argument("--names", nargs="+", default=list(names), choices=list(names), metavar="NAME")
    arguments.add_argument("--without", nargs="+", default=[], choices=list(names), metavar="NAME")
    arguments.add_argument("--steps", type=int, default=12)
    arguments.add_argument("--warmup", type=int, default=4)
    arguments.add_argument("--kernels", type=argparse.FileType("a"), help="profile, and append to this file")
    options = arguments.parse_args()
    failed = []
    for name in options.names:
        if options.only not in name or (options.only in names and options.only != name) or name in options.without:
            continue
        try:
            print(json.dumps(measure(name, make, options.warmup, options.steps, options.kernels)), flush=True)
        except Exception:
            traceback.print_exc()
            failed.append(name)
        gc.collect()
        torch.cuda.empty_cache()
    sys.exit(f"failed: {' '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main(ARCHITECTURES, training_step, __doc__)
