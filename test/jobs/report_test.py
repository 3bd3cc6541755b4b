"""The report agrees with the trace, and two runs with each other."""
import json

from job import JobTest, main, printed

DDP = """
    import os, time, torch, torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    device = torch.device("cuda", local)
    dist.init_process_group("nccl", device_id=device)
    torch.manual_seed(0)
    with device:
        model = torch.nn.Sequential(*[torch.nn.Linear(2048, 2048) for _ in range(6)])
    model = DistributedDataParallel(model, device_ids=[local])
    optimizer = torch.optim.AdamW(model.parameters())
    data = torch.randn(512, 2048, device=device)
    torch.cuda.synchronize()
    for step in range(5):
        start = time.perf_counter()
        loss = model(data).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()
        print(dist.get_rank(), step, repr(time.perf_counter() - start), flush=True)
    print(dist.get_rank(), torch.cuda.max_memory_allocated(), flush=True)
    dist.destroy_process_group()
    """


def union(spans):
    """Seconds covered by (start, end) pairs."""
    total, reached = 0.0, 0.0
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


class Consistency(JobTest):
    def run_ddp(self, *options):
        job = self.run_python(DDP, torch=True,
                              options=["--report", "report.json", "--trace", "trace.json", *options])
        self.assertEqual(len([line for line in printed(job) if len(line.split()) == 3]), 10)
        return job

    def test_report_agrees_with_trace(self):
        self.run_ddp()
        report = self.report()
        self.assertEqual(report["status"], 0)
        self.assertGreater(report["wall_s"], 0)
        trace = json.loads((self.directory / "trace.json").read_text())["traceEvents"]
        self.assertEqual([entry["rank"] for entry in report["ranks"]], [0, 1])
        for entry in report["ranks"]:
            spans = {"compute": [], "copy": [], "communication": []}
            for event in trace:
                if event["ph"] == "X" and event["pid"] == entry["rank"]:
                    start = event["ts"] * 1e-6
                    spans[event["cat"]].append((start, start + event["dur"] * 1e-6))
            work, communication = spans["compute"] + spans["copy"], spans["communication"]
            self.assertGreater(len(communication), 5)
            close = {"delta": 1e-9 * len(trace)}  # the trace's decimals, read as doubles
            self.assertAlmostEqual(entry["busy_s"], union(work + communication), **close)
            self.assertAlmostEqual(entry["communication_s"], union(communication), **close)
            self.assertAlmostEqual(entry["exposed_communication_s"],
                                   union(communication + spans["compute"]) - union(spans["compute"]),
                                   **close)
            self.assertEqual(entry["kernels"], len(work))
            self.assertAlmostEqual(sum(entry["kernel_s_by_source"].values()),
                                   sum(end - start for start, end in work), **close)
            # From the end of the first update on.
            self.assertEqual(entry["steps"], 4)
        self.assertAlmostEqual(
            sum(kernel["total_s"] for kernel in report["kernels"]),
            sum(sum(entry["kernel_s_by_source"].values()) for entry in report["ranks"]), places=9)
        self.assertEqual(report["forced_answers"], 0)

    def test_two_runs_are_equal(self):
        results = []
        for _ in range(2):
            job = self.run_ddp("--host-time", "off")
            results.append((printed(job), (self.directory / "report.json").read_bytes(),
                            (self.directory / "trace.json").read_bytes()))
        for first, second in zip(*results):
            self.assertEqual(first, second)
        report = self.report()
        self.assertNotIn("wall_s", report)
        self.assertEqual(report["forced_answers"], 0)


