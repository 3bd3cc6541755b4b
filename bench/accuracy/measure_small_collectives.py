"""Times NCCL operations inside CUDA graphs, on the GPU alone; rank 0 writes a JSON line per point.

    torchrun --nproc-per-node 4 bench/accuracy/measure_small_collectives.py OUT.jsonl

Rows are those of h200_collectives.jsonl (`bytes`: the larger buffer of a rank, or one message of an
exchange, or one operation of a group) with more keys: `us_min` and `us_max` of the repeats, `us_all`
(the median of the slowest rank), and `blocks`, the grid of the kernel where the profiler told it.
Back to back, the ranks of a rooted operation run ahead of one another. --fenced puts an all_reduce of
1 KiB between two operations and subtracts its time: what one operation takes that all begin and end
together (rows have `fenced` 1). Variables such as NCCL_PROTO are NCCL's own; --tag names them in each row.
"""
import argparse
import ctypes
import json
import os
import statistics
import sys
import tempfile
import time

KIB, MIB = 1024, 1024 * 1024
OFF_GRID = [1 * KIB, 3 * KIB, 8 * KIB, 12 * KIB, 24 * KIB, 48 * KIB, 96 * KIB, 160 * KIB, 300 * KIB, 500 * KIB,
            700 * KIB, 1 * MIB, 3 * MIB // 2, 2 * MIB, 3 * MIB, 6 * MIB, 12 * MIB, 16 * MIB, 24 * MIB, 40 * MIB]
ALIGN = 128  # of every part, so that no shard is moved element by element
BF16 = 9     # ncclBfloat16
SUM = 0


class Nccl:
    """The entry points of the libnccl that PyTorch has loaded."""

    def __init__(self):
        self.lib = ctypes.CDLL("libnccl.so.2")

    def __getattr__(self, name):
        function = getattr(self.lib, "nccl" + name)

        def call(*arguments):
            status = function(*arguments)
            if status != 0:
                raise RuntimeError(f"nccl{name}: status {status}")
        self.__dict__[name] = call
        return call


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


class Bench:
    def __init__(self, nccl, comm, rank, world, stream, send, recv):
        self.nccl, self.comm, self.rank, self.world = nccl, comm, rank, world
        self.stream, self.send, self.recv = ctypes.c_void_p(stream.cuda_stream), send, recv

    def _put(self, to, at, size):
        self.nccl.Send(ctypes.c_void_p(self.send + at), ctypes.c_size_t(size // 2), BF16, to, self.comm, self.stream)

    def _get(self, source, at, size):
        self.nccl.Recv(ctypes.c_void_p(self.recv + at), ctypes.c_size_t(size // 2), BF16, source, self.comm,
                       self.stream)

    def _group(self, messages):
        """Messages as (from, to, size); a rank without any stays out."""
        mine = [m for m in messages if self.rank in m[:2] and m[2] > 0]
        if not mine:
            return
        self.nccl.GroupStart()
        out = back = 0
        for source, to, size in mine:
            if source == self.rank:
                self._put(to, out, size)
                out += size
            if to == self.rank:
                self._get(source, back, size)
                back += size
        self.nccl.GroupEnd()

    def _one(self, name, size, at=0):
        part = size // self.world
        send, recv = ctypes.c_void_p(self.send + at), ctypes.c_void_p(self.recv + at)
        tail = (self.comm, self.stream)
        count, shard = ctypes.c_size_t(size // 2), ctypes.c_size_t(part // 2)
        if name == "all_reduce":
            self.nccl.AllReduce(send, recv, count, BF16, SUM, *tail)
        elif name == "all_gather":
            self.nccl.AllGather(send, recv, shard, BF16, *tail)
        elif name == "reduce_scatter":
            self.nccl.ReduceScatter(send, recv, shard, BF16, SUM, *tail)
        elif name == "broadcast":
            self.nccl.Broadcast(send, recv, count, BF16, 0, *tail)
        elif name == "reduce":
            self.nccl.Reduce(send, recv, count, BF16, SUM, 0, *tail)

    def fence(self, _=0):
        self._one("all_reduce", 1024)

    def all_reduce(self, size):
        self._one("all_reduce", size)

    def all_gather(self, size):
        self._one("all_gather", size)

    def reduce_scatter(self, size):
        self._one("reduce_scatter", size)

    def broadcast(self, size):
        self._one("broadcast", size)

    def reduce(self, size):
        self._one("reduce", size)

    def _together(self, operations):
        self.nccl.GroupStart()
        at = 0
        for name, size in operations:
            self._one(name, size, at)
            at += size
        self.nccl.GroupEnd()

    def all_reduce_x4(self, size):
        self._together([("all_reduce", size)] * 4)

    def all_gather_x4(self, size):
        self._together([("all_gather", size)] * 4)

    def reduce_scatter_x4(self, size):
        self._together([("reduce_scatter", size)] * 4)

    def mixed_group(self, size):
        self._together([("all_reduce", size), ("all_gather", size)])

    def all_gather_unlike(self, size):
        self._together([("all_gather", times * size) for times in (1, 2, 3, 2, 1)])

    def reduce_scatter_unlike(self, size):
        self._together([("reduce_scatter", times * size) for times in (3, 1, 1, 2)])

    def all_reduce_many(self, size):
        self._together([("all_reduce", max(256, size // 16 // 256 * 256))] * 16)

    def three_kinds(self, size):
        self._together([("all_reduce", size), ("all_gather", size), ("reduce_scatter", size)])

    def sendrecv(self, size):
        self._group([(r, (r + 1) % self.world, size) for r in range(self.world)])

    def one_way(self, size):
        self._group([(0, 1, size)])

    def pair_exchange(self, size):
        self._group([(r, r ^ 1, size) for r in range(self.world // 2 * 2)])

    def neighbours(self, size):
        """To both neighbours, as a halo exchange."""
        self._group([(r, (r + d) % self.world, size) for r in range(self.world) for d in (1, -1)])

    def all_to_all(self, size):
        n = self.world  # its own part too, as torch.distributed does
        self._group([(r, (r + d) % n, size // n) for r in range(n) for d in range(n)])

    def all_to_all_uneven(self, size):
        """Rank d gets d + 1 parts of each: some receive several times what others do."""
        n = self.world
        unit = size // (n * (n + 1) // 2)
        self._group([(r, d, (d + 1) * unit) for r in range(n) for d in range(n)])

    def _unit(self, size):
        return max(ALIGN, size // (8 * self.world) // ALIGN * ALIGN)

    def all_to_all_mixed(self, size):
        """1 to 8 units between any two."""
        n, unit = self.world, self._unit(size)
        self._group([(r, d, (1 + (5 * r + 11 * d + 3 * r * d) % 8) * unit) for r in range(n) for d in range(n)])

    def all_to_all_hot(self, size):
        """Rank 0 gets eight times what others do, as a popular expert."""
        n, unit = self.world, self._unit(size)
        self._group([(r, d, (1 if d else 8) * unit) for r in range(n) for d in range(n)])

    def all_to_all_from_hot(self, size):
        n, unit = self.world, self._unit(size)
        self._group([(r, d, (1 if r else 8) * unit) for r in range(n) for d in range(n)])

    def chain(self, size):
        """A pipeline's stages, each to the next."""
        self._group([(r, r + 1, size) for r in range(self.world - 1)])

    def ring_of_two(self, size):
        """Two messages to the next rank."""
        n = self.world
        self._group([(r, (r + 1) % n, size // part) for r in range(n) for part in (1, 2)])

    def gather(self, size):
        self._group([(r, 0, size // self.world) for r in range(self.world)])

    def scatter(self, size):
        self._group([(0, r, size // self.world) for r in range(self.world)])


OPS = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "sendrecv", "all_to_all", "one_way",
       "pair_exchange", "neighbours", "all_to_all_uneven", "gather", "scatter", "all_reduce_x4", "all_gather_x4",
       "reduce_scatter_x4", "mixed_group"]
HELD_OUT = ["all_gather_unlike", "reduce_scatter_unlike", "all_reduce_many", "three_kinds", "all_to_all_mixed",
            "all_to_all_hot", "all_to_all_from_hot", "chain", "ring_of_two"]


def rounded(op, size, world):
    """Down to whole aligned parts."""
    step = ALIGN * (world * (world + 1) // 2 if op == "all_to_all_uneven" else world)
    return max(size // step * step, step)


def blocks_of(trace, points):
    """The grids of the NCCL kernels behind each marker kernel of a profile."""
    kernels = sorted((e for e in trace["traceEvents"] if e.get("cat") == "kernel"), key=lambda e: e["ts"])
    blocks, at = {}, -1
    for kernel in kernels:
        if "nccl" not in kernel["name"]:
            at += 1
        elif 0 <= at < len(points):
            blocks.setdefault(points[at], []).append(int(kernel["args"]["grid"][0]))
    return blocks


def profile(torch, bench, points, stream, marker):
    from torch.profiler import ProfilerActivity
    with torch.profiler.profile(activities=[ProfilerActivity.CUDA]) as prof:
        with torch.cuda.stream(stream):
            for op, size in points:
                marker.fill_(1.0)
                getattr(bench, op)(size)
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        prof.export_chrome_trace(path)
        with open(path) as file:
            return blocks_of(json.load(file), points)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", help="file to append to")
    parser.add_argument("--ops", default=",".join(OPS))
    parser.add_argument("--sizes", default=",".join(map(str, OFF_GRID)))
    parser.add_argument("--worlds", default="2,4")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--in-graph", type=int, default=20, help="operations per graph")
    parser.add_argument("--budget", type=float, default=200, help="seconds after which no point begins")
    parser.add_argument("--tag", default="")
    parser.add_argument("--fenced", action="store_true")
    parser.add_argument("--no-profile", action="store_true")
    parser.add_argument("--no-graph", action="store_true", help="back to back, as where nothing can be captured")
    args = parser.parse_args()
    started = time.monotonic()

    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")  # as the rows it joins
    import torch
    import torch.distributed as dist
    rank, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    dist.init_process_group("gloo")
    stream = torch.cuda.Stream()
    nccl = Nccl()
    sizes = [int(s) for s in args.sizes.split(",")]
    room = 10 * max(sizes) + 64 * KIB
    send = torch.zeros(room, dtype=torch.uint8, device="cuda")
    recv = torch.zeros(room, dtype=torch.uint8, device="cuda")
    marker = torch.zeros(1, device="cuda")
    out = open(args.out, "a") if rank == 0 else None

    for world in map(int, args.worlds.split(",")):
        group = dist.new_group(list(range(world)), backend="gloo")
        if rank < world:
            unique = UniqueId()
            if rank == 0:
                nccl.GetUniqueId(ctypes.byref(unique))
            box = [bytes(unique)]
            dist.broadcast_object_list(box, src=0, group=group)
            comm = ctypes.c_void_p()
            nccl.CommInitRank(ctypes.byref(comm), world, UniqueId.from_buffer_copy(box[0]), rank)
            bench = Bench(nccl, comm, rank, world, stream, send.data_ptr(), recv.data_ptr())
            points = [(op, rounded(op, size, world)) for op in args.ops.split(",") for size in sizes]
            skipped = measure(torch, dist, group, bench, points, args, stream, marker, out, started)
            if rank == 0 and skipped:
                print(f"world {world}: {skipped} points left out, time is up", file=sys.stderr)
            torch.cuda.synchronize()
            nccl.CommDestroy(comm)
        dist.barrier()
    if rank == 0:
        print(f"{time.monotonic() - started:.0f} s", file=sys.stderr)
    dist.destroy_process_group()


def measure(torch, dist, group, bench, points, args, stream, marker, out, started):
    world, rank = bench.world, bench.rank
    for op, size in points[::max(1, len(points) // 60)]:  # connects what will be used
        getattr(bench, op)(size)
    torch.cuda.synchronize()
    blocks = {}
    if not args.no_profile:
        try:
            blocks = profile(torch, bench, points, stream, marker)
        except Exception as error:  # what the profiler cannot do is no reason to lose the times
            print(f"rank {rank}: no profile: {error!r}", file=sys.stderr)
        dist.barrier(group=group)
    skipped = 0
    fence = 0.0
    if args.fenced:
        points = [("fence", 0)] + points
    for op, size in points:
        ahead = [time.monotonic() - started < args.budget]
        dist.broadcast_object_list(ahead, src=0, group=group)
        if not ahead[0]:
            skipped += 1
            continue
        run = getattr(bench, op)
        for _ in range(2):
            run(size)
        torch.cuda.synchronize()

        def all_of_them():
            for _ in range(args.in_graph):
                if args.fenced:
                    bench.fence()
                run(size)
            if not takes_part(op, rank, world):
                marker.fill_(1.0)  # an empty graph has no time

        replay, graph = all_of_them, None
        if not args.no_graph:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=stream, capture_error_mode="relaxed"):
                all_of_them()
            replay = graph.replay
        times = []
        with torch.cuda.stream(stream):
            replay()
            for _ in range(args.repeats):
                stream.synchronize()
                dist.barrier(group=group)
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                replay()  # the one before the clock starts lines the ranks up
                begin.record(stream)
                replay()
                end.record(stream)
                end.synchronize()
                times.append(begin.elapsed_time(end) / args.in_graph * 1e3)
        del replay, graph
        if op == "fence":
            fence = statistics.median(times) / 2  # two of them in a row
            continue
        times = [it - fence for it in times]
        medians = [None] * world
        dist.all_gather_object(medians, statistics.median(times), group=group)
        if out:
            row = {"op": op, "world": world, "bytes": size, "graph": int(not args.no_graph),
                   "us": round(statistics.median(times), 2),
                   "us_min": round(min(times), 2), "us_max": round(max(times), 2), "us_all": round(max(medians), 2)}
            if args.fenced:
                row["fenced"] = 1
            if (op, size) in blocks:
                row["blocks"] = blocks[op, size]
            if args.tag:
                row["tag"] = args.tag
            out.write(json.dumps(row) + "\n")
            out.flush()
    return skipped


def takes_part(op, rank, world):
    if op == "one_way":
        return rank < 2
    return op != "pair_exchange" or rank < world // 2 * 2


if __name__ == "__main__":
    main()
