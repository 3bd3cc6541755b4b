"""What lies beside the tensors that an operation writes stays known.

PyTorch's allocator puts tensors side by side. Known ones, the canaries, stand behind holes of many sizes, into which
operations then put their results and workspaces; an operation that is taken to write more than it does loses a canary.
A mask that is lost so silently leads a program another way: generation that keeps masks in each step, a backward pass that
selects more than the forward pass. Prints a summary; the exit status is 1 if any canary was lost.
"""
import sys

import torch
import torch.nn.functional as F

from known_memory import known_bytes

KIB, MIB = 1 << 10, 1 << 20
lost = []
operations = 0
# What is added up at places that nobody knows may lie anywhere behind the first (grid_sample's gradient, too, which is read by
# its machine code as reflection_pad2d's), and of the latter's the last places are not followed: what is lost there is no more than this.
MAY_LOSE = ("index_put accumulated 10 x 4", "embedding 10 x 4", "embedding_bag 10 x 4", "index's gradient 10 x 4", "pad ", "grid",
            # What PyTorch 2.15 has for channels last nobody has named yet.
            *(f"group norm torch.{dtype} torch.channels_last" for dtype in ("float32", "bfloat16", "float16")))


def allocate(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def canaries():
    """Of both of the allocator's pools, blocks of up to 1 MiB and larger ones; holes are freed when all stand."""
    holes, kept = [], []
    for size in (512, KIB, 2 * KIB, 4 * KIB, 8 * KIB, 16 * KIB, 64 * KIB, 256 * KIB):
        for _ in range(8):
            holes.append(allocate(size))
            kept.append(allocate(512))
    for size in (2 * MIB, 4 * MIB, 8 * MIB):
        for _ in range(4):
            holes.append(allocate(size))
            kept.append(allocate(MIB + 512))
    return kept


CANARIES = canaries()


def check(name, function):
    global operations
    for canary in CANARIES:
        canary.fill_(7)
    torch.cuda.synchronize()
    try:
        function()
    except (RuntimeError, NotImplementedError) as error:
        lost.append(name)
        print("failed:", name, error, file=sys.stderr)
        return
    torch.cuda.synchronize()
    operations += 1
    for canary in CANARIES:
        if not name.startswith(MAY_LOSE) and not known_bytes(canary.data_ptr(), canary.numel()):
            lost.append(name)
            print("lost:", name, "a canary of", canary.numel(), file=sys.stderr)
            return


def of(shape, dtype=torch.float32, known=False):
    """Values that are known, or, if they are few enough to be, not."""
    count = torch.Size(shape).numel()
    if not known and count <= 65536:
        return SOURCE[dtype][:count].clone().reshape(shape)
    is_number = dtype.is_floating_point
    return (torch.randn(shape) if is_number else torch.randint(0, 2 if dtype == torch.bool else 8, shape)).to("cuda", dtype)


# Large tensors are not computed.
SOURCE = {dtype: (torch.randn(MIB, device="cuda") * 3).abs().to(dtype)
          for dtype in (torch.bool, torch.uint8, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64)}
SHAPES = [(7,), (8, 114), (8, 4000), (300, 700), (3, 50, 40), (2000, 2000)]


def is_defined(f, dtype):
    if f in (torch.mean, torch.var, torch.std_mean, torch.logsumexp, torch.linalg.vector_norm):
        return dtype.is_floating_point
    return dtype != torch.bool or f not in (torch.aminmax, torch.prod, torch.argmax)


def reductions():
    by_dimensions = (torch.sum, torch.any, torch.all, torch.amax, torch.argmax, torch.mean, torch.var, torch.std_mean, torch.prod,
                     torch.count_nonzero, torch.logsumexp, torch.linalg.vector_norm)
    whole = (torch.sum, torch.any, torch.all, torch.amax, torch.argmax, torch.mean, torch.var, torch.prod, torch.aminmax, torch.linalg.vector_norm)
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.bool):
        for shape in SHAPES:
            for known in (False, True):
                x, name = of(shape, dtype, known), f"{dtype} {shape} {known}"
                for f in by_dimensions:
                    for dim in {0, len(shape) - 1} if is_defined(f, dtype) else ():
                        check(f"{f.__name__} {dim} {name}", lambda: f(x, dim=dim))
                for f in whole:
                    if is_defined(f, dtype):
                        check(f"{f.__name__} {name}", lambda: f(x))