class Cadence(JobTest):
    """Steps as the program makes them, whatever repeats within them and comes between them."""

    PROGRAM = """
        import sys, torch
        torch.cuda.set_device(0)
        model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(6)]).cuda()
        optimizer = torch.optim.AdamW(model.parameters(), **{sys.argv[1]: True})
        data = torch.randn(64, 512, device="cuda")
        for step in range(7):
            for micro_batch in range(4):
                model(data).square().mean().backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            if step % 3 == 2:
                torch.save(model.state_dict(), "checkpoint.pt")
                with torch.no_grad():
                    for _ in range(20):
                        model(data).argmax()
        torch.cuda.synchronize()
        """

    def test_accumulation_checkpoints_and_evaluation(self):
        program = self.write("program.py", self.PROGRAM)
        for optimizer in ("fused", "foreach", "capturable"):
            with self.subTest(optimizer=optimizer):
                self.run_job([program, optimizer], torch=True, cluster="h200:1x1",
                             options=["--report", "report.json", "--host-time", "off"])
                rank, = self.report()["ranks"]
                self.assertEqual(rank["steps"], 6)
                self.assertEqual(rank["typical_steps"], [True, True, False, True, True, False])
                self.assertNotIn("step_unsure", rank)


class StepMarker(JobTest):
    """What the user says ends a step, and what the program names."""

    PROGRAM = """
        import threading, torch
        from torch.cuda import nvtx
        torch.cuda.set_device(0)
        model = torch.nn.Linear(512, 512).cuda()
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        data = torch.randn(64, 512, device="cuda")
        for step in range(6):
            nvtx.range_push("two updates")
            for part in range(2):
                with nvtx.range("update"):
                    model(data).square().mean().backward()
                    optimizer.step()
            torch.cuda.synchronize()
            nvtx.range_pop()
            nvtx.mark("between")
        # CUB names what it does, with registered strings in a domain of its own.
        torch.nn.Embedding(100, 8).cuda()(torch.zeros(4096, dtype=int, device="cuda")).sum().backward()
        torch.cuda.synchronize()  # LIMITATIONS.md: torch 2.15 that ends with work under way
        """

    def steps(self, *options):
        program = self.write("program.py", self.PROGRAM)
        self.run_job([program], torch=True, cluster="h200:1x1",
                     options=["--report", "report.json", "--host-time", "off", *options])
        rank, = self.report()["ranks"]
        return rank["steps"], rank["kernels_per_step"]

    def test_ranges_marks_and_kernels(self):
        count, kernels = self.steps()
        self.assertEqual(count, 11)
        self.assertEqual(self.steps("--step-marker", "optimizer"), (11, kernels))
        self.assertEqual(self.steps("--step-marker", "FusedAdam"), (11, kernels))
        self.assertEqual(self.steps("--step-marker", "two updates"), (5, 2 * kernels))
        self.assertEqual(self.steps("--step-marker", "between"), (5, 2 * kernels))
        self.assertEqual(self.steps("--step-marker", "no such thing"), (0, 0))

    def test_trace_has_a_row_of_ranges(self):
        self.steps("--trace", "trace.json")
        events = json.loads((self.directory / "trace.json").read_text())["traceEvents"]
        ranges = [event for event in events if event.get("cat") == "range"]
        self.assertIn("cub::DeviceRadixSort", [event["name"] for event in ranges])
        ranges = [event for event in ranges if not event["name"].startswith("cub::")]
        row, = {(event["pid"], event["tid"]) for event in ranges}
        title, = [event["args"]["name"] for event in events
                  if event["name"] == "thread_name" and (event["pid"], event["tid"]) == row]
        self.assertEqual(title, "host thread 0")
        self.assertEqual([event["name"] for event in ranges],
                         ["update", "update", "two updates", "between"] * 6)
        first, second, both, between = ranges[:4]
        self.assertLessEqual(both["ts"], first["ts"])
        self.assertLessEqual(first["ts"] + first["dur"], second["ts"])
        self.assertEqual(between["dur"], 0)


