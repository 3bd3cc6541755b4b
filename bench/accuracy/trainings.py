#!/usr/bin/env python3
"""Steps of kinds that zoo.py lacks: detection, CTC, FlexAttention, grouped products, float8, quantised weights, nested
tensors, sparse gradients, solvers, second derivatives, offloading, reinforcement learning; one JSON line for each.

Plain PyTorch, torchvision and Transformers on one GPU; nothing here knows of a simulator.

Usage: trainings.py [--only TEXT | --names NAME...] [--steps N] [--kernels FILE]   (as zoo.py)
"""
import torch
import torch.nn.functional as F
from torch import nn

import zoo
from zoo import DEVICE, ids, noise

STEPS = {}


def training(function):
    """`function` makes a step, which does all that one step of a training does."""
    STEPS[function.__name__] = function
    return function


def step_of(model, loss, optimizer=None, clip=True, dtype=torch.bfloat16):
    """A step that computes `loss` by autocast, its gradients, and new weights."""
    optimizer = optimizer or torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4)
    model.train()

    def step():
        with torch.autocast("cuda", dtype=dtype, enabled=dtype is not None):
            value = loss()
        value.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return step


class Block(nn.Module):
    """A layer of a transformer, with what `attend(q, k, v)` and `mlp` are told."""

    def __init__(self, width, heads, attend, mlp=None):
        super().__init__()
        self.heads, self.attend = heads, attend
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = mlp or nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(-2, -3) for part in self.qkv(self.norms[0](x)).chunk(3, -1))
        x = x + self.out(self.attend(q, k, v).transpose(-2, -3).flatten(-2))
        return x + self.mlp(self.norms[1](x))


def causal(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


class Decoder(nn.Module):
    def __init__(self, layers, width, heads, words=32000, attend=causal, mlp=lambda: None):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.layers = nn.ModuleList(Block(width, heads, attend, mlp()) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def next_token(model, tokens):
    return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


# --- Detection and other work on images ---

@training
def faster_rcnn():
    from torchvision.models.detection import fasterrcnn_resnet50_fpn
    model = fasterrcnn_resnet50_fpn(weights=None, weights_backbone=None).to(DEVICE)
    images = [torch.rand(3, 600, 800, device=DEVICE) for _ in range(4)]
    corners = torch.tensor([[50.0, 60, 250, 300], [300, 200, 500, 400], [10, 10, 100, 100]], device=DEVICE)
    targets = [dict(boxes=corners, labels=torch.tensor([1, 5, 9], device=DEVICE)) for _ in images]
    return step_of(model, lambda: sum(model(images, targets).values()))


@training
def retinanet():
    from torchvision.models.detection import retinanet_resnet50_fpn
    model = retinanet_resnet50_fpn(weights=None, weights_backbone=None).to(DEVICE)
    images = [torch.rand(3, 512, 640, device=DEVICE) for _ in range(4)]
    corners = torch.tensor([[50.0, 60, 250, 300], [300, 200, 500, 400]], device=DEVICE)
    targets = [dict(boxes=corners, labels=torch.tensor([1, 5], device=DEVICE)) for _ in images]
    return step_of(model, lambda: sum(model(images, targets).values()))


@training
def detection_transformer():
    from transformers import DetrConfig, DetrForObjectDetection, ResNetConfig
    backbone = ResNetConfig(out_features=["stage4"])
    model = DetrForObjectDetection(DetrConfig(use_timm_backbone=False, use_pretrained_backbone=False, backbone_config=backbone,
                                              backbone=None)).to(DEVICE)
    images = noise(4, 3, 480, 640)
    return step_of(model, lambda: (lambda out: out.logits.square().mean() + out.pred_boxes.mean())(model(pixel_values=images)))


@training
def autoencoder():
    def down(cin, cout):
        return nn.Sequential(nn.Conv2d(cin, cout, 4, 2, 1), nn.GroupNorm(8, cout), nn.SiLU(), nn.Conv2d(cout, cout, 3, padding=1), nn.SiLU())

    def up(cin, cout):
        return nn.Sequential(nn.ConvTranspose2d(cin, cout, 4, 2, 1), nn.GroupNorm(8, cout), nn.SiLU(), nn.Conv2d(cout, cout, 3, padding=1), nn.SiLU())

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.encode = nn.Sequential(down(3, 64), down(64, 128), down(128, 256), nn.Conv2d(256, 16, 1))
            self.decode = nn.Sequential(nn.Conv2d(8, 256, 1), up(256, 128), up(128, 64), up(64, 32), nn.Conv2d(32, 3, 3, padding=1))

        def forward(self, x):
            mean, log_variance = self.encode(x).chunk(2, 1)
            z = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
            kl = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).mean()
            return F.l1_loss(self.decode(z), x) + 1e-3 * kl
    model, images = Model().to(DEVICE), noise(16, 3, 192, 192)
    return step_of(model, lambda: model(images))


@training
def gradient_penalty():
    def critic_of(width):
        sizes = [(3, width), (width, 2 * width), (2 * width, 4 * width), (4 * width, 8 * width)]
        parts = [part for cin, cout in sizes for part in (nn.Conv2d(cin, cout, 4, 2, 1), nn.LeakyReLU(0.2))]
        return nn.Sequential(*parts, nn.Flatten(), nn.Linear(8 * width * 16, 1))
    critic, real = critic_of(96).to(DEVICE), noise(64, 3, 64, 64)

    def loss():
        mixed = torch.rand(64, 1, 1, 1, device=DEVICE).mul(real).requires_grad_()
        gradient, = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
        penalty = (gradient.float().flatten(1).norm(dim=1) - 1).square().mean()
        return critic(real).mean() - critic(-real).mean() + 10 * penalty
    return step_of(critic, loss, torch.optim.Adam(critic.parameters(), lr=1e-4, betas=(0.0, 0.9)), clip=False, dtype=None)


@training
def augmented_resnet():
    import torchvision
    from torchvision.transforms import v2
    model = torchvision.models.resnet50().to(DEVICE, memory_format=torch.channels_last)
    images, labels = torch.randint(0, 256, (64, 3, 256, 256), dtype=torch.uint8).pin_memory(), torch.randint(0, 1000, (64,)).pin_memory()
    augment = v2.Compose([v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip(), v2.ToDtype(torch.float32, scale=True),
                          v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]), v2.RandomErasing(1.0)])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-4)

    def loss():
        x = augment(images.to(DEVICE, non_blocking=True)).to(memory_format=torch.channels_last)
        return F.cross_entropy(model(x), labels.to(DEVICE, non_blocking=True), label_smoothing=0.1)
    return step_of(model, loss, optimizer, clip=False)


