#!/usr/bin/env python3
"""Steps as studies have them, of kinds that zoo.py and trainings.py lack: second-order optimizers, long convolutions, linear
attention, latent attention, graphs, splines, differential equations, contrast of augmented images, vocoders, volumes, distillation,
meta-learning, quantisation-aware training, adaptive softmax, flows, packed sequences; one JSON line for each.

Plain PyTorch and torchvision on one GPU; nothing here knows of a simulator.

Usage: studies.py [--only TEXT | --names NAME...] [--steps N] [--kernels FILE]   (as zoo.py)
"""
import math

import torch
import torch.nn.functional as F
import torchvision
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

import zoo
from trainings import Block, Decoder, next_token, step_of
from zoo import DEVICE, noise

STEPS = {}


def ids(*shape, below=32000):
    return torch.randint(0, below, shape, device=DEVICE)


def study(function):
    STEPS[function.__name__] = function
    return function


# --- Optimizers ---

@study
def soap():
    """Adam in the eigenbasis of Shampoo's preconditioners, which is found anew in every step."""
    model, tokens = Decoder(4, 512, 8).to(DEVICE), ids(8, 513)
    matrices = [p for p in model.parameters() if p.ndim == 2 and max(p.shape) <= 2048]
    state = {p: dict(left=torch.zeros(p.shape[0], p.shape[0], device=DEVICE), right=torch.zeros(p.shape[1], p.shape[1], device=DEVICE),
                     first=torch.zeros_like(p), second=torch.zeros_like(p)) for p in matrices}

    def step():
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = next_token(model, tokens)
        loss.backward()
        with torch.no_grad():
            for p in matrices:
                s, g = state[p], p.grad
                s["left"].lerp_(g @ g.T, 0.05)
                s["right"].lerp_(g.T @ g, 0.05)
                if "bases" not in s:
                    s["bases"] = [torch.linalg.eigh(s[side] + 1e-6 * torch.eye(s[side].shape[0], device=DEVICE))[1] for side in ("left", "right")]
                else:  # one step of the power iteration
                    s["bases"] = [torch.linalg.qr(s[side] @ basis)[0] for side, basis in zip(("left", "right"), s["bases"])]
                left, right = s["bases"]
                turned = left.T @ g @ right
                s["first"].lerp_(turned, 0.1)
                s["second"].lerp_(turned.square(), 0.05)
                p.sub_(left @ (s["first"] / (s["second"].sqrt() + 1e-8)) @ right.T, alpha=3e-4)
            for p in model.parameters():
                p.grad = None
    return step


@study
def kronecker_inverses():
    """K-FAC on a perceptron: Cholesky factors and inverses of the layers' covariances in every step."""
    widths = (784, 1024, 1024, 512, 10)
    layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(widths, widths[1:])).to(DEVICE)
    x, labels = noise(1024, 784), ids(1024, below=10)

    def step():
        inputs, outputs, h = [], [], x
        for i, layer in enumerate(layers):
            inputs.append(h)
            out = layer(h)
            out.retain_grad()
            outputs.append(out)
            h = torch.relu(out) if i + 1 < len(layers) else out
        F.cross_entropy(h, labels).backward()
        with torch.no_grad():
            for layer, a, out in zip(layers, inputs, outputs):
                g = out.grad * 1024
                damp = lambda m: m + 0.01 * torch.eye(m.shape[0], device=DEVICE)
                ia, ig = (torch.cholesky_inverse(torch.linalg.cholesky(damp(v.T @ v / 1024))) for v in (a, g))
                layer.weight.sub_(ig @ layer.weight.grad @ ia, alpha=0.1)
                layer.bias.sub_(layer.bias.grad, alpha=0.1)
            layers.zero_grad()
    return step


