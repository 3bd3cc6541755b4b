"""Launch rate of blocks: kernels that do nothing, and that load twice one after the other."""
import sys; sys.path.insert(0,'bench/accuracy')
import torch, triton, triton.language as tl
from graph_times import tell
@triton.jit
def empty(x, n):
    if tl.program_id(0) >= n:
        tl.store(x, 1.0)
@triton.jit
def one(x, y, W: tl.constexpr):
    i=tl.program_id(0)*W+tl.arange(0,W)
    tl.store(y+i, tl.load(x+i))
@triton.jit
def chain(b, x, y, W: tl.constexpr):
    i=tl.load(b+tl.program_id(0))
    tl.store(y+tl.program_id(0)*W+tl.arange(0,W), tl.load(x+i*W+tl.arange(0,W)))
@triton.jit
def shared(x, y, W: tl.constexpr):
    i=tl.program_id(0)*W+tl.arange(0,W)
    tl.store(y+tl.program_id(0), tl.sum(tl.load(x+i),0))
x=torch.zeros(1<<25,device="cuda"); y=torch.zeros(1<<25,device="cuda")
for w in (1,2,4,8,16,32):
    for g in (1024,4096,16384,65536,262144):
        tell(f"empty {g} blocks of {w} warps", lambda: empty[(g,)](x,1<<30,num_warps=w))
for w in (1,4):
    for g in (1024,4096,16384,65536):
        tell(f"copy {g} blocks of {w} warps", lambda: one[(g,)](x,y,W=32*w,num_warps=w))
        b=torch.randperm(g,device="cuda").to(torch.int32)
        tell(f"chain {g} blocks of {w} warps", lambda: chain[(g,)](b,x,y,W=32*w,num_warps=w))
        tell(f"sum {g} blocks of {w} warps", lambda: shared[(g,)](x,y,W=32*w,num_warps=w))
