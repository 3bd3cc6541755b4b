"""What `phantora run --record` writes, `phantora replay` runs again."""
import json
import pathlib
import subprocess

from job import PHANTORA, TORCH_PYTHON, JobTest, main
import report_test

# Threads that issue in turn, streams that wait for one another, loops of queries, memory.
NATIVE = """
    import ctypes, threading
    import gpu
    from gpu import cuda, cudart
    gpu.set_device()
    world = gpu.Communicator()
    part = world.split(gpu.rank % 2)
    data = gpu.allocate(64 << 20)
    streams = [ctypes.c_void_p() for _ in range(2)]
    for stream in streams:
        cuda("cudaStreamCreateWithFlags", ctypes.byref(stream), 1)
    event = ctypes.c_void_p()
    cuda("cudaEventCreateWithFlags", ctypes.byref(event), 2)

    def fill(stream, size):
        cuda("cudaMemsetAsync", data, 0, ctypes.c_size_t(size), stream)

    def reduce(communicator, stream, count):
        communicator._check(gpu.nccl.ncclAllReduce(data, data, ctypes.c_size_t(count), 7, 0,
                                                   communicator.handle, stream))

    def one_round(i):
        fill(streams[0], (1 + gpu.rank + i) << 20)
        cuda("cudaEventRecord", event, streams[0])
        cuda("cudaStreamWaitEvent", streams[1], event, 0)
        reduce(world, streams[1], 1 << 20)
        reduce(part, streams[0], 1 << 18)
        while cudart.cudaStreamQuery(streams[1]) != 0:
            pass
        fill(streams[1], 3 << 20)
        cuda("cudaStreamSynchronize", streams[1])

    for i in range(3):
        one_round(i)
        thread = threading.Thread(target=one_round, args=(i,))
        thread.start()
        thread.join()
    cuda("cudaFree", data)
    gpu.allocate(16 << 20)
    gpu.synchronize()
    """


def spans(path):
    return [event for event in json.loads(pathlib.Path(path).read_text())["traceEvents"]
            if event["ph"] == "X" and event["cat"] != "range"]


def titles(path):
    """Of rows, by the rank and GPU that they are of."""
    return sorted(event["args"]["name"]
                  for event in json.loads(pathlib.Path(path).read_text())["traceEvents"]
                  if event["ph"] == "M" and event["name"] == "process_name")


def ranges(path):
    return [event for event in json.loads(pathlib.Path(path).read_text())["traceEvents"]
            if event.get("cat") == "range"]


