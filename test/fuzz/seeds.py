#!/usr/bin/env python3
"""Writes the first inputs of each target, from this repository's own files, to FOLDER/TARGET/."""

import itertools
import pathlib
import re
import struct
import sys

root = pathlib.Path(__file__).resolve().parents[2]
folder = pathlib.Path(sys.argv[1])


def text_of(path):
    return (root / path).read_text()


def rows(path):
    lines = [line for line in text_of(path).splitlines() if not line.startswith("#")]
    return [dict(zip(lines[0].split("\t"), line.split("\t"))) for line in lines[1:]]


def write(target, seeds):
    (folder / target).mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds):
        seed = seed.encode() if isinstance(seed, str) else seed
        (folder / target / f"seed{number}").write_bytes(seed)


def record(op, stream=0, a=0, b=0, c=0, payload=b"", thread=0, clock=1000):
    """A channel::Record and its payload, as the target wants them: behind the rank and a length."""
    number = operations.index(op)
    head = struct.pack("<HHIqQQQQIIQ", number, 0, thread, clock, stream, a, b, c, len(payload), 0, 0)
    return struct.pack("<H", len(head + payload)) + head + payload


def cubin():
    """An ELF file with what Cubin reads of one kernel: attributes, a symbol, code, shared memory."""
    attribute = lambda number, payload: struct.pack("<BBH", 4, number, len(payload)) + payload
    strings = b"\0kernel\0"
    sections = [  # name, type, contents, link, info
        ("", 0, b"", 0, 0),
        (".shstrtab", 3, b"", 0, 0),
        (".strtab", 3, strings, 0, 0),
        (".symtab", 2, bytes(24) + struct.pack("<IBBHQQ", 1, 0, 0, 6, 0, 0), 2, 0),
        (".nv.info", 0x70000000, attribute(0x11, struct.pack("<II", 1, 64)) +
         attribute(0x2f, struct.pack("<II", 1, 40)), 3, 0),
        (".nv.info.kernel", 0x70000000, attribute(0x05, struct.pack("<III", 256, 1, 1)) +
         attribute(0x17, struct.pack("<IHHI", 0, 0, 0, 8 << 18)), 3, 0),
        (".text.kernel", 1, bytes(16), 3, 40 << 24),
        (".nv.shared.kernel", 8, b"", 0, 0),
    ]
    names = b"".join(name.encode() + b"\0" for name, *_ in sections)
    sections[1] = (".shstrtab", 3, names, 0, 0)
    contents, headers, name = b"", b"", 0
    for title, kind, data, link, info in sections:
        size = 2048 if title == ".nv.shared.kernel" else len(data)
        headers += struct.pack("<IIQQQQIIQQ", name, kind, 0, 0, 64 + len(contents), size, link, info, 1, 0)
        contents += data
        name += len(title) + 1
    ident = b"\x7fELF" + bytes([2, 1, 1, 51, 8]) + bytes(7)
    return ident + struct.pack("<HHIQQQIHHHHHH", 2, 190, 1, 0, 0, 64 + len(contents), 90 << 8, 64, 0, 0,
                               64, len(sections), 1) + contents + headers


def entry(payload, compressed=0, size=0):
    """An entry of a fat binary."""
    return struct.pack("<HHIQIIIIIIQQQ", 2, 1, 64, len(payload), compressed, 0, 0, 90, 0, 0, 0, 0, size) + payload


# Clusters: what tests and documents name, and the header's example.
specs = re.findall(r'"((?:h200|h100|a100|b200|l40s):[^"]*)"',
                   text_of("test/topology_test.cpp") + text_of("include/phantora/cluster/cluster.hpp"))
write("cluster_spec", dict.fromkeys(specs))
kinds = ("rail_optimized", "leaf_spine", "fat_tree", "dragonfly", "torus", "single_switch")
example = re.findall(r"^///     (.*)$", text_of("include/phantora/cluster/cluster.hpp"), re.M)


def of_kind(kind):
    """The example with the options of one kind of fabric: each names in its comment whose it is."""
    for line in example:
        named = [one for one in kinds if one in line]
        if kind in named or not named:
            yield line.replace('"rail_optimized"', f'"{kind}"')


write("cluster_toml", [*("\n".join(of_kind(kind)) for kind in kinds),
                       re.search(r'full_toml = R"\((.*?)\)"', text_of("test/topology_test.cpp"), re.S)[1]])
write("quantity", dict.fromkeys(re.findall(r'"(\d[^"]*)"', text_of("include/phantora/cluster/cluster.hpp") +
                                           text_of("include/phantora/quantity.hpp"))))
write("nccl_variables", ["\n".join(f"{name}={value}" for name, value in variables) for variables in
                         (re.findall(r'{"(NCCL_\w+)", "(.*?)"}', line)
                          for line in text_of("test/collectives_test.cpp").splitlines()) if variables])