class NamedRanges(JobTest):
    """Every way to name a range, through the tables that NVTX's headers hold."""

    PROGRAM = """
        import ctypes, gpu, os, time
        from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint, c_uint32, c_uint64, c_void_p
        from ctypes import c_wchar_p

        gpu.set_device()
        gpu.allocate(1 << 20)  # the connection
        time.sleep(2)  # ranges may lie anywhere

        # An array of pointers to function pointers per module, as NVTX has it.
        sizes = {1: 16, 5: 16}
        functions = {module: (c_void_p * size)() for module, size in sizes.items()}
        tables = {module: (c_void_p * size)(*[ctypes.addressof(functions[module]) + 8 * i
                                              for i in range(size)])
                  for module, size in sizes.items()}

        @ctypes.CFUNCTYPE(c_int, c_int, POINTER(c_void_p), POINTER(c_uint))
        def module_table(module, table, size):
            table[0], size[0] = ctypes.addressof(tables[module]), sizes[module]
            return 1

        class Callbacks(ctypes.Structure):
            _fields_ = [("struct_size", c_size_t), ("module_table", c_void_p)]

        callbacks = Callbacks(ctypes.sizeof(Callbacks), ctypes.cast(module_table, c_void_p))

        @ctypes.CFUNCTYPE(c_void_p, c_uint32)
        def export_table(which):
            return ctypes.addressof(callbacks) if which == 1 else None

        library = ctypes.CDLL(os.environ["NVTX_INJECTION64_PATH"])
        assert library.InitializeInjectionNvtx2(export_table) == 1

        def call(module, number, result, *types):
            return ctypes.CFUNCTYPE(result, *types)(functions[module][number])

        class Event(ctypes.Structure):
            _fields_ = [("head", c_uint32 * 6), ("payload", c_uint64), ("kind", c_int),
                        ("message", c_void_p)]

        def event(kind, message):
            return byref(Event(kind=kind, message=message))

        # Core: A, W and Ex of mark, start and push.
        call(1, 2, None, c_char_p)(b"mark A")
        call(1, 3, None, c_wchar_p)("mark W")
        text = ctypes.create_string_buffer(b"mark Ex")
        call(1, 1, None, c_void_p)(event(1, ctypes.addressof(text)))
        first = call(1, 5, c_uint64, c_char_p)(b"start A")
        second = call(1, 6, c_uint64, c_wchar_p)("start W")
        call(1, 7, None, c_uint64)(first)
        call(1, 7, None, c_uint64)(second)
        assert call(1, 9, c_int, c_char_p)(b"push A") == 0
        assert call(1, 10, c_int, c_wchar_p)("push \u00fc\u20ac\U0001f600") == 1
        # A domain of its own, with a registered name.
        name = call(5, 10, c_void_p, c_void_p, c_char_p)(None, b"registered")
        assert call(5, 4, c_int, c_void_p, c_void_p)(4711, event(3, name)) == 2
        wide = ctypes.create_unicode_buffer("wide")
        third = call(5, 2, c_uint64, c_void_p, c_void_p)(4711, event(2, ctypes.addressof(wide)))
        call(1, 11, c_int)()  # the innermost of the default domain
        call(5, 5, c_int, c_void_p)(4711)
        call(5, 3, None, c_void_p, c_uint64)(4711, third)
        call(1, 11, c_int)()
        assert call(1, 11, c_int)() == -2  # nothing is open
        """

    def test_all_entry_points(self):
        self.run_python(self.PROGRAM, cluster="h200:1x1", timeout=30,
                        options=["--trace", "trace.json"])
        events = json.loads((self.directory / "trace.json").read_text())["traceEvents"]
        self.assertEqual([event["name"] for event in events if event.get("cat") == "range"],
                         ["mark A", "mark W", "mark Ex", "start A", "start W", "push \u00fc\u20ac\U0001f600",
                          "registered", "wide", "push A"])


class Doubts(JobTest):
    """The summary says what to make of values that were not computed, and nothing otherwise."""

    def test_values_of_large_data(self):
        job = self.run_python("""
            import torch
            large = torch.randn(1 << 20, device="cuda")
            print(large.sum().item())
            """, torch=True, cluster="h200:1x1", options=["--report", "report.json"])
        self.assertRegex(job.out, r"(?m)^  unknown reads +1: losses")
        self.assertEqual(self.report()["counters"]["unknown_reads"], 1)

    def test_nothing_where_all_is_well(self):
        job = self.run_python("""
            import torch
            small = torch.ones(1 << 10, device="cuda")
            print(small.sum().item())
            """, torch=True, cluster="h200:1x1")
        self.assertIn("1024.0\n", job.out)
        self.assertNotIn("unknown reads", job.out)
        self.assertNotIn("unread kernels", job.out)
        self.assertNotIn("partial", job.out)


if __name__ == "__main__":
    main()