def orders():
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.bool):
        for shape in SHAPES:
            for known in (False, True):
                x, mask = of(shape, dtype, known), of(shape, torch.bool, known)
                name = f"{dtype} {shape} {known}"
                check(f"sort {name}", lambda: x.sort(-1))
                check(f"argsort stable {name}", lambda: x.argsort(dim=0, stable=True))
                check(f"unique {name}", lambda: x.unique(return_inverse=True, return_counts=True))
                check(f"nonzero {name}", lambda: x.nonzero())
                check(f"masked_select {name}", lambda: x.masked_select(mask))
                check(f"masked_scatter {name}", lambda: torch.zeros_like(x).masked_scatter(mask, x))
                check(f"masked_fill {name}", lambda: x.masked_fill(mask, 1))
                check(f"index by mask {name}", lambda: x[mask])
                check(f"put by mask {name}", lambda: x.clone().__setitem__(mask, 1))
                check(f"cumsum {name}", lambda: x.cumsum(-1))
                check(f"flip and roll {name}", lambda: x.flip(0).roll(1, 0))
                if dtype != torch.bool:
                    check(f"topk {name}", lambda: x.topk(2, -1))
                    check(f"cummax {name}", lambda: x.cummax(-1))
                    check(f"kthvalue {name}", lambda: x.kthvalue(2, -1))
                    check(f"median {name}", lambda: x.median(-1))
                if dtype == torch.int64:
                    check(f"bincount {name}", lambda: x.flatten().abs().bincount(minlength=8))
                    check(f"one_hot {name}", lambda: F.one_hot(x.remainder(8), 8))
                    check(f"isin {name}", lambda: torch.isin(x, torch.arange(40, device="cuda")))
                if dtype == torch.float32:
                    check(f"histc {name}", lambda: x.histc(10))
                    check(f"softmax {name}", lambda: x.softmax(-1).log_softmax(0))
                    if len(shape) == 2:
                        check(f"multinomial {name}", lambda: x.softmax(-1).multinomial(1))
    for count in (10, 3000, 100_000, 2_000_000):
        check(f"randperm {count}", lambda: torch.randperm(count, device="cuda"))
        check(f"arange {count}", lambda: torch.arange(count, device="cuda").float())
        check(f"bernoulli {count}", lambda: torch.empty(count, device="cuda").bernoulli_(0.3))


def indices():
    for rows, width in ((10, 4), (3000, 33), (40000, 64)):
        x, index = of((rows, width)), of((500,), torch.int64, True).remainder(rows)
        wide = index[:, None].expand(-1, width)
        values = of((500, width))
        name = f"{rows} x {width}"
        check(f"index {name}", lambda: x[index])
        check(f"index_select {name}", lambda: x.index_select(0, index))
        check(f"gather {name}", lambda: x.gather(0, wide))
        check(f"scatter_add {name}", lambda: x.clone().scatter_add_(0, wide, values))
        check(f"scatter_reduce {name}", lambda: x.clone().scatter_reduce_(0, wide, values, "amax"))
        check(f"index_add {name}", lambda: x.clone().index_add_(0, index, values))
        check(f"index_put {name}", lambda: x.clone().index_put_((index,), values))
        check(f"index_put accumulated {name}", lambda: x.clone().index_put_((index,), values, accumulate=True))
        check(f"index_copy {name}", lambda: x.clone().index_copy_(0, index, values))
        check(f"take {name}", lambda: x.take(index))
        table = x.clone().requires_grad_()
        check(f"embedding {name}", lambda: F.embedding(index, table).sum().backward())
        check(f"embedding_bag {name}", lambda: F.embedding_bag(index.view(50, 10), table).sum().backward())
        check(f"index's gradient {name}", lambda: table[index].sum().backward())
        check(f"searchsorted {name}", lambda: torch.searchsorted(of((100,), known=True).sort().values, x))
        check(f"concatenation {name}", lambda: torch.cat([x, x[:3], x]).split(7))
        check(f"triangle {name}", lambda: x.tril())
        check(f"repeat {name}", lambda: x.repeat(2, 3).repeat_interleave(2, 0))