# Kernels: every tenth of the steps' kernels, and some of the sweep's.
steps = list(itertools.chain.from_iterable(rows(path.relative_to(root))
                                           for path in sorted(root.glob("test/data/*_step.tsv"))))
data = text_of("lib/kernels/data/h200.tsv").splitlines(keepends=True)
write("kernel_data", ["".join(data[:2] + data[i:i + 3]) for i in range(2, len(data), len(data) // 20)])
shapes = [tuple(int(part) for part in (row[what].split("x") if row[what] != "-" else "111"))
          for row in steps for what in ("grid", "block")]
write("kernel_signature",
      [f"{row['name']}\n".encode() + struct.pack("<8I", *shapes[2 * i], *shapes[2 * i + 1],
                                                int(row["shared"]), 1 << 20) +
       (row["features"] + ";" + row["attributes"]).replace(";", "\n").encode()
       for i, row in enumerate(steps) if i % 10 == 0])
names = list(dict.fromkeys(row["name"] for row in steps))
mangled = re.findall(r"_ZN\w+", text_of("test/kernel_reading_test.cpp"))
write("kernel_name", names[::5] + mangled)

# Launches: a size, three pointers, and room for the structs that tensors are described by.
pointers = struct.pack("<12I", *itertools.chain.from_iterable((4096 * i, 0x44444444) for i in range(6)))
parameters = b"".join(struct.pack("<H", len(value)) + value for value in
                      (struct.pack("<I", 64), struct.pack("<f", 2), pointers[:24], pointers, bytes(512)))
write("kernel_effect", [f"{name}\n".encode() + struct.pack("<6H", 1, 1, 1, 128, 1, 1) + parameters
                        for name in names[::3] if "(" in name])

code = cubin()
block = struct.pack("<I", len(code) << 3 | 1)[:3]  # the last block, uncompressed
zstandard = struct.pack("<IBI", 0xfd2fb528, 0xa0, len(code)) + block + code
lz4 = bytes([0x32]) + b"abc" + bytes([3, 0, 0x10]) + b"!"
write("fat_binary", [code, entry(code), entry(zstandard, len(zstandard), len(code)), entry(lz4, len(lz4), 10)])
write("nvrtc_source", [b"""f<float, 4>
template <typename T, int N> __global__ void f(T* x, const T* __restrict__ y) {}
extern "C" __global__ void g_kernel(const int numel, Array<char*, 1+1> data, OffsetCalculator<1> i,
  OffsetCalculator<1> o, LoadWithCast<1> l, StoreWithCast<1> s, float scalar_val) {
  float out0[8]; arg0[j] = l.load<float>(data[1]); out0[j] = g<float>(arg0[j]); s.store<float>(out0[j]); }
""", b"""//: k k(int, float*)
.visible .entry k(.param .u32 n, .param .align 8 .b8 p[16]) .maxntid 128, 1, 1 { ret; }
"""])

query = '{"name":"k","grid":[1,2,3],"block":[128,1,1],"shared":0,"bytes":1e6,"flops":0.5,' \
        '"features":{"m":4096},"attributes":{"layout":"tn"}}'
write("query_text", [query])
write("data_queue", [bytes([1, 0, 0, 0, 2, 0, 3, 0, 0, 1, 4, 0, 1, 1, 4, 0])])

# The channel: two ranks with a stream and a kernel each, that reduce 16 bytes.
operations = re.findall(r"^  (\w+),? +///<", re.search(r"enum class Op .*?\n};", text_of("adapters/channel/wire.hpp"),
                                                        re.S)[0], re.M)
thread = lambda rank: struct.pack("<BHIIq", rank, 0, 1, 1, 1000)
join = lambda rank: bytes([rank]) + record("join_communicator", a=2, b=rank, payload=bytes(128))
collective = lambda rank, op, kind: struct.pack("<QQQBBBBid", 1 << 20 | rank, 7, 4, op, kind, 0, 0, 0, 1.0)
work = lambda rank, op, kind: b"".join(bytes([rank]) + one for one in (
    record("create_stream", stream=1), record("define_query", payload=query.encode()), record("launch", stream=1),
    record("collective", stream=1, payload=collective(rank, op, kind)), record("operand", a=7, payload=bytes(range(16))), record("record", stream=1, a=9), record("synchronize", a=9)))
write("report", ["""{"phantora": "%s", "cluster": "h200:1x1", "gpu": "NVIDIA H200", "command": ["a"], "status": 0,
"partial": null, "routing": "first", "host_time": "measured", "host_scale": "auto", "host": {"name": "h200", "share_of_step": 0.5,
"step_s_if_free": 0.5, "step_s_if_20_percent_faster": 0.75, "step_s_if_20_percent_slower": 1.25}, "simulated_s": 3,
"gpu_memory_bytes": 100, "ranks": [{"rank": 0, "host": "host0", "step_s": 1, "steps": 2, "kernels_per_step": 3,
"step_starts_s": [0, 1, 2], "typical_steps": [true, true], "step_parts_s": {"computing": 0.5,
"exposed_communication": 0.25, "idle": 0.25}, "busy_s": 2, "communication_s": 1, "exposed_communication_s": 0.5,
"kernels": 6, "kernel_s_by_source": {"fitted": 1.5, "grid": 0.5}, "peak_memory_bytes": 90}], "kernels": [{"name": "a",
"count": 6, "total_s": 2, "source": "grid", "deviation_s": 0.25}], "forced_answers": 0, "late_operations": 0,
"counters": {"unread_kernels": 2, "assumed_routing": 1}, "unread": {"launches": 2, "total_s": 0.5, "kernels": [{"name":
"a", "total_s": 0.5}]}, "wall_s": 2.5, "answers_at_rest": 0}""" %
                 ".".join(re.findall(r"define PHANTORA_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)",
                                     text_of("include/phantora/version.hpp")))])
write("host_profile", ["""{"phantora_host": 1, "name": "a", "processor": "b", "sockets": 1, "cores": 2, "threads": 4,
 "measured": "c", "work_ns": {"interpreter": 1.5, "allocation": 2, "memory": 3}, "calls_ns": 4}"""])
write("workload", ["""{"phantora_workload": 1, "kernels": [{"name": "gemm", "block": [1, 1, 1],
 "shared_bytes": 0, "bytes": 0.0, "flops": 0.0, "arithmetic": "none", "features": {"m": 8.0},
 "attributes": {}, "known": {"ps": 5, "stddev_ps": 1, "source": "fitted"}}], "groups": [[0, 1]],
 "calls": [{"group": 0, "operations": [["all_reduce", 1024, 0, 0]]}],
 "messages": [{"group": 0, "parts": [[0, 1, 8]]}], "labels": ["x"],
 "ranks": [[["launch", 0, 0], ["collective", 0, 0], ["exchange", 0, 1], ["record", 0], ["host", 5]],
 [["collective", 0, 0], ["exchange", 0, 1], ["wait", 0, 0, 0], ["synchronize", 0, 0],
 ["allocate", 8, 0], ["free", 0], ["end_step", 0]]]}""", b"PHANTORA-WORKLOAD\n\x01\0\0\0\0\0\0"])
write("kineto", ["""{"distributedInfo": {"rank": 0}, "traceEvents": [
 {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "tid": 1, "ts": 0, "dur": 5, "args": {"correlation": 1}},
 {"ph": "X", "cat": "cuda_runtime", "name": "cudaStreamWaitEvent", "tid": 1, "ts": 8, "dur": 1, "args": {"correlation": 2}},
 {"ph": "X", "cat": "cuda_runtime", "name": "cudaMemcpyAsync", "tid": 1, "ts": 9, "dur": 90, "args": {"correlation": 3}},
 {"ph": "X", "cat": "cuda_runtime", "name": "cudaStreamSynchronize", "tid": 1, "ts": 100, "dur": 9, "args": {"correlation": 4}},
 {"ph": "X", "cat": "kernel", "name": "k", "ts": 7, "dur": 30, "args": {"correlation": 1, "stream": 7,
  "Collective name": "send", "dtype": "Float", "In msg nelems": 8, "Out msg nelems": 8, "Process Group Ranks": "[0, 1]"}},
 {"ph": "X", "cat": "gpu_memcpy", "name": "c", "ts": 40, "dur": 30, "args": {"correlation": 3, "stream": 20}},
 {"ph": "X", "cat": "cuda_sync", "name": "s", "ts": 8, "dur": 0, "args": {"correlation": 2, "stream": 20,
  "cuda_sync_kind": "Stream Wait Event", "wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": 1}},
 {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "ts": 0, "dur": 200}]}"""])
field = lambda number, value: bytes([number << 3, value]) if isinstance(value, int) else (
    bytes([number << 3 | 2, len(value)]) + value)
attribute = lambda name, number, value: field(10, field(1, name) + field(number, value))
delimited = lambda message: bytes([len(message)]) + message
write("chakra", [b"".join(map(delimited, (
    field(1, b"0.0.4"),
    field(1, 1) + field(2, b"k") + field(3, 4) + field(7, 9) + attribute(b"is_cpu_op", 27, 0),
    field(1, 2) + field(3, 7) + field(5, b"\1") + attribute(b"comm_type", 9, 2) + attribute(b"comm_size", 9, 64) +
    attribute(b"pg_name", 29, b"1"),
    field(1, 3) + field(3, 5) + field(5, 2) + attribute(b"comm_dst", 7, 1) + attribute(b"comm_size", 9, 64),
    field(1, 4) + field(3, 1) + field(4, 3), field(1, 5) + field(3, 4) + field(5, 4) + field(7, 9))))])
write("channel", [thread(0) + thread(1) + join(0) + join(1) + work(0, op, kind) + work(1, op, kind)
                  for op in range(8) for kind in (2, 7)] +
      [b"".join(bytes([0]) + record(op, stream=1, a=1, b=1, c=1, payload=b"name" * 4) for op in operations)])