@study
def meta_learning():
    """MAML: the gradient through three steps on each of eight tasks."""
    net = nn.Sequential(*(m for c in (3, 64, 64, 64) for m in (nn.Conv2d(c, 64, 3, padding=1), nn.GroupNorm(8, 64), nn.ReLU(), nn.MaxPool2d(2))),
                        nn.Flatten(), nn.Linear(64 * 5 * 5, 5)).to(DEVICE)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    support, query, labels = noise(8, 25, 3, 84, 84), noise(8, 75, 3, 84, 84), ids(8, 100, below=5)

    def step():
        total = 0.0
        for task in range(8):
            fast = dict(net.named_parameters())
            for _ in range(3):
                loss = F.cross_entropy(torch.func.functional_call(net, fast, support[task]), labels[task, :25])
                grads = torch.autograd.grad(loss, list(fast.values()), create_graph=True)
                fast = {name: p - 0.4 * g for (name, p), g in zip(fast.items(), grads)}
            total = total + F.cross_entropy(torch.func.functional_call(net, fast, query[task]), labels[task, 25:])
        (total / 8).backward()
        optimizer.step()
        optimizer.zero_grad()
    return step


# --- Sequences ---

class Stack(nn.Module):
    """A language model of layers that `mixer()` makes, which take and give (batch, length, width)."""

    def __init__(self, layers, width, mixer, words=16000):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.mixers = nn.ModuleList(mixer() for _ in range(layers))
        self.mlps = nn.ModuleList(nn.Sequential(nn.RMSNorm(width), nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, width)) for _ in range(layers))
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(layers))
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, tokens):
        x = self.words(tokens)
        for mixer, norm, mlp in zip(self.mixers, self.norms, self.mlps):
            x = x + mixer(norm(x))
            x = x + mlp(x)
        return self.head(x)


@study
def long_convolutions():
    """Hyena: gates, and filters as long as the sequence by Fourier transforms."""
    class Hyena(nn.Module):
        def __init__(self, width=512, length=2048):
            super().__init__()
            self.inward, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.short = nn.Conv1d(3 * width, 3 * width, 3, padding=2, groups=3 * width)
            self.filter = nn.Sequential(nn.Linear(33, 64), nn.SiLU(), nn.Linear(64, width))
            t = torch.linspace(0, 1, length)[:, None]
            self.register_buffer("places", torch.cat((t, torch.sin(t * torch.arange(1, 17) * math.pi), torch.cos(t * torch.arange(1, 17) * math.pi)), 1))
            self.register_buffer("decay", torch.exp(-t * torch.linspace(1, 10, width)))

        def forward(self, x):
            length = x.shape[1]
            a, b, v = self.short(self.inward(x).transpose(1, 2))[..., :length].chunk(3, 1)
            h = (self.filter(self.places) * self.decay).t().float()
            v = (v * b).float()
            y = torch.fft.irfft(torch.fft.rfft(v, n=2 * length) * torch.fft.rfft(h, n=2 * length), n=2 * length)[..., :length]
            return self.out((y.to(a.dtype) * a).transpose(1, 2))
    model, tokens = Stack(6, 512, Hyena).to(DEVICE), ids(8, 2049, below=16000)
    return step_of(model, lambda: next_token(model, tokens))