def layers():
    images = of((4, 16, 30, 30)).requires_grad_()
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        for layout in (torch.contiguous_format, torch.channels_last):
            x = images.detach().to(dtype, memory_format=layout).requires_grad_()
            made = {
                "convolution": torch.nn.Conv2d(16, 24, 3, padding=1), "depthwise": torch.nn.Conv2d(16, 16, 3, groups=16),
                "transposed": torch.nn.ConvTranspose2d(16, 8, 2, 2), "batch norm": torch.nn.BatchNorm2d(16), "group norm": torch.nn.GroupNorm(4, 16),
                "instance norm": torch.nn.InstanceNorm2d(16), "max pool": torch.nn.MaxPool2d(2), "average pool": torch.nn.AvgPool2d(3, 2),
                "adaptive pool": torch.nn.AdaptiveAvgPool2d(5), "bilinear": torch.nn.Upsample(scale_factor=2, mode="bilinear"),
                "nearest": torch.nn.Upsample(scale_factor=2), "dropout": torch.nn.Dropout2d(), "pad": torch.nn.ReflectionPad2d(2),
                "shuffle": torch.nn.PixelShuffle(2), "gelu": torch.nn.GELU(), "softmax": torch.nn.Softmax2d(), "unfold": torch.nn.Unfold(3),
            }
            for name, module in made.items():
                module.to("cuda", dtype)
                check(f"{name} {dtype} {layout}", lambda: module(x).sum().backward())
        tokens = of((4, 50, 64)).to(dtype).requires_grad_()
        mask = of((4, 1, 50, 50), torch.bool, True)
        heads = tokens.view(4, 50, 4, 16).transpose(1, 2)
        for name, module in {"linear": torch.nn.Linear(64, 100), "layer norm": torch.nn.LayerNorm(64), "rms norm": torch.nn.RMSNorm(64),
                             "dropout": torch.nn.Dropout(0.1), "glu": torch.nn.GLU()}.items():
            module.to("cuda", dtype)
            check(f"{name} {dtype}", lambda: module(tokens).sum().backward())
        check(f"attention {dtype}", lambda: F.scaled_dot_product_attention(heads, heads, heads).sum().backward())
        check(f"causal attention {dtype}", lambda: F.scaled_dot_product_attention(heads, heads, heads, is_causal=True).sum().backward())
        check(f"masked attention {dtype}", lambda: F.scaled_dot_product_attention(heads, heads, heads, mask).sum().backward())
        check(f"products {dtype}", lambda: (torch.bmm(tokens, tokens.transpose(1, 2)) @ tokens, torch.einsum("bij,bkj->bik", tokens, tokens)))
        classes = of((200,), torch.int64, True).remainder(50)
        check(f"cross entropy {dtype}", lambda: F.cross_entropy(tokens.view(200, 64), classes, label_smoothing=0.1).backward())
        check(f"mse {dtype}", lambda: F.mse_loss(tokens, tokens.detach()).backward())
    for name, module in {"lstm": torch.nn.LSTM(64, 32, 2, batch_first=True), "gru": torch.nn.GRU(64, 32), "rnn": torch.nn.RNN(64, 32)}.items():
        module.cuda()
        check(name, lambda: module(tokens.float())[0].sum().backward())
    check("volume", lambda: F.conv3d(of((1, 4, 9, 9, 9)), torch.nn.Parameter(of((8, 4, 3, 3, 3)))).sum().backward())
    check("fourier", lambda: torch.fft.rfft(of((64, 256))).abs().sum())
    check("cdist", lambda: torch.cdist(of((40, 8)), of((50, 8))))
    check("solve", lambda: torch.linalg.solve(torch.eye(16, device="cuda") + of((16, 16)), of((16, 4))))
    check("svd", lambda: torch.linalg.svd(of((32, 16))))
    check("cholesky", lambda: torch.linalg.cholesky(torch.eye(16, device="cuda")))
    check("ctc", lambda: F.ctc_loss(of((50, 4, 20)).log_softmax(2).requires_grad_(), torch.randint(1, 20, (4, 10)).cuda(), torch.full((4,), 50), torch.full((4,), 10)))
    check("grid", lambda: F.grid_sample(of((2, 3, 20, 20)).requires_grad_(), of((2, 8, 8, 2))).sum().backward())


def optimizers():
    for kind, settings in ((torch.optim.SGD, dict(momentum=0.9)), (torch.optim.Adam, {}), (torch.optim.AdamW, dict(fused=True)),
                           (torch.optim.AdamW, dict(foreach=False)), (torch.optim.Adagrad, {}), (torch.optim.RMSprop, {}), (torch.optim.Adadelta, {})):
        parameters = [torch.nn.Parameter(of(shape)) for shape in ((5,), (64, 33), (700, 500))]
        optimizer = kind(parameters, lr=0.1, **settings)
        for parameter in parameters:
            parameter.grad = of(parameter.shape)

        def step():
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
        check(f"{kind.__name__} {settings}, its first step", step)
        check(f"{kind.__name__} {settings}", step)
    scaler = torch.amp.GradScaler()
    parameter = torch.nn.Parameter(of((300, 300)))
    optimizer = torch.optim.SGD([parameter], lr=0.1)

    def scaled():
        scaler.scale(parameter.sum()).backward()
        scaler.step(optimizer)
        scaler.update()
    check("scaler", scaled)


for part in (reductions, orders, indices, layers, optimizers):
    part()
print(f"{operations} operations, {len(lost)} wrong")
sys.exit(1 if lost or operations < 1000 else 0)
