"""phantora measure on top of the simulated libraries: it finds the simulation's own times, under the very
queries that the simulation asks for."""
import csv
import json
import os
import sqlite3
import subprocess

from job import PHANTORA, TORCH_PYTHON, JobTest, main

# Products with and without an epilogue, convolutions, attention, normalisations, elementwise kernels of all
# sorts, lists of tensors, copies each way, a fill; two streams would share the GPU, and one does not.
PROGRAM = """
    import torch, torch.nn.functional as F
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3, bias=False), torch.nn.BatchNorm2d(16), torch.nn.ReLU(),
                                torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(16 * 15 * 15, 64),
                                torch.nn.GELU(), torch.nn.LayerNorm(64), torch.nn.Linear(64, 8)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    table = torch.nn.Embedding(100, 32).cuda()
    host = torch.randn(4, 3, 32, 32).pin_memory()
    for step in range(3):
        images = host.to("cuda", non_blocking=True)
        loss = F.cross_entropy(model(images), torch.arange(4, device="cuda"))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16):
            q = table(torch.arange(64, device="cuda")).view(1, 64, 2, 16).transpose(1, 2)
            y = F.scaled_dot_product_attention(q, q, q, is_causal=True)
            z = torch.bmm(y.flatten(0, 1), y.flatten(0, 1).transpose(1, 2)).softmax(-1)
        torch.cat([z.float().sort()[0].sum(0), torch.zeros(64, 64, device="cuda")]).sum().item()
    print(images.cpu().shape)
    """
# Factorisations, orthogonal factors, eigenvalues, singular values, solves, of one matrix and of batches; transforms of
# one and more dimensions; products of sparse matrices.
LINEAR_ALGEBRA = """
    import torch
    linalg, fft = torch.linalg, torch.fft
    for dtype in (torch.float32, torch.complex64):
        for batch in ((), (3,)):
            x = torch.randn(*batch, 40, 40, dtype=dtype, device="cuda")
            h, tall = x @ x.mH + 40 * torch.eye(40, device="cuda"), torch.randn(*batch, 80, 40, dtype=dtype, device="cuda")
            lower = linalg.cholesky(h)
            torch.cholesky_solve(x, lower)
            linalg.solve_triangular(lower, x, upper=False)
            linalg.lu_factor(h)
            reflectors, tau = torch.geqrf(tall)
            linalg.householder_product(reflectors, tau)
            torch.ormqr(reflectors, tau, tall)
            linalg.eigh(h)
            linalg.svd(tall, full_matrices=False)
        linalg.eigvals(h[0])
        y = torch.randn(6, 30, 64, dtype=dtype, device="cuda")
        for transform in (fft.fft, fft.fft2, fft.irfft2, lambda y: fft.fft(y, dim=1)):
            transform(y)
    fft.rfftn(y.real)
    places = torch.randint(0, 48, (2, 200), device="cuda")
    listed = torch.sparse_coo_tensor(places, torch.randn(200, device="cuda"), (64, 48)).coalesce()
    rows, b = listed.to_sparse_csr(), torch.randn(48, 8, device="cuda")
    rows @ b, rows @ b[:, 0], torch.sparse.mm(listed, b), torch.sparse.sampled_addmm(rows, torch.randn(64, 8, device="cuda"), b.t())
    torch.cuda.synchronize()
    """
GAP_PS, LATENCY_PS = 1_400_000, 1_500_000  # device_timing.hpp; event_timer.cpp takes the gap off


class Measured(JobTest):
    def counts(self):
        """How often each query was measured, of the database my.db."""
        with sqlite3.connect(self.directory / "my.db") as database:
            return {json.dumps(json.loads(query), sort_keys=True): count for query, count in database.execute(
                "SELECT query, sum(count) FROM duration JOIN kernel ON kernel.id = kernel GROUP BY query")}

    def where(self, record, cluster="h200:1x1"):
        """The kernels that a record's ranks ask for. What a launch finds in cache and memory is no part of a database's keys."""
        told = subprocess.run([PHANTORA, "kernels", "where", record, "--cluster", cluster, "--format", "json"],
                              check=True, capture_output=True, text=True).stdout
        kernels = json.loads(told)["kernels"]
        for kernel in kernels:
            kernel["query"].pop("operands", None)
            kernel["query"].pop("by_data", None)
        return kernels


