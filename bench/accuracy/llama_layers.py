"""Layers of Llama 3 8B in training (batch 1 x 8192, bf16) on one GPU, real or simulated: step times, and
of a real one clock and power. Run by itself or under `phantora run --cluster h200:1x1 --host-time off`."""
import argparse, json, subprocess, time
import torch
import torch.nn as nn
import torch.nn.functional as F

a = argparse.ArgumentParser()
a.add_argument("--layers", type=int, default=8)
a.add_argument("--steps", type=int, default=12)
a.add_argument("--compile", action="store_true")
a.add_argument("--checkpoint", action="store_true")
a = a.parse_args()
D, H, KV, FF, V, S = 4096, 32, 8, 14336, 128256, 8192


def freqs():
    f = 1.0 / (500000 ** (torch.arange(0, 128, 2).float() / 128))
    t = torch.outer(torch.arange(S).float(), f)
    return torch.polar(torch.ones_like(t), t)


def rope(x, f):
    y = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(y * f[None, :, None, :]).flatten(3).type_as(x)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.RMSNorm(D, eps=1e-5), nn.RMSNorm(D, eps=1e-5)
        self.q = nn.Linear(D, D, bias=False)
        self.k = nn.Linear(D, KV * 128, bias=False)
        self.v = nn.Linear(D, KV * 128, bias=False)
        self.o = nn.Linear(D, D, bias=False)
        self.w1 = nn.Linear(D, FF, bias=False)
        self.w3 = nn.Linear(D, FF, bias=False)
        self.w2 = nn.Linear(FF, D, bias=False)

    def forward(self, x, f):
        b, s, _ = x.shape
        y = self.n1(x)
        q, k, v = self.q(y).view(b, s, H, 128), self.k(y).view(b, s, KV, 128), self.v(y).view(b, s, KV, 128)
        q, k = rope(q, f), rope(k, f)
        k = k[:, :, :, None, :].expand(b, s, KV, H // KV, 128).reshape(b, s, H, 128)
        v = v[:, :, :, None, :].expand(b, s, KV, H // KV, 128).reshape(b, s, H, 128)
        z = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True)
        x = x + self.o(z.transpose(1, 2).contiguous().view(b, s, -1))
        y = self.n2(x)
        return x + self.w2(F.silu(self.w1(y)) * self.w3(y))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(V, D)
        self.layers = nn.ModuleList([Layer() for _ in range(a.layers)])
        self.n = nn.RMSNorm(D, eps=1e-5)
        self.head = nn.Linear(D, V, bias=False)
        self.register_buffer("f", torch.view_as_real(freqs()), persistent=False)

    def forward(self, t):
        x = self.e(t)
        f = torch.view_as_complex(self.f)
        for layer in self.layers:
            if a.checkpoint:
                x = torch.utils.checkpoint.checkpoint(layer, x, f, use_reentrant=False)
            else:
                x = layer(x, f)
        return self.head(self.n(x))


torch.manual_seed(1)
torch.set_default_device("cuda")
m = Model()
for name, p in m.named_parameters():
    p.data = p.data.bfloat16()
for p in m.parameters():
    if p.dim() > 1:
        nn.init.normal_(p, std=0.02)
if a.compile:
    for i in range(a.layers):
        m.layers[i] = torch.compile(m.layers[i])
opt = torch.optim.AdamW(m.parameters(), lr=1e-4, fused=True)
tokens = torch.randint(0, V, (1, S + 1))
times, clocks = [], []


def smi():
    try:
        o = subprocess.run(["nvidia-smi", "--query-gpu=clocks.sm,power.draw,temperature.gpu,clocks_event_reasons.active",
                            "--format=csv,noheader"], capture_output=True, text=True, timeout=5).stdout.strip()
        return o
    except Exception as e:
        return str(e)


for i in range(a.steps):
    torch.cuda.synchronize()
    t = time.perf_counter()
    logits = m(tokens[:, :-1])
    loss = F.cross_entropy(logits.float().view(-1, V), tokens[:, 1:].reshape(-1))
    del logits
    loss.backward()
    opt.step()
    opt.zero_grad(set_to_none=True)
    if i == a.steps - 2:
        clocks.append(smi())
    torch.cuda.synchronize()
    times.append(round((time.perf_counter() - t) * 1e3, 3))
rest = sorted(times[3:])
print(json.dumps({"layers": a.layers, "compile": a.compile, "checkpoint": a.checkpoint, "torch": torch.__version__,
                  "step_ms": rest[len(rest) // 2], "min": rest[0], "max": rest[-1], "first": times[:3], "smi": clocks,
                  "peak": torch.cuda.max_memory_allocated()}), flush=True)