# --- Language ---

@training
def flex_documents():
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    length = 4096
    document = (torch.arange(length, device=DEVICE) // 700)
    mask = create_block_mask(lambda b, h, q, k: (q >= k) & (document[q] == document[k]), None, None, length, length, device="cuda")
    attend = torch.compile(flex_attention)
    model = Decoder(6, 1024, 16, attend=lambda q, k, v: attend(q, k, v, block_mask=mask)).to(DEVICE)
    tokens = ids(2, length + 1)
    return step_of(model, lambda: next_token(model, tokens))


@training
def compiled_decoder():
    model = Decoder(8, 1024, 16).to(DEVICE)
    compiled, tokens = torch.compile(model), ids(6, 1025)
    return step_of(model, lambda: next_token(compiled, tokens), torch.optim.AdamW(model.parameters(), fused=True))


@training
def grouped_experts():
    experts, chosen, hidden = 16, 2, 1408

    class Experts(nn.Module):
        def __init__(self, width=1024):
            super().__init__()
            self.router = nn.Linear(width, experts, bias=False)
            self.up = nn.Parameter(torch.randn(experts, width, 2 * hidden) * 0.02)
            self.down = nn.Parameter(torch.randn(experts, hidden, width) * 0.02)

        def forward(self, x):
            flat = x.flatten(0, -2)
            weights, index = self.router(flat).float().softmax(-1).topk(chosen, dim=-1)
            order = index.flatten().argsort(stable=True)
            counts = torch.histc(index.flatten().float(), bins=experts, min=0, max=experts - 1)
            offsets = counts.cumsum(0).to(torch.int32)
            rows = flat[order // chosen].bfloat16()
            gate, up = torch._grouped_mm(rows, self.up.bfloat16(), offs=offsets).chunk(2, -1)
            out = torch._grouped_mm(F.silu(gate) * up, self.down.bfloat16(), offs=offsets)
            out = out * weights.flatten()[order].unsqueeze(-1).to(out.dtype)
            return torch.zeros_like(flat, dtype=out.dtype).index_add(0, order // chosen, out).view_as(x)
    model, tokens = Decoder(6, 1024, 16, mlp=Experts).to(DEVICE), ids(4, 1025)
    return step_of(model, lambda: next_token(model, tokens))


class Float8(torch.autograd.Function):
    """y = x w^T by products in float8 with a scale for each tensor."""

    @staticmethod
    def scaled(x, kind):
        scale = torch.finfo(kind).max / x.abs().max().float().clamp(min=1e-12)
        return (x * scale).clamp(torch.finfo(kind).min, torch.finfo(kind).max).to(kind), scale.reciprocal()

    @staticmethod
    def product(a, b, kinds=(torch.float8_e4m3fn, torch.float8_e4m3fn)):
        (a8, a_scale), (b8, b_scale) = Float8.scaled(a, kinds[0]), Float8.scaled(b.contiguous(), kinds[1])
        return torch._scaled_mm(a8, b8.t(), a_scale, b_scale, out_dtype=torch.bfloat16, use_fast_accum=True)

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return Float8.product(x, w)

    @staticmethod
    def backward(ctx, dy):
        x, w = ctx.saved_tensors
        e5m2 = (torch.float8_e5m2, torch.float8_e4m3fn)
        return Float8.product(dy.contiguous(), w.t(), e5m2), Float8.product(dy.t().contiguous(), x.t(), e5m2)


@training
def float8_decoder():
    class Float8Linear(nn.Linear):
        def forward(self, x):
            return Float8.apply(x.flatten(0, -2).bfloat16(), self.weight.bfloat16()).unflatten(0, x.shape[:-1]) + self.bias.to(torch.bfloat16)
    model = Decoder(6, 2048, 16, mlp=lambda: nn.Sequential(Float8Linear(2048, 8192), nn.GELU(), Float8Linear(8192, 2048))).to(DEVICE)
    tokens = ids(4, 1025)
    return step_of(model, lambda: next_token(model, tokens))


@training
def quantised_lora():
    """Weights of four bits, looked up in a table and scaled by blocks of 64; what is trained is of rank 16."""
    table = torch.linspace(-1, 1, 16, device=DEVICE)

    class Quantised(nn.Module):
        def __init__(self, fin, fout, bias=True):
            super().__init__()
            self.shape = fout, fin
            self.register_buffer("codes", torch.randint(0, 256, (fout * fin // 2,), dtype=torch.uint8))
            self.register_buffer("scales", torch.rand(fout * fin // 64, 1))
            self.a, self.b = nn.Linear(fin, 16, bias=False), nn.Linear(16, fout, bias=False)

        def forward(self, x):
            codes = torch.stack((self.codes >> 4, self.codes & 15), -1)
            weight = (table[codes.int()].view(-1, 64) * self.scales).view(self.shape).to(torch.bfloat16)
            return F.linear(x, weight) + self.b(self.a(x))
    model = Decoder(8, 2048, 16, mlp=lambda: nn.Sequential(Quantised(2048, 8192), nn.SiLU(), Quantised(8192, 2048)))
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(".a." in name or ".b." in name)
    model, tokens = model.to(DEVICE), ids(2, 1025)
    return step_of(model, lambda: next_token(model, tokens))


@training
def nested_batch():
    lengths = [300, 512, 127, 420, 64, 256, 380, 500]

    model = nn.Sequential(*(Block(768, 12, F.scaled_dot_product_attention) for _ in range(6))).to(DEVICE)
    x = torch.nested.nested_tensor([torch.randn(length, 768) for length in lengths], layout=torch.jagged, device=DEVICE)
    return step_of(model, lambda: model(x).values().float().square().mean())


@training
def preferences():
    """Direct preference optimisation: a policy and a reference, chosen and rejected answers."""
    policy, reference = Decoder(6, 1024, 16).to(DEVICE), Decoder(6, 1024, 16).to(DEVICE).requires_grad_(False)
    chosen, rejected = ids(4, 769), ids(4, 769)
    mask = torch.arange(768, device=DEVICE) > 256

    def score(model, tokens):
        logs = model(tokens[:, :-1]).float().log_softmax(-1).gather(-1, tokens[:, 1:, None]).squeeze(-1)
        return (logs * mask).sum(-1)

    def loss():
        with torch.no_grad():
            against = score(reference, chosen) - score(reference, rejected)
        return -F.logsigmoid(0.1 * (score(policy, chosen) - score(policy, rejected) - against)).mean()
    return step_of(policy, loss)


@training
def mamba():
    from transformers import MambaConfig, MambaForCausalLM
    model = MambaForCausalLM(MambaConfig(hidden_size=768, num_hidden_layers=4, vocab_size=32000, use_cache=False)).to(DEVICE)
    tokens = ids(4, 256)
    return step_of(model, lambda: model(input_ids=tokens, labels=tokens).loss)


@training
def vision_language():
    from transformers import CLIPVisionConfig, LlamaConfig, LlavaConfig, LlavaForConditionalGeneration
    text = LlamaConfig(hidden_size=1024, intermediate_size=2816, num_hidden_layers=8, num_attention_heads=16, vocab_size=32064)
    vision = CLIPVisionConfig(hidden_size=768, intermediate_size=3072, num_hidden_layers=8, num_attention_heads=12, image_size=224, patch_size=16)
    model = LlavaForConditionalGeneration(LlavaConfig(text_config=text, vision_config=vision, image_token_index=32000)).to(DEVICE)
    images, tokens = noise(4, 3, 224, 224), ids(4, 512)
    tokens[:, 10:10 + 196] = 32000
    labels = ids(4, 512)
    return step_of(model, lambda: model(input_ids=tokens, pixel_values=images, labels=labels).loss)


@training
def offloaded_activations():
    model, tokens = Decoder(6, 1024, 16).to(DEVICE), ids(4, 1025)

    def loss():
        with torch.autograd.graph.save_on_cpu(pin_memory=True):
            return next_token(model, tokens)
    return step_of(model, loss)


@training
def recomputed_decoder():
    from torch.utils.checkpoint import checkpoint
    model, tokens = Decoder(10, 1024, 16).to(DEVICE), ids(8, 1025)

    def loss():
        x = model.embed(tokens[:, :-1])
        for layer in model.layers:
            x = checkpoint(layer, x, use_reentrant=False)
        return F.cross_entropy(model.head(model.norm(x)).flatten(0, 1), tokens[:, 1:].flatten())
    return step_of(model, loss, torch.optim.AdamW(model.parameters(), fused=True))


@training
def orthogonal_updates():
    """Muon: momentum made orthogonal by five products for each matrix (Newton-Schulz)."""
    model, tokens = Decoder(6, 1024, 16).to(DEVICE), ids(4, 1025)
    matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and "layers" in name]
    others = [p for name, p in model.named_parameters() if p.ndim != 2 or "layers" not in name]
    muon, adam = torch.optim.Muon(matrices, lr=0.02), torch.optim.AdamW(others, lr=1e-4)

    def step():
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = next_token(model, tokens)
        loss.backward()
        for optimizer in (muon, adam):
            optimizer.step()
            optimizer.zero_grad()
    return step


# --- Speech and series ---

@training
def speech_ctc():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.front = nn.Sequential(nn.Conv2d(1, 32, (41, 11), (2, 2), (20, 5)), nn.BatchNorm2d(32), nn.Hardtanh(0, 20),
                                       nn.Conv2d(32, 32, (21, 11), (2, 1), (10, 5)), nn.BatchNorm2d(32), nn.Hardtanh(0, 20))
            self.layers = nn.LSTM(32 * 40, 512, 3, bidirectional=True, batch_first=True)
            self.head = nn.Linear(1024, 29)

        def forward(self, x):
            x = self.front(x).flatten(1, 2).transpose(1, 2)
            return self.head(self.layers(x)[0]).float().log_softmax(-1).transpose(0, 1)
    model, sounds = Model().to(DEVICE), noise(16, 1, 160, 600)
    texts, lengths = torch.randint(1, 29, (16, 60), device=DEVICE), torch.full((16,), 60, device=DEVICE)
    times = torch.full((16,), 300, device=DEVICE)
    return step_of(model, lambda: F.ctc_loss(model(sounds), texts, times, lengths), clip=True)


@training
def patch_series():
    from transformers import PatchTSTConfig, PatchTSTForPrediction
    model = PatchTSTForPrediction(PatchTSTConfig(num_input_channels=21, context_length=512, prediction_length=96, patch_length=16,
                                                 patch_stride=8, d_model=256, num_hidden_layers=4, num_attention_heads=16, ffn_dim=512)).to(DEVICE)
    past, future = noise(32, 512, 21), noise(32, 96, 21)
    return step_of(model, lambda: model(past_values=past, future_values=future).loss)


# --- Tables, graphs, physics ---

@training
def sparse_embeddings():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.bags = nn.ModuleList(nn.EmbeddingBag(200_000, 64, mode="sum", sparse=True) for _ in range(8))
            self.top = nn.Sequential(nn.Linear(8 * 64, 512), nn.ReLU(), nn.Linear(512, 1))

        def forward(self, indices, offsets):
            return self.top(torch.cat([bag(indices, offsets) for bag in self.bags], 1)).squeeze(1)
    model = Model().to(DEVICE)
    indices, offsets = torch.randint(0, 200_000, (4096 * 10,), device=DEVICE), torch.arange(0, 4096 * 10, 10, device=DEVICE)
    labels = torch.rand(4096, device=DEVICE)
    rare, dense = torch.optim.SparseAdam(list(model.bags.parameters())), torch.optim.Adam(model.top.parameters())

    def step():
        F.binary_cross_entropy_with_logits(model(indices, offsets), labels).backward()
        for optimizer in (rare, dense):
            optimizer.step()
            optimizer.zero_grad()
    return step


@training
def sparse_graph():
    nodes, edges = 20_000, 200_000
    where = torch.randint(0, nodes, (2, edges), device=DEVICE)
    adjacency = torch.sparse_coo_tensor(where, torch.rand(edges, device=DEVICE), (nodes, nodes)).coalesce().to_sparse_csr()
    model, x = nn.ModuleList([nn.Linear(256, 256) for _ in range(3)]).to(DEVICE), noise(nodes, 256)

    def loss():
        h = x
        for layer in model:
            h = torch.relu(torch.sparse.mm(adjacency, layer(h)))
        return h.square().mean()
    return step_of(model, loss, dtype=None)


@training
def neural_operator():
    class Spectral(nn.Module):
        def __init__(self, width, modes):
            super().__init__()
            self.modes = modes
            self.weight = nn.Parameter(torch.randn(2, width, width, modes, modes, dtype=torch.cfloat) / width)
            self.beside = nn.Conv2d(width, width, 1)

        def forward(self, x):
            m, spectrum = self.modes, torch.fft.rfft2(x)
            out = torch.zeros_like(spectrum)
            out[..., :m, :m] = torch.einsum("bixy,ioxy->boxy", spectrum[..., :m, :m], self.weight[0])
            out[..., -m:, :m] = torch.einsum("bixy,ioxy->boxy", spectrum[..., -m:, :m], self.weight[1])
            return F.gelu(torch.fft.irfft2(out, s=x.shape[-2:]) + self.beside(x))
    model = nn.Sequential(nn.Conv2d(3, 64, 1), *(Spectral(64, 16) for _ in range(4)), nn.Conv2d(64, 1, 1)).to(DEVICE)
    x, y = noise(16, 3, 128, 128), noise(16, 1, 128, 128)
    return step_of(model, lambda: F.mse_loss(model(x), y), clip=False, dtype=None)


@training
def gaussian_process():
    x, y = noise(2048, 8), noise(2048)
    model = nn.ParameterDict(dict(scale=nn.Parameter(torch.ones(8)), noise=nn.Parameter(torch.tensor(0.1)))).to(DEVICE)

    def loss():
        z = x * model["scale"]
        kernel = (-0.5 * torch.cdist(z, z).square()).exp() + model["noise"].square() * torch.eye(2048, device=DEVICE)
        factor = torch.linalg.cholesky(kernel + 0.1 * torch.eye(2048, device=DEVICE))
        alpha = torch.cholesky_solve(y[:, None], factor)
        return 0.5 * (y[:, None] * alpha).sum() + factor.diagonal().log().sum()
    return step_of(model, loss, torch.optim.Adam(model.parameters(), lr=1e-2), clip=False, dtype=None)


@training
def per_sample_gradients():
    from torch.func import functional_call, grad, vmap
    model = nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU(), nn.Flatten(),
                          nn.Linear(64 * 64, 128), nn.ReLU(), nn.Linear(128, 10)).to(DEVICE)
    images, labels = noise(128, 3, 32, 32), torch.randint(0, 10, (128,), device=DEVICE)
    weights = dict(model.named_parameters())

    def loss(weights, image, label):
        return F.cross_entropy(functional_call(model, weights, (image[None],)), label[None])
    each = vmap(grad(loss), in_dims=(None, 0, 0))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step():
        found = each({name: weight.detach() for name, weight in weights.items()}, images, labels)
        norms = torch.stack([g.flatten(1).norm(dim=1) for g in found.values()]).norm(dim=0)
        factor = (1.0 / (norms + 1e-6)).clamp(max=1.0)
        for name, weight in weights.items():
            weight.grad = torch.einsum("b,b...->...", factor, found[name]) / 128 + 1e-3 * torch.randn_like(weight)
        optimizer.step()
        optimizer.zero_grad()
    return step


@training
def point_clouds():
    class Level(nn.Module):
        def __init__(self, cin, cout):
            super().__init__()
            self.mlp = nn.Sequential(nn.Conv2d(2 * cin, cout, 1, bias=False), nn.BatchNorm2d(cout), nn.LeakyReLU(0.2))

        def forward(self, x, k=20):
            near = torch.cdist(x.transpose(1, 2), x.transpose(1, 2)).topk(k, largest=False).indices
            beside = x.unsqueeze(2).expand(-1, -1, x.shape[2], -1).gather(3, near.unsqueeze(1).expand(-1, x.shape[1], -1, -1))
            own = x.unsqueeze(3).expand_as(beside)
            return self.mlp(torch.cat((beside - own, own), 1)).amax(-1)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.levels = nn.ModuleList(Level(cin, cout) for cin, cout in ((3, 64), (64, 64), (64, 128)))
            self.head = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Dropout(0.5), nn.Linear(256, 40))

        def forward(self, x):
            found = []
            for level in self.levels:
                x = level(x)
                found.append(x)
            return self.head(torch.cat(found, 1).amax(-1))
    model, points = Model().to(DEVICE), noise(16, 3, 1024)
    labels = torch.randint(0, 40, (16,), device=DEVICE)
    return step_of(model, lambda: F.cross_entropy(model(points), labels), dtype=None)


@training
def policy_gradient():
    """Proximal policy optimisation: 32 steps of 1,024 environments on the GPU, then four passes over what came of them."""
    actor = nn.Sequential(nn.Linear(48, 256), nn.ELU(), nn.Linear(256, 256), nn.ELU(), nn.Linear(256, 13)).to(DEVICE)
    optimizer = torch.optim.Adam(actor.parameters(), lr=3e-4)
    dynamics = noise(60, 48) * 0.1

    def step():
        state, kept = noise(1024, 48), []
        with torch.no_grad():
            for _ in range(32):
                out = actor(state)
                policy = torch.distributions.Normal(out[:, :12], 0.3)
                action = policy.sample()
                state = torch.tanh(torch.cat((state, action), 1) @ dynamics)
                kept.append((state, action, policy.log_prob(action).sum(-1), out[:, 12], -state.square().mean(-1)))
        states, actions, logs, values, rewards = (torch.stack(part) for part in zip(*kept))
        advantage, later = [], torch.zeros(1024, device=DEVICE)
        for t in reversed(range(32)):
            later = rewards[t] + 0.99 * later
            advantage.append(later - values[t])
        advantage = torch.stack(advantage[::-1])
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        for _ in range(4):
            for part in torch.randperm(32 * 1024, device=DEVICE).chunk(4):
                out = actor(states.flatten(0, 1)[part])
                policy = torch.distributions.Normal(out[:, :12], 0.3)
                ratio = (policy.log_prob(actions.flatten(0, 1)[part]).sum(-1) - logs.flatten()[part]).exp()
                gain = advantage.flatten()[part]
                loss = -torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean() + out[:, 12].square().mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(actor.parameters(), 0.5)
                optimizer.step()
    return step


if __name__ == "__main__":
    zoo.main(STEPS, lambda name: STEPS[name](), __doc__)