class Measure(Measured):
    def simulate(self, program, *options, under=()):
        return self.run_job([*under, TORCH_PYTHON, program], cluster="h200:1x1", timeout=600,
                            options=["--host-time", "off", *options])

    def stacked(self, program, *options, timer=("--timer", "events")):
        """Measures a program on the simulated GPU. @return {query: {picoseconds: count}}"""
        path = self.directory / "my.db"
        self.simulate(program, *options, under=[PHANTORA, "measure", "--kernels", path, *timer, "--"])
        found = {}
        with sqlite3.connect(path) as database:
            for query, time, count in database.execute(
                    "SELECT query, picoseconds, sum(count) FROM duration JOIN kernel ON kernel.id = kernel "
                    "GROUP BY query, picoseconds"):
                found.setdefault(query, {})[time] = count
        return found

    def test_measures_what_is_simulated(self):
        self.check_measures_what_is_simulated(PROGRAM, 40)

    def test_measures_linear_algebra(self):
        names = {json.loads(query)["name"] for query in self.check_measures_what_is_simulated(LINEAR_ALGEBRA, 60)}
        self.assertLessEqual({"potrf", "potrs", "trsm", "getrf", "geqrf", "orgqr", "ormqr", "syevj", "gesvdj", "geev", "fft", "spmm", "spmv",
                              "sddmm"}, names)

    def test_a_profiler_of_the_programs_own_sees_its_part(self):
        """And nothing is lost by that, nor where the program ends without its handlers at exit."""
        program = self.write("profiled.py", """
            import os, torch
            from torch.profiler import ProfilerActivity, profile
            layer, x = torch.nn.Linear(512, 512).cuda(), torch.randn(64, 512, device="cuda")
            def steps(count):
                for _ in range(count):
                    layer(x).relu().sum().backward()
                torch.cuda.synchronize()
            def profiled(count):
                with profile(activities=[ProfilerActivity.CUDA]) as found:
                    steps(count)
                return sum(event.device_type().name == "CUDA" for event in found.profiler.kineto_results.events())
            steps(5)
            one, four = profiled(1), profiled(4)
            assert one > 4 and four == 4 * one, (one, four)
            steps(6)
            os._exit(0)
            """)
        times = next(times for query, times in self.stacked(program, timer=()).items() if '"epilogue":"bias"' in query)
        self.assertEqual(sum(times.values()), 16)
        # The profiler's clock counts ticks, and CUPTI's records with it.
        self.assertLess(max(times), 1.1 * min(times))

    def test_trials_are_no_times_of_a_step(self):
        program = self.write("trials.py", """
            import torch
            torch.backends.cudnn.benchmark = True
            layer = torch.nn.Conv2d(256, 128, 3, padding=1, bias=False).cuda().to(memory_format=torch.channels_last)
            images = torch.randn(128, 256, 32, 32, device="cuda").to(memory_format=torch.channels_last)
            for _ in range(5):
                layer(images)
            torch.cuda.synchronize()
            """)
        found = {query: times for query, times in self.stacked(program).items() if "conv_fwd" in query}
        (query, times), = found.items()
        self.assertNotIn("plan", query)  # a database has what ran, however that was chosen
        self.assertEqual(sum(times.values()), 5)
        # 561 us by the heuristics' choice, 207 by the fastest (h200.tsv).
        self.assertLess(max(times), 300_000_000)

    def check_measures_what_is_simulated(self, text, queries):
        """@return the queries"""
        program, record = self.write("program.py", text), self.directory / "alone.rec"
        measured = self.stacked(program)
        self.simulate(program, "--record", record)
        # Each launch's price hangs on the cache.
        kernels = {}
        for kernel in self.where(record):
            kernels.setdefault(json.dumps(kernel["query"], sort_keys=True), []).append(kernel)
        found = {json.dumps(json.loads(query), sort_keys=True): times for query, times in measured.items()}
        # The same queries, as often as they are asked for.
        self.assertEqual({query: sum(times.values()) for query, times in found.items()},
                         {query: sum(kernel["count"] for kernel in alike) for query, alike in kernels.items()})
        self.assertGreater(len(found), queries)
        # And at their prices, to a float's precision: later by what an idle stream adds to the gap.
        exact = 0
        for query, times in found.items():
            prices = [1e12 * kernel["total_s"] / kernel["count"] for kernel in kernels[query]]
            for time in times:
                rounding = 1e-7 * (time + GAP_PS) + 1
                self.assertGreaterEqual(time, min(prices) - rounding, query)
                self.assertLessEqual(time, max(prices) + LATENCY_PS - GAP_PS + rounding, query)
                exact += any(abs(time - price) <= rounding for price in prices)
        self.assertGreater(exact, len(found) // 2)
        return found

    def test_more_memory_than_the_gpu_has(self):
        """What has no room shares some: the program sees a larger GPU, and asks for the same kernels as there."""
        program = self.write("program.py", """
            import torch
            free, total = torch.cuda.mem_get_info()
            assert total == torch.cuda.get_device_properties(0).total_memory == 12 << 30 and free > 11 << 30, (free, total)
            numbers = torch.arange(100, device="cuda")
            layers = torch.nn.ModuleList(torch.nn.Linear(4096, 4096, device="cuda") for _ in range(16))
            optimizer = torch.optim.AdamW(layers.parameters(), fused=True)
            x = torch.randn(1024, 4096, device="cuda")
            for step in range(2):
                y = x
                for layer in layers: y = torch.relu(layer(y))
                y.mean().backward()
                optimizer.step()
                optimizer.zero_grad()
            assert numbers.tolist() == list(range(100))  # what is small shares with nobody
            assert torch.cuda.memory_allocated() > 3 << 30
            try: torch.empty(9 << 30, dtype=torch.uint8, device="cuda"); raise SystemExit("there is more than there should be")
            except torch.OutOfMemoryError: pass
            del layers, layer, optimizer, x, y
            torch.cuda.empty_cache()
            assert torch.cuda.mem_get_info()[0] > 11 << 30, torch.cuda.mem_get_info()
            print("all of it")
            """)
        path, record = self.directory / "my.db", self.directory / "alone.rec"
        job = self.run_job([PHANTORA, "measure", "--kernels", path, "--timer", "events", "--gpu-memory", "12GiB", "--",
                            TORCH_PYTHON, program], cluster="h200:1x1", timeout=600,
                           options=["--host-time", "off", "--gpu-memory", "2GiB"])
        self.assertIn("all of it", job.out)
        self.assertRegex(job.err, r"up to [3-9]\.\d GiB of the program's memory shared 0\.\d GiB of the GPU's")
        self.simulate(program, "--gpu-memory", "12GiB", "--record", record)
        asked = {}
        for kernel in self.where(record):
            key = json.dumps(kernel["query"], sort_keys=True)
            asked[key] = asked.get(key, 0) + kernel["count"]
        self.assertEqual(self.counts(), asked)

    def test_a_run_takes_its_times_from_the_database(self):
        program = self.write("program.py", PROGRAM)
        self.stacked(program)
        job = self.simulate(program, "--kernels", self.directory / "my.db", "--report", self.directory / "report.json")
        self.assertRegex(job.out, r"kernel time by source +database 100\.0 %")
        by_source = self.report()["ranks"][0]["kernel_s_by_source"]
        self.assertGreater(by_source.pop("database"), 0)
        self.assertEqual(sum(by_source.values()), 0)

    def test_names_both_gpus(self):
        self.stacked(self.write("program.py", "import torch; torch.zeros(8, device='cuda').add_(1).sum().item()"))
        done = subprocess.run([PHANTORA, "run", "--cluster", "h100:1x1", "--kernels", self.directory / "my.db", "--",
                               "true"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("was measured on NVIDIA H200, the cluster's GPUs are NVIDIA H100 80GB HBM3", done.stderr)


# What a rank is told by others: objects, sizes, sums; then steps in which large operands are exchanged.
OF_FOUR = """
    import os, torch, torch.distributed as dist
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    objects = [None] * world
    dist.all_gather_object(objects, {"rank": rank, "text": str(rank)})
    assert objects == [{"rank": i, "text": str(i)} for i in range(world)], objects
    number = torch.full((8,), float(rank), device="cuda")
    dist.all_reduce(number)
    assert number.tolist() == [6.0] * 8, number
    part = torch.arange(rank, rank + 2, device="cuda")
    for group in (dist.new_group([0, 3]), dist.new_group([1, 2])):
        if dist.get_rank(group) >= 0:
            dist.broadcast(part, group=group, group_src=1)
    assert part.tolist() == ([3, 4] if rank in (0, 3) else [2, 3]), part
    message = torch.zeros(3, device="cuda")
    requests = dist.batch_isend_irecv([dist.P2POp(dist.isend, torch.full((3,), float(rank), device="cuda"), (rank + 1) % 4),
                                       dist.P2POp(dist.irecv, message, (rank + 3) % 4)])
    for request in requests: request.wait()
    assert message.tolist() == [float((rank + 3) % 4)] * 3, message

    from torch.distributed.fsdp import fully_shard
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(3))).cuda()
    for layer in model: fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for step in range(3):
        loss = model(torch.randn(64, 1024, device="cuda")).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    # Nobody has computed others' parts of large operands: they are like the rank's own.
    gathered = torch.empty(4 << 20, device="cuda")
    dist.all_gather_into_tensor(gathered, torch.ones(1 << 20, device="cuda"))
    print(f"rank {rank} ends", flush=True)
    dist.destroy_process_group()
    """


class OneRank(Measured):
    """phantora measure --cluster: one rank of a job on a real GPU, for which a simulated one stands here."""

    def measure(self, program, *options, status=0):
        # What measures is preloaded for the program, and not for the phantora that simulates its GPU.
        (self.directory / "on_gpu.sh").write_text(f"""
            [ -n "${{PHANTORA_PROXY-}}" ] || exec {TORCH_PYTHON} "$@"
            measure=$LD_PRELOAD; unset LD_PRELOAD
            exec {PHANTORA} run --cluster h200:1x1 --host-time off --per run -- env RANK=$RANK WORLD_SIZE=$WORLD_SIZE \\
              LOCAL_RANK=$LOCAL_RANK MASTER_ADDR=$MASTER_ADDR MASTER_PORT=$MASTER_PORT \\
              sh -c 'LD_PRELOAD="$0:$LD_PRELOAD" exec "$@"' "$measure" {TORCH_PYTHON} "$@"
            """)
        done = subprocess.run([PHANTORA, "measure", "--kernels", "my.db", "--timer", "events", *options, "--", "bash",
                               "on_gpu.sh", program], capture_output=True, text=True, cwd=self.directory, timeout=400)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def test_is_one_of_four(self):
        program, record = self.write("program.py", OF_FOUR), self.directory / "four.rec"
        for rank in (0, 3):
            done = self.measure(program, "--cluster", "h200:2x2", "--rank", str(rank))
            self.assertEqual(sorted(line for line in done.stdout.splitlines() if line.endswith("ends")),
                             [f"rank {i} ends" for i in range(4)])
        # Twice what one of the simulated ranks asks for: nothing of what passes between ranks is among it.
        self.run_job([TORCH_PYTHON, program], cluster="h200:2x2", timeout=400,
                     options=["--host-time", "off", "--record", record])
        asked = {}
        for kernel in self.where(record, "h200:2x2"):
            key = json.dumps(kernel["query"], sort_keys=True)
            asked[key] = asked.get(key, 0) + kernel["count"]
        self.assertEqual({key: 2 * count for key, count in self.counts().items()}, asked)

    def test_ends_with_its_rank(self):
        program = self.write("program.py", """
            import os, torch, torch.distributed as dist
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            dist.init_process_group("nccl")
            if os.environ["RANK"] == "1": sys.exit("this rank has had enough")
            dist.all_reduce(torch.ones(1 << 20, device="cuda"))
            torch.cuda.synchronize()
            """)
        done = self.measure(program, "--cluster", "h200:1x2", "--rank", "1", status=1)
        self.assertIn("this rank has had enough", done.stderr)
        self.assertIn("rank 1 exited with status 1; ending the run", done.stderr)

    def test_refuses_what_it_cannot_start(self):
        for options, command, wrong in (
                (["--cluster", "h200:1x2", "--rank", "2"], ["true"], "--rank 2: h200:1x2 has ranks 0 to 1"),
                (["--cluster", "h200:1x2"], ["torchrun", "train.py"], "torchrun starts ranks itself")):
            (self.directory / "torchrun").write_text("#!/bin/sh\n")
            (self.directory / "torchrun").chmod(0o755)
            done = subprocess.run([PHANTORA, "measure", "--kernels", "my.db", *options, "--", *command], text=True,
                                  capture_output=True, cwd=self.directory,
                                  env=dict(os.environ, PATH=f"{self.directory}:{os.environ['PATH']}"))
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(wrong, done.stderr)


class Without(JobTest):
    """What needs neither a GPU nor PyTorch."""

    def phantora(self, *arguments, status=0):
        done = subprocess.run([PHANTORA, *map(str, arguments)], capture_output=True, text=True, cwd=self.directory)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout if status == 0 else done.stderr

    def csv(self, *rows):
        lines = ["source,gpu,driver,libraries,command,date,query,picoseconds,count"]
        for source, query, time, count in rows:
            text = json.dumps(query, sort_keys=True).replace('"', '""')
            lines.append(f'{source},NVIDIA H200,580.1,"cublas 13.1, cudnn 9.19",python train.py,2026-11-22T11:00:00Z,'
                         f'"{text}",{time},{count}')
        path = self.directory / "rows.csv"
        path.write_text("\n".join(lines) + "\n")
        return path

    @staticmethod
    def query(name, **features):
        return dict(name=name, grid=None, block=[1, 1, 1], shared=0, bytes=0.0, flops=0.0, arithmetic="none",
                    features={key: float(value) for key, value in features.items()}, attributes={})

    def test_lists_what_was_measured(self):
        self.phantora("kernels", "import", self.csv(
            ("a", self.query("gemm", m=64, n=64, k=64), 3_000_000, 2), ("a", self.query("gemm", m=64, n=64, k=64), 6_000_000, 1),
            ("a", self.query("batch_norm_bwd", n=8, c=4), 8_000_000, 11)), "my.db")
        self.assertEqual(self.phantora("kernels", "list", "my.db"), """\
NVIDIA H200, driver 580.1, cublas 13.1, cudnn 9.19: python train.py (2026-11-22T11:00:00Z)
      total  share    count        mean      median       least  spread  kernel
    88.0 us  88.0%       11      8.0 us      8.0 us      8.0 us    0.0%  batch_norm_bwd c=4 n=8
    12.0 us  12.0%        3      4.0 us      3.0 us      3.0 us   43.3%  gemm k=64 m=64 n=64
2 of 2 kinds of kernels, copies and library calls, 100.0 us in all
""")
        self.assertIn("1 of 1 kinds", self.phantora("kernels", "list", "my.db", "--filter", "gemm"))
        first = self.phantora("kernels", "list", "my.db", "--sort", "spread").splitlines()[2]
        self.assertIn("gemm", first)

    def test_csv_loses_nothing(self):
        rows = self.csv(("a", self.query("gemm", m=64, n=64, k=64), 3_000_001, 2),
                        ("b", self.query("gemm", m=64, n=64, k=64), 3_000_001, 1),
                        ("b", self.query('odd, "name"'), 7, 1))
        self.phantora("kernels", "import", rows, "my.db")
        first = self.phantora("kernels", "export", "my.db", "-")
        (self.directory / "again.csv").write_text(first)
        self.phantora("kernels", "import", "again.csv", "other.db")
        self.phantora("kernels", "import", "again.csv", "other.db")  # the same sources: not counted twice
        self.assertEqual(self.phantora("kernels", "export", "other.db", "-"), first)

        def read(text):
            return sorted([*row[:6], json.dumps(json.loads(row[6]), sort_keys=True), *row[7:]]
                          for row in list(csv.reader(text.splitlines()))[1:])

        self.assertEqual(read(first), read(rows.read_text()))

    def test_merges_and_compares(self):
        self.phantora("kernels", "import", self.csv(("a", self.query("gemm", m=64, n=64, k=64), 4_000_000, 2)), "a.db")
        self.phantora("kernels", "import", self.csv(("b", self.query("gemm", m=64, n=64, k=64), 5_000_000, 1),
                                                    ("b", self.query("gemm", m=8, n=8, k=8), 1_000_000, 1)), "b.db")
        self.assertEqual(self.phantora("kernels", "compare", "a.db", "b.db"), """\
A: a.db, NVIDIA H200
B: b.db, NVIDIA H200
1 in both, 0 only in A (0.0 us), 1 only in B (1.0 us)
those in both, as often as in A: B takes 1.2500 of A's time
          A           B     B/A    count  kernel
     4.0 us      5.0 us   1.250        2  gemm k=64 m=64 n=64
""")
        self.assertEqual(self.phantora("kernels", "merge", "both.db", "a.db", "b.db", "a.db"),
                         "both.db: 2 kinds of kernels of 2 processes on NVIDIA H200\n")
        self.assertIn("       3      4.3 us", self.phantora("kernels", "list", "both.db"))

    def test_refuses_other_files(self):
        (self.directory / "words.db").write_text("These are words, and no database. " * 9)
        self.assertIn("this is no SQLite database", self.phantora("kernels", "list", "words.db", status=2))
        self.assertIn("there is no such file", self.phantora("kernels", "list", "none.db", status=2))
        with sqlite3.connect(self.directory / "other.db") as other:
            other.execute("CREATE TABLE bookmarks(address)")
        self.assertIn("another program's database",
                      self.phantora("run", "--cluster", "h200:1x1", "--kernels", "other.db", "--", "true", status=2))
        (self.directory / "bad.csv").write_text(self.csv(("a", self.query("gemm"), 1, 1)).read_text().replace(",1\n", ",0\n"))
        self.assertIn("bad.csv:2: expected a whole number of at least 1, got '0'",
                      self.phantora("kernels", "import", "bad.csv", "my.db", status=2))
        self.assertFalse((self.directory / "my.db").exists())

    def test_says_where_a_report_came_from(self):
        (self.directory / "report.json").write_text(json.dumps(dict(phantora="0.1", kernels=[
            dict(name="gemm", count=2, total_s=3e-3, source="database"),
            dict(name="softmax", count=4, total_s=1e-3, source="fitted")])))
        self.assertEqual(self.phantora("kernels", "where", "report.json"), """\
4.000 ms of kernels and copies: database 75.0 %, fitted 25.0 %
      total  share    count        each        +-    source  kernel
   3.000 ms  75.0%        2    1.500 ms         -  database  gemm
   1.000 ms  25.0%        4    250.0 us         -    fitted  softmax
""")

    def test_measure_says_that_there_is_no_gpu(self):
        done = subprocess.run([PHANTORA, "measure", "--kernels", "my.db", "--", "sh", "-c", "exit 3"], cwd=self.directory,
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 3)
        self.assertIn("the program used no GPU", done.stderr)


if __name__ == "__main__":
    main()
