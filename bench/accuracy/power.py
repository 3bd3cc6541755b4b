"""How much longer products take when the GPU is hot: their time against the share of time that they fill,
the rest being copies in device memory ("copy") or idling ("idle"). One JSON line per case.

    python3 power.py > h200_power.jsonl        # about 60 s on a real GPU
"""
import json
import subprocess
import time

import torch


def smi():
    query = "--query-gpu=clocks.sm,power.draw"
    try:
        out = subprocess.run(["nvidia-smi", query, "--format=csv,noheader,nounits"], capture_output=True, text=True, timeout=5)
        return [float(x) for x in out.stdout.strip().split(",")]
    except Exception as error:
        return str(error)


def bf16(m, n, k):
    a = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(n, k, device="cuda", dtype=torch.bfloat16)
    c = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    return lambda: torch.matmul(a, b.t(), out=c)


def tf32():
    torch.backends.cuda.matmul.allow_tf32 = True
    a, b = torch.randn(8192, 4096, device="cuda"), torch.randn(4096, 4096, device="cuda")
    c = torch.empty(8192, 4096, device="cuda")
    return lambda: torch.matmul(a, b, out=c)


def attention():
    q, k, v = (torch.randn(4, 32, 4096, 128, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    return lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def convolution():
    torch.backends.cudnn.benchmark = True
    x = torch.randn(128, 256, 56, 56, device="cuda", dtype=torch.bfloat16).to(memory_format=torch.channels_last)
    w = torch.randn(256, 256, 3, 3, device="cuda", dtype=torch.bfloat16).to(memory_format=torch.channels_last)
    return lambda: torch.nn.functional.conv2d(x, w, padding=1)


source = torch.randn(256 << 20, device="cuda")
target = torch.empty_like(source)


def once(work, count):
    start, end = torch.cuda.Event(True), torch.cuda.Event(True)
    start.record()
    for _ in range(count):
        work()
    end.record()
    return start, end


def copy_for(us):
    # 1 GiB each way takes about 520 us; a part of that for less.
    n = max(1, min(int(us / 520 * source.numel()), source.numel()))
    target[:n].copy_(source[:n])


def case(name, work, share, filler, seconds=1.5):
    torch.cuda.synchronize()
    time.sleep(0.7)
    work()
    s, e = once(work, 5)
    e.synchronize()
    burst = s.elapsed_time(e) / 5 * 1e3
    run = max(1, int(2000 / burst))            # about 2 ms of products at a time
    rest = run * burst * (1 - share) / share   # us of the filler after them
    spans, clocks, began = [], [], time.perf_counter()
    while time.perf_counter() - began < seconds:
        for _ in range(10):
            spans.append(once(work, run))
            if share < 1:
                if filler == "copy":
                    left = rest
                    while left > 20:
                        copy_for(min(left, 520))
                        left -= 520
                else:
                    torch.cuda._sleep(int(rest * 1500))
        spans[-1][1].synchronize()
    clocks.append(smi())
    torch.cuda.synchronize()
    times = [s.elapsed_time(e) / run * 1e3 for s, e in spans]
    whole = spans[0][0].elapsed_time(spans[-1][1]) * 1e3
    tenth = [round(sum(times[i * len(times) // 10:(i + 1) * len(times) // 10]) / max(1, len(times) // 10), 2) for i in range(10)]
    print(json.dumps({"work": name, "share": share, "filler": filler, "burst_us": round(burst, 2), "tenths_us": tenth,
                      "hot_share": round(sum(times) * run / whole, 3), "clock_mhz_and_watts": clocks,
                      "gpu": torch.cuda.get_device_name(), "torch": torch.__version__}), flush=True)


big = bf16(8192, 8192, 4096)
for share in (1.0, 0.85, 0.7, 0.55, 0.4, 0.25):
    for filler in ("copy", "idle") if share < 1 else ("none",):
        case("bf16 8192x8192x4096", big, share, filler)
case("copies alone", lambda: copy_for(520), 1.0, "none")
del big
for name, make in (("bf16 2048x2048x2048", lambda: bf16(2048, 2048, 2048)), ("bf16 4096x768x768", lambda: bf16(4096, 768, 768)),
                   ("bf16 4096x3072x768", lambda: bf16(4096, 3072, 768)),
                   ("tf32 8192x4096x4096", tf32), ("attention 4x32x4096x128", attention), ("convolution 256x56x56", convolution)):
    work = make()
    for share in (1.0, 0.7):
        case(name, work, share, "copy")
    del work
    torch.cuda.empty_cache()
