"""FSDP2's copies of small tensors give what the CPU gives."""
import torch

def tensors(dtype):
    return [torch.arange(6 * n, dtype=torch.float32).reshape(6, n).to(dtype) for n in (3, 1, 5)]

for source, result in ((torch.float32, torch.float32), (torch.bfloat16, torch.float32),
                       (torch.int64, torch.int64)):
    for dim in (0, 1):
        on_cpu = tensors(source)
        padded = torch._chunk_cat(on_cpu, dim, 4).to(result)
        out = torch.empty(padded.shape, dtype=result, device="cuda")
        torch._chunk_cat([t.cuda() for t in on_cpu], dim, 4, out=out)
        assert torch.equal(out.cpu(), padded), (source, dim)

whole = torch.arange(4 * 10.).reshape(4, 10)
for dim, sizes in ((1, [3, 2, 5]), (0, [1, 3])):
    parts = whole.split_with_sizes(sizes, dim)
    out = [torch.empty(p.shape, device="cuda") for p in parts]
    torch.split_with_sizes_copy(whole.cuda(), sizes, dim, out=out)
    for part, o in zip(parts, out):
        assert torch.equal(o.cpu(), part), (dim, sizes)
print("all as on the CPU")