@study
def linear_attention():
    """Gated linear attention by chunks of 64: products within a chunk, and a state from one to the next."""
    class Gated(nn.Module):
        def __init__(self, width=768, heads=6):
            super().__init__()
            self.heads = heads
            self.qkvg, self.out = nn.Linear(width, 4 * width), nn.Linear(width, width)
            self.decay = nn.Linear(width, heads)

        def forward(self, x):
            batch, length, _ = x.shape
            q, k, v, gate = (p.view(batch, length // 64, 64, self.heads, -1).transpose(2, 3) for p in self.qkvg(x).chunk(4, -1))
            log = F.logsigmoid(self.decay(x).float()).view(batch, length // 64, 64, self.heads).transpose(2, 3).cumsum(-1)
            within = (log[..., :, None] - log[..., None, :]).masked_fill(torch.ones(64, 64, dtype=torch.bool, device=x.device).triu(1), -1e9).exp()
            y = ((q @ k.mT) * within.to(q.dtype)) @ v
            kept = (k * (log[..., -1:] - log).exp()[..., None].to(k.dtype)).mT @ v
            state, states = torch.zeros_like(kept[:, 0]), []
            for c in range(length // 64):
                states.append(state)
                state = state * log[:, c, :, -1].exp()[..., None, None].to(state.dtype) + kept[:, c]
            y = y + (q * log.exp()[..., None].to(q.dtype)) @ torch.stack(states, 1)
            return self.out((y * F.silu(gate)).transpose(2, 3).reshape(batch, length, -1))
    model, tokens = Stack(8, 768, Gated).to(DEVICE), ids(4, 2049, below=16000)
    return step_of(model, lambda: next_token(model, tokens))


@study
def latent_attention():
    """Multi-head latent attention, with rotary places of their own, and two shared experts beside eight by a loop."""
    class Latent(nn.Module):
        def __init__(self, width=1024, heads=16, latent=256, rotary=32):
            super().__init__()
            self.heads, self.rotary = heads, rotary
            self.q = nn.Linear(width, heads * (64 + rotary), bias=False)
            self.down, self.up = nn.Linear(width, latent + rotary, bias=False), nn.Linear(latent, heads * 128, bias=False)
            self.norm, self.out = nn.RMSNorm(latent), nn.Linear(heads * 64, width, bias=False)
            angle = torch.outer(torch.arange(2048), 10000 ** (-torch.arange(0, rotary, 2) / rotary))
            self.register_buffer("cos", angle.cos().repeat(1, 2))
            self.register_buffer("sin", angle.sin().repeat(1, 2))

        def turned(self, x):
            a, b = x.chunk(2, -1)
            return x * self.cos[:x.shape[-2]] + torch.cat((-b, a), -1) * self.sin[:x.shape[-2]]

        def forward(self, x):
            q = self.q(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            q = torch.cat((q[..., :64], self.turned(q[..., 64:])), -1)
            latent, place = self.down(x).split((256, self.rotary), -1)
            k, v = self.up(self.norm(latent)).unflatten(-1, (self.heads, -1)).transpose(1, 2).chunk(2, -1)
            k = torch.cat((k, self.turned(place)[:, None].expand(-1, self.heads, -1, -1)), -1)
            y = F.scaled_dot_product_attention(q.to(v.dtype), k.to(v.dtype), v, is_causal=True)
            return self.out(y.transpose(1, 2).flatten(2))
    model, tokens = Stack(8, 1024, Latent).to(DEVICE), ids(4, 2049, below=16000)
    return step_of(model, lambda: next_token(model, tokens))


@study
def adaptive_softmax():
    """A recurrent language model with a vocabulary in clusters."""
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(60000, 512)
            self.rnn = nn.LSTM(512, 1024, 2, batch_first=True, dropout=0.2)
            self.loss = nn.AdaptiveLogSoftmaxWithLoss(1024, 60000, [4000, 20000])

        def forward(self, tokens):
            y, _ = self.rnn(self.words(tokens[:, :-1]))
            return self.loss(y.flatten(0, 1), tokens[:, 1:].flatten()).loss
    model, tokens = Model().to(DEVICE), (ids(64, 65, below=60000).float().square() / 60000).long()
    return step_of(model, lambda: model(tokens), dtype=None)


@study
def distillation():
    """A small decoder learns from what a larger one says of every word."""
    teacher, student, tokens = Decoder(12, 1024, 16).to(DEVICE).eval(), Decoder(4, 512, 8).to(DEVICE), ids(4, 1025)

    def loss():
        with torch.no_grad():
            wanted = F.softmax(teacher(tokens[:, :-1]).float() / 2, -1)
        said = student(tokens[:, :-1]).float()
        return F.kl_div(F.log_softmax(said / 2, -1), wanted, reduction="batchmean") + F.cross_entropy(said.flatten(0, 1), tokens[:, 1:].flatten())
    return step_of(student, loss)


@study
def perceiver():
    """A few latents look at many inputs, again and again."""
    class Model(nn.Module):
        def __init__(self, width=512):
            super().__init__()
            self.latents = nn.Parameter(torch.randn(256, width) * 0.02)
            self.look = nn.ModuleList(nn.MultiheadAttention(width, 8, kdim=64, vdim=64, batch_first=True) for _ in range(4))
            self.think = nn.ModuleList(nn.TransformerEncoderLayer(width, 8, 2048, batch_first=True, norm_first=True, dropout=0.0) for _ in range(8))
            self.head = nn.Linear(width, 1000)

        def forward(self, x):
            h = self.latents.expand(x.shape[0], -1, -1)
            for i, look in enumerate(self.look):
                h = h + look(h, x, x, need_weights=False)[0]
                for layer in self.think[2 * i:2 * i + 2]:
                    h = layer(h)
            return self.head(h.mean(1))
    model, x, labels = Model().to(DEVICE), noise(16, 12544, 64), ids(16, below=1000)
    return step_of(model, lambda: F.cross_entropy(model(x), labels))


# --- Graphs, points, functions ---

@study
def graph_attention():
    """GAT: scores by edge, a softmax among those of a node, and weighted sums."""
    nodes, edges, heads = 100_000, 800_000, 4

    class Layer(nn.Module):
        def __init__(self, cin, cout):
            super().__init__()
            self.w, self.a, self.b = nn.Linear(cin, heads * cout), nn.Parameter(torch.randn(heads, cout) * 0.1), nn.Parameter(torch.randn(heads, cout) * 0.1)

        def forward(self, x, source, target):
            h = self.w(x).view(nodes, heads, -1)
            score = F.leaky_relu((h * self.a).sum(-1)[source] + (h * self.b).sum(-1)[target], 0.2)
            most = torch.full((nodes, heads), -torch.inf, device=x.device).scatter_reduce(0, target[:, None].expand(-1, heads), score, "amax")
            weight = (score - most[target]).exp()
            total = torch.zeros(nodes, heads, device=x.device).index_add(0, target, weight)
            return torch.zeros_like(h).index_add(0, target, h[source] * (weight / total[target])[..., None]).flatten(1)
    layers = nn.ModuleList((Layer(128, 32), Layer(128, 32), Layer(128, 16))).to(DEVICE)
    x, source, target, labels = noise(nodes, 128), ids(edges, below=nodes), ids(edges, below=nodes), ids(nodes, below=64)

    def loss():
        h = x
        for layer in layers:
            h = F.elu(layer(h, source, target))
        return F.cross_entropy(h, labels)
    return step_of(layers, loss, dtype=None)


@study
def splines():
    """A Kolmogorov-Arnold network: every weight is a cubic spline."""
    class Layer(nn.Module):
        def __init__(self, cin, cout, grid=8):
            super().__init__()
            self.base, self.coefficients = nn.Linear(cin, cout), nn.Parameter(torch.randn(cout, cin, grid + 3) * 0.1)
            self.register_buffer("knots", torch.linspace(-1.75, 1.75, grid + 7))

        def forward(self, x):
            t, k = x[..., None], self.knots
            b = ((t >= k[:-1]) & (t < k[1:])).to(x.dtype)
            for order in (1, 2, 3):
                b = (t - k[:-order - 1]) / (k[order:-1] - k[:-order - 1]) * b[..., :-1] + (k[order + 1:] - t) / (k[order + 1:] - k[1:-order]) * b[..., 1:]
            return self.base(F.silu(x)) + b.flatten(1) @ self.coefficients.flatten(1).t()
    model = nn.Sequential(Layer(64, 256), nn.LayerNorm(256), Layer(256, 256), nn.LayerNorm(256), Layer(256, 10)).to(DEVICE)
    x, labels = torch.rand(8192, 64, device=DEVICE) * 2 - 1, ids(8192, below=10)
    return step_of(model, lambda: F.cross_entropy(model(x), labels), dtype=None)


@study
def differential_equation():
    """A neural ordinary differential equation on images, by 12 steps of Runge and Kutta."""
    class Slope(nn.Module):
        def __init__(self):
            super().__init__()
            self.convs = nn.ModuleList(nn.Conv2d(65 if i == 0 else 64, 64, 3, padding=1) for i in range(2))
            self.norms = nn.ModuleList(nn.GroupNorm(32, 64) for _ in range(2))

        def forward(self, t, x):
            x = torch.cat((x, x.new_full((x.shape[0], 1, *x.shape[2:]), t)), 1)
            for conv, norm in zip(self.convs, self.norms):
                x = norm(torch.relu(conv(x)))
            return x
    down, slope, head = nn.Conv2d(3, 64, 4, 2, 1).to(DEVICE), Slope().to(DEVICE), nn.Linear(64, 10).to(DEVICE)
    model, x, labels = nn.ModuleList((down, slope, head)), noise(128, 3, 32, 32), ids(128, below=10)

    def loss():
        h, dt = down(x), 1 / 12
        for i in range(12):
            t = i * dt
            k1 = slope(t, h)
            k2 = slope(t + dt / 2, h + dt / 2 * k1)
            k3 = slope(t + dt / 2, h + dt / 2 * k2)
            k4 = slope(t + dt, h + dt * k3)
            h = h + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return F.cross_entropy(head(h.mean((2, 3))), labels)
    return step_of(model, loss, dtype=None)


@study
def coupling_flow():
    """A normalising flow: affine couplings, 1 x 1 convolutions whose determinant counts."""
    class Step(nn.Module):
        def __init__(self, channels):
            super().__init__()
            self.scale, self.shift = nn.Parameter(torch.zeros(1, channels, 1, 1)), nn.Parameter(torch.zeros(1, channels, 1, 1))
            self.mix = nn.Parameter(torch.linalg.qr(torch.randn(channels, channels))[0])
            self.net = nn.Sequential(nn.Conv2d(channels // 2, 256, 3, padding=1), nn.ReLU(), nn.Conv2d(256, 256, 1), nn.ReLU(), nn.Conv2d(256, channels, 3, padding=1))

        def forward(self, x):
            area = x.shape[2] * x.shape[3]
            x = (x + self.shift) * self.scale.exp()
            x = F.conv2d(x, self.mix[:, :, None, None])
            log = area * (self.scale.sum() + torch.linalg.slogdet(self.mix)[1])
            a, b = x.chunk(2, 1)
            s, t = self.net(a).chunk(2, 1)
            s = torch.sigmoid(s + 2)
            return torch.cat((a, b * s + t), 1), log + s.log().sum((1, 2, 3))
    model, x = nn.ModuleList(Step(c) for c in (12, 48) for _ in range(8)).to(DEVICE), noise(64, 3, 32, 32)

    def loss():
        h, log = x, 0.0
        for i, step in enumerate(model):
            if i % 8 == 0:
                h = F.pixel_unshuffle(h, 2)
            h, more = step(h)
            log = log + more
        return (0.5 * h.square().sum((1, 2, 3)) - log).mean() / 3072
    return step_of(model, loss, dtype=None)


# --- Images, volumes, sound ---

@study
def contrast():
    """SimCLR: two views of each image, cut and turned on the GPU, and every other image as a contrast."""
    net = torchvision.models.resnet18(num_classes=128).to(DEVICE, memory_format=torch.channels_last)
    images = torch.rand(192, 3, 128, 128, device=DEVICE)

    def view():
        angle, zoom, shift = (torch.rand(192, device=DEVICE) for _ in range(3))
        cos, sin = (angle - 0.5).cos() * (0.5 + 0.5 * zoom), (angle - 0.5).sin()
        theta = torch.stack((torch.stack((cos, -sin, shift - 0.5), 1), torch.stack((sin, cos, 0.5 - shift), 1)), 1)
        x = F.grid_sample(images, F.affine_grid(theta, images.shape, align_corners=False), align_corners=False)
        gray = x.mean(1, keepdim=True)
        x = torch.where((torch.rand(192, 1, 1, 1, device=DEVICE) < 0.2), gray.expand_as(x), x * (0.6 + 0.8 * torch.rand(192, 1, 1, 1, device=DEVICE)))
        return torch.where(torch.rand(192, 1, 1, 1, device=DEVICE) < 0.5, x, x.flip(-1)).contiguous(memory_format=torch.channels_last)

    def loss():
        z = F.normalize(torch.cat((net(view()), net(view()))).float(), dim=1)
        likeness = (z @ z.t() / 0.5).masked_fill(torch.eye(384, dtype=torch.bool, device=DEVICE), -1e9)
        return F.cross_entropy(likeness, torch.arange(384, device=DEVICE).roll(192))
    return step_of(net, loss, torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4), clip=False)


@study
def diffusion_transformer():
    """DiT: patches of latents, each layer scaled and shifted by the time; averaged weights beside."""
    class Layer(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.block, self.say = Block(width, heads, F.scaled_dot_product_attention), nn.Linear(width, 6 * width)
            self.norms = nn.ModuleList(nn.LayerNorm(width, elementwise_affine=False) for _ in range(2))

        def forward(self, x, c):
            a, b, g, d, e, h = self.say(F.silu(c))[:, None].chunk(6, -1)
            y = self.norms[0](x) * (1 + a) + b
            q, k, v = (p.unflatten(-1, (self.block.heads, -1)).transpose(1, 2) for p in self.block.qkv(y).chunk(3, -1))
            x = x + g * self.block.out(self.block.attend(q, k, v).transpose(1, 2).flatten(2))
            return x + h * self.block.mlp(self.norms[1](x) * (1 + d) + e)

    class Model(nn.Module):
        def __init__(self, width=768):
            super().__init__()
            self.patch, self.time, self.label = nn.Conv2d(4, width, 2, 2), nn.Sequential(nn.Linear(256, width), nn.SiLU(), nn.Linear(width, width)), nn.Embedding(1001, width)
            self.layers, self.out = nn.ModuleList(Layer(width, 12) for _ in range(12)), nn.Linear(width, 16)
            self.place = nn.Parameter(torch.zeros(1, 256, width))

        def forward(self, x, t, label):
            wave = t[:, None] * torch.exp(-torch.arange(128, device=x.device) / 14)
            c = self.time(torch.cat((wave.sin(), wave.cos()), 1)) + self.label(label)
            h = self.patch(x).flatten(2).transpose(1, 2) + self.place
            for layer in self.layers:
                h = layer(h, c)
            return F.pixel_shuffle(self.out(h).transpose(1, 2).unflatten(2, (16, 16)), 2)
    model, x, label = Model().to(DEVICE), noise(32, 4, 32, 32), ids(32, below=1000)
    average = [p.detach().clone() for p in model.parameters()]
    inner = step_of(model, lambda: loss())

    def loss():
        t, e = torch.rand(32, device=DEVICE), torch.randn_like(x)
        mixed = (1 - t.view(-1, 1, 1, 1)) * x + t.view(-1, 1, 1, 1) * e
        return F.mse_loss(model(mixed, t * 1000, label), e - x)

    def step():
        inner()
        with torch.no_grad():
            torch._foreach_lerp_(average, list(model.parameters()), 0.001)
    return step


@study
def vocoder():
    """HiFi-GAN: a generator of transposed convolutions against two discriminators, by features and a spectrogram."""
    class Residual(nn.Module):
        def __init__(self, c, k):
            super().__init__()
            self.convs = nn.ModuleList(weight_norm(nn.Conv1d(c, c, k, padding=d * (k - 1) // 2, dilation=d)) for d in (1, 3, 5))

        def forward(self, x):
            for conv in self.convs:
                x = x + conv(F.leaky_relu(x, 0.1))
            return x
    generator = nn.Sequential(weight_norm(nn.Conv1d(80, 256, 7, padding=3)),
                              *(m for i, (up, c) in enumerate(((8, 256), (8, 128), (2, 64), (2, 32)))
                                for m in (nn.LeakyReLU(0.1), weight_norm(nn.ConvTranspose1d(c, c // 2, 2 * up, up, up // 2)), Residual(c // 2, 3), Residual(c // 2, 7))),
                              nn.LeakyReLU(0.1), weight_norm(nn.Conv1d(16, 1, 7, padding=3)), nn.Tanh()).to(DEVICE)
    scale = nn.Sequential(*(m for a, b, k, s, g in ((1, 64, 15, 1, 1), (64, 128, 41, 4, 4), (128, 256, 41, 4, 16), (256, 512, 41, 4, 16), (512, 512, 5, 1, 1))
                            for m in (spectral_norm(nn.Conv1d(a, b, k, s, k // 2, groups=g)), nn.LeakyReLU(0.1))), nn.Conv1d(512, 1, 3, padding=1)).to(DEVICE)
    period = nn.Sequential(*(m for a, b in ((1, 32), (32, 128), (128, 512)) for m in (nn.Conv2d(a, b, (5, 1), (3, 1), (2, 0)), nn.LeakyReLU(0.1))), nn.Conv2d(512, 1, (3, 1), padding=(1, 0))).to(DEVICE)
    judge = lambda y: (scale(y), period(y[..., :y.shape[-1] // 5 * 5].unflatten(-1, (-1, 5))))
    mel, sound, window = noise(16, 80, 32), noise(16, 1, 8192), torch.hann_window(1024, device=DEVICE)
    ours, theirs = torch.optim.AdamW(generator.parameters(), lr=2e-4), torch.optim.AdamW([*scale.parameters(), *period.parameters()], lr=2e-4)
    spectrum = lambda y: torch.stft(y.squeeze(1), 1024, 256, window=window, return_complex=True).abs()

    def step():
        fake = generator(mel)
        theirs.zero_grad()
        sum((1 - r).square().mean() + f.square().mean() for r, f in zip(judge(sound), judge(fake.detach()))).backward()
        theirs.step()
        ours.zero_grad()
        (sum((1 - f).square().mean() for f in judge(fake)) + 45 * F.l1_loss(spectrum(fake), spectrum(sound))).backward()
        ours.step()
    return step


@study
def volume_segmentation():
    """A UNet of three dimensions with instance norms, in float16 with a scaler, and Dice's loss."""
    class Pair(nn.Sequential):
        def __init__(self, a, b, stride=1):
            super().__init__(*(m for i in range(2) for m in (nn.Conv3d(b if i else a, b, 3, 1 if i else stride, 1), nn.InstanceNorm3d(b, affine=True), nn.LeakyReLU(inplace=True))))

    class Model(nn.Module):
        def __init__(self, widths=(32, 64, 128, 256)):
            super().__init__()
            self.down = nn.ModuleList(Pair(a, b, 1 if a == 1 else 2) for a, b in zip((1, *widths), widths))
            self.up = nn.ModuleList(nn.ConvTranspose3d(b, a, 2, 2) for a, b in zip(widths, widths[1:]))
            self.join = nn.ModuleList(Pair(2 * a, a) for a in widths[:-1])
            self.head = nn.Conv3d(32, 4, 1)

        def forward(self, x):
            kept = []
            for pair in self.down:
                x = pair(x)
                kept.append(x)
            for up, join, beside in zip(reversed(self.up), reversed(self.join), reversed(kept[:-1])):
                x = join(torch.cat((up(x), beside), 1))
            return self.head(x)
    model, x, labels = Model().to(DEVICE), noise(2, 1, 96, 96, 96), ids(2, 96, 96, 96, below=4)
    optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.99, nesterov=True), torch.amp.GradScaler("cuda")
    wanted = F.one_hot(labels, 4).permute(0, 4, 1, 2, 3).float()

    def step():
        with torch.autocast("cuda", dtype=torch.float16):
            said = model(x)
            chance = said.float().softmax(1)
            both = (chance * wanted).sum((2, 3, 4))
            loss = F.cross_entropy(said, labels) + 1 - (2 * both / (chance.sum((2, 3, 4)) + wanted.sum((2, 3, 4)) + 1e-5)).mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 12.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    return step


@study
def quantisation_aware():
    """A ResNet whose weights and activations are rounded to eight bits, and learn so."""
    net = torchvision.models.resnet18(num_classes=100).to(DEVICE)

    class Rounded(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner, self.scale = inner, nn.Parameter(torch.tensor(0.05))
            self.register_buffer("zero", torch.zeros(inner.out_channels, dtype=torch.int32))
            self.register_buffer("none", torch.zeros(1, dtype=torch.int32))

        def forward(self, x):
            w = self.inner.weight
            scale = w.detach().abs().amax((1, 2, 3)) / 127 + 1e-8
            w = torch.fake_quantize_per_channel_affine(w, scale, self.zero, 0, -128, 127)
            x = torch._fake_quantize_learnable_per_tensor_affine(x, self.scale.view(1), self.none.float(), 0, 255, 1.0)
            return F.conv2d(x, w, None, self.inner.stride, self.inner.padding)

    def replace(module):
        for name, child in module.named_children():
            if isinstance(child, nn.Conv2d):
                setattr(module, name, Rounded(child).to(DEVICE))
            else:
                replace(child)
    replace(net)
    x, labels = noise(64, 3, 128, 128), ids(64, below=100)
    return step_of(net, lambda: F.cross_entropy(net(x), labels), torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9), clip=False, dtype=None)


@study
def style_transfer():
    """A small network of instance norms learns by what VGG sees: features and Gram matrices."""
    vgg = torchvision.models.vgg16().features[:23].to(DEVICE).eval().requires_grad_(False)
    conv = lambda a, b, k, s=1: nn.Sequential(nn.ReflectionPad2d(k // 2), nn.Conv2d(a, b, k, s), nn.InstanceNorm2d(b, affine=True), nn.ReLU())
    up = lambda a, b: nn.Sequential(nn.Upsample(scale_factor=2, mode="nearest"), conv(a, b, 3))
    net = nn.Sequential(conv(3, 32, 9), conv(32, 64, 3, 2), conv(64, 128, 3, 2), *(conv(128, 128, 3) for _ in range(5)), up(128, 64), up(64, 32),
                        nn.ReflectionPad2d(4), nn.Conv2d(32, 3, 9)).to(DEVICE)
    x, style = noise(8, 3, 256, 256), noise(1, 3, 256, 256)

    def seen(y):
        kept = []
        for i, layer in enumerate(vgg):
            y = layer(y)
            if i in (3, 8, 15, 22):
                kept.append(y)
        return kept

    def gram(y):
        flat = y.flatten(2)
        return flat @ flat.mT / flat[0].numel()
    with torch.no_grad():
        wanted = [gram(y) for y in seen(style)]

    def loss():
        y = net(x)
        ours, theirs = seen(y), seen(x)
        return F.mse_loss(ours[1], theirs[1]) + 1e5 * sum(F.mse_loss(gram(a), b.expand(8, -1, -1)) for a, b in zip(ours, wanted)) + \
            1e-6 * ((y[..., 1:] - y[..., :-1]).abs().sum() + (y[..., 1:, :] - y[..., :-1, :]).abs().sum())
    return step_of(net, loss, dtype=None)


if __name__ == "__main__":
    zoo.main(STEPS, lambda name: STEPS[name](), __doc__)