class Replay(JobTest):
    def replay(self, *options, cluster="h200:1x2", record="job.rec", status=0):
        where = ["--cluster", cluster] if cluster else []
        done = subprocess.run([PHANTORA, "replay", record, *where, *options],
                              cwd=self.directory, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def record(self, program, *options, **settings):
        self.run_python(program, options=["--record", "job.rec", "--trace", "live.json",
                                          "--report", "report.json", *options], **settings)

    def assert_equal_to_live(self, **settings):
        self.replay("--trace", "again.json", "--report", "again.rep", **settings)
        live = spans(self.directory / "live.json")
        self.assertEqual(live, spans(self.directory / "again.json"))
        self.assertGreater(len(live), 10)
        again = json.loads((self.directory / "again.rep").read_text())
        report = self.report()
        for what in ("cluster", "gpu", "simulated_s", "gpu_memory_bytes", "kernels"):
            self.assertEqual(again[what], report[what], what)
        for mine, theirs in zip(again["ranks"], report["ranks"], strict=True):
            self.assertEqual({what: mine[what] for what in theirs}, theirs)
        self.assertEqual(titles(self.directory / "live.json"),
                         titles(self.directory / "again.json"))


class Replays(Replay):
    def test_every_operation_takes_place_when_it_did(self):
        self.record(NATIVE, "--host-time", "off", cluster="h200:2x2")
        self.assert_equal_to_live(cluster="h200:2x2")

    def test_of_a_graph_too(self):
        self.record("""
            from graph import *
            s, side, a = stream(), stream(), allocate(1 << 24)
            fork, join = event(), event()
            begin(s)
            fill(a, 0, 1 << 20, s)
            cuda("cudaEventRecord", fork, s)
            cuda("cudaStreamWaitEvent", side, fork, 0)
            for on in (s, side, s, side):
                fill(a, 0, 1 << 22, on)
            cuda("cudaEventRecord", join, side)
            cuda("cudaStreamWaitEvent", s, join, 0)
            fill(a, 0, 1 << 20, s)
            run = instantiate(end(s))
            for _ in range(3):
                launch(run, s)
                fill(a, 0, 1 << 20, s)
            synchronize(s)
            """, "--host-time", "off", cluster="h200:1x1")
        self.assert_equal_to_live(cluster="h200:1x1")

    def test_and_where_calls_take_time(self):
        self.record(NATIVE, "--host-time", "fixed:1500")
        self.assert_equal_to_live()

    def test_and_where_host_time_is_measured(self):
        self.record(NATIVE)
        self.assert_equal_to_live()

    def test_host_time_is_scaled(self):
        self.record(NATIVE, "--host-time", "fixed:2000000")
        self.replay("--report", "slow.rep")
        self.replay("--report", "fast.rep", "--host-scale", "0")
        slow, fast = (json.loads((self.directory / name).read_text())["simulated_s"]
                      for name in ("slow.rep", "fast.rep"))
        self.assertGreater(slow, fast + 0.050)

    def test_a_run_that_was_cut_short_leaves_what_was_simulated(self):
        # The last all_reduce is called by rank 0 alone.
        program = NATIVE + """
    if gpu.rank == 1:
        raise SystemExit(3)
    reduce(world, streams[0], 1 << 22)
    gpu.synchronize()
    """
        job = self.run_python(program, status=3,
                              options=["--record", "job.rec", "--trace", "live.json",
                                       "--host-time", "fixed:1500"])
        self.assertIn("the record ends where the last ranks met", job.out)
        self.assertIn("what was recorded until then", self.replay("--trace", "again.json"))
        live, again = (spans(self.directory / name) for name in ("live.json", "again.json"))
        self.assertEqual(live, again)
        self.assertGreater(len(live), 10)

    def test_a_record_knows_its_cluster_and_variables(self):
        self.record("""
            import ctypes
            import gpu
            gpu.set_device()
            world = gpu.Communicator()
            data = gpu.allocate(64 << 20)
            for i in range(12):
                world._check(gpu.nccl.ncclAllReduce(data, data, ctypes.c_size_t(1 << 20), 7, 0,
                                                    world.handle, None))
            gpu.synchronize()
            """, "--host-time", "off", "--gpu-memory", "4GB",
                    environment={"NCCL_MAX_NCHANNELS": "1"})
        self.assert_equal_to_live(cluster=None)
        text = self.replay(cluster=None)
        self.assertIn("replayed on h200:1x2", text)
        again = json.loads((self.directory / "again.rep").read_text())
        self.assertEqual([rank["memory_bytes"] for rank in again["ranks"]], [4 * 10**9] * 2)
        wide = self.replay("--nccl", "NCCL_MAX_NCHANNELS=8", cluster=None)
        simulated = [line for line in text.splitlines() if "simulated time" in line]
        self.assertNotIn(simulated[0], wide)

    def test_variants_are_what_each_is_alone(self):
        self.record(NATIVE, "--host-time", "fixed:1500")
        lines = ["--cluster h200:2x1 --host-scale 2", "--cluster h100:1x2", "--nccl NCCL_ALGO=Tree",
                 "--cluster h200:2x2 --widen 2x", "--gpu-memory 1GB", "--cluster h200:1x1"]
        (self.directory / "all.txt").write_text("# what if\n\n" + "\n".join(lines) + "\n")
        text = self.replay("--variants", "all.txt", "--report", "all.json", status=2)
        self.assertIn("6 variants in", text)
        self.assertIn("--cluster h200:1x1: a workload of 2 ranks on 1 GPUs", text)
        self.assertIn("(does not fit)", text)
        for line, entry in zip(lines[:5], json.loads((self.directory / "all.json").read_text())):
            self.assertEqual(entry["variant"], line)
            self.replay(*line.split(), "--report", "one.json",
                        cluster=None if "--cluster" in line else "h200:1x2")
            one = json.loads((self.directory / "one.json").read_text())
            self.assertEqual(entry["simulated_s"], one["simulated_s"], line)
            self.assertGreater(entry["simulated_s"], 0)

    def test_bad_files_and_options_are_refused(self):
        self.record(NATIVE, "--host-time", "off")
        whole = (self.directory / "job.rec").read_bytes()
        (self.directory / "short.rec").write_bytes(whole[:len(whole) // 2])
        self.assertIn("short.rec: byte ", self.replay(record="short.rec", status=2))
        (self.directory / "other.rec").write_bytes(b"something else")
        self.assertIn("expected a workload, got other bytes",
                      self.replay(record="other.rec", status=2))
        version = len(b"PHANTORA-WORKLOAD\n")
        newer = whole[:version] + b"\x63" + whole[version + 1:]
        (self.directory / "newer.rec").write_bytes(newer)
        self.assertRegex(self.replay(record="newer.rec", status=2),
                         r"phantora_workload: expected a whole number from 1 to \d+, got 99")
        self.assertIn("cannot be read", self.replay(record="none.rec", status=2))
        self.assertIn("2 ranks on 1 GPUs", self.replay(cluster="h200:1x1", status=2))
        self.assertIn("expected NAME=VALUE", self.replay("--nccl", "ALGO", status=2))
        self.assertIn("expected a factor", self.replay("--widen", "8", status=2))
        self.assertIn("replicas", self.replay("--widen", "2x", "--replica", "3", status=2))
        (self.directory / "bad.txt").write_text("# one\n--clutser h200:1x2\n")
        self.assertIn("bad.txt:2: ", self.replay("--variants", "bad.txt", status=2))
        self.assertIn("--gpu-memory", self.replay("--gpu-memory", "much", status=2))


class ReplaysTorch(Replay):
    def test_ranges_lie_where_they_did_and_end_steps(self):
        self.record(report_test.StepMarker.PROGRAM, "--host-time", "off", torch=True, cluster="h200:1x1")
        settings = {"cluster": "h200:1x1"}
        self.assert_equal_to_live(**settings)
        live, again = (ranges(self.directory / name) for name in ("live.json", "again.json"))
        self.assertEqual(live, again)
        self.assertEqual([event["name"] for event in again][:4],
                         ["update", "update", "two updates", "between"])
        for marker, steps in (("two updates", 5), ("between", 5), ("optimizer", 11), ("none", 0)):
            self.replay("--step-marker", marker, "--report", "steps.rep", **settings)
            rank, = json.loads((self.directory / "steps.rep").read_text())["ranks"]
            self.assertEqual(rank["steps"], steps, marker)
        # On another GPU they are as long as their work is there.
        self.replay("--trace", "slow.json", cluster="l40s:1x1")
        slow = ranges(self.directory / "slow.json")
        self.assertEqual([event["name"] for event in slow], [event["name"] for event in live])
        self.assertNotEqual(slow[2]["dur"], live[2]["dur"])

    def test_ddp_takes_place_when_it_did(self):
        self.record(report_test.DDP, "--host-time", "off", torch=True)
        self.assert_equal_to_live()

    def test_and_where_host_time_is_measured(self):
        self.record(report_test.DDP, torch=True)
        self.assert_equal_to_live()


if __name__ == "__main__":
    main()
