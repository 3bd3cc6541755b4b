"""Virtual time as a program sees it (design section 4, rules 1, 2, 4 and 9)."""
import re

from job import PROGRAMS, PYTHON, JobTest, main, printed

MODES = ("off", "fixed:1000", "measured")


class Clocks(JobTest):
    """All clocks and waits of clocks.py, in every host-time mode."""

    def agree(self, mode):
        job = self.run_job([PYTHON, PROGRAMS / "clocks.py"], cluster="h200:1x1",
                           options=["--host-time", mode], timeout=20)
        self.assertIn("clocks agree", job.out)

    def test_off(self):
        self.agree("off")

    def test_fixed(self):
        self.agree("fixed:1000")

    def test_measured(self):
        self.agree("measured")


class NativeWaits(JobTest):
    """std::future, std::condition_variable and std::this_thread, from C++."""

    def test_waits_return(self):
        import os
        for mode in MODES:
            job = self.run_job([os.environ["PHANTORA_WAITS"]], cluster="h200:1x1",
                               options=["--host-time", mode], timeout=20)
            self.assertIn("waits return", job.out)

    def test_waits_return_without_a_gpu(self):
        import os
        for mode in MODES:
            job = self.run_job([os.environ["PHANTORA_WAITS"], "outside"], cluster="h200:1x1",
                               options=["--host-time", mode, "--per", "run"], timeout=20)
            self.assertIn("waits return", job.out)


class FrontEnd(JobTest):
    """A process that uses no GPU, beside one that does: its clocks follow the run."""

    PROGRAM = """
        import ctypes, multiprocessing, os, threading, time

        def serve(pipe):
            os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1")
            import gpu
            gpu.set_device()
            size = 1 << 36
            buffer = gpu.allocate(size)
            for request in iter(pipe.recv, None):
                start = time.perf_counter()
                for _ in range(request):
                    gpu.cuda("cudaMemsetAsync", buffer, 0, ctypes.c_size_t(size), None)
                gpu.synchronize()
                pipe.send(time.perf_counter() - start)
            pipe.recv()
            burnt = time.thread_time() + 3  # of the processor, which mode off charges nobody
            while time.thread_time() < burnt:
                pass
            gpu.synchronize()
            pipe.send("late")

        if __name__ == "__main__":
            context = multiprocessing.get_context("spawn")
            ours, theirs = context.Pipe()
            child = context.Process(target=serve, args=(theirs,))
            child.start()
            theirs.close()
            for request in (0, 1, 10, 100, 1000):
                start = time.perf_counter()
                ours.send(request)
                answer = ours.recv()
                print("took", repr(time.perf_counter() - start), repr(answer), flush=True)
            # 21 s of the GPU's: this time-out comes within them.
            waits = threading.Event()
            ours.send(1000)
            start = time.perf_counter()
            waits.wait(5)
            print("waited", repr(time.perf_counter() - start), flush=True)
            print("then", ours.recv() > 5, flush=True)
            ours.send(None)
            ours.send(None)
            print("came", ours.poll(1.5), flush=True)
            child.join()
        """

    def run_program(self, mode):
        program = self.write("program.py", self.PROGRAM)
        return self.run_job([PYTHON, program], cluster="h200:1x1", timeout=60,
                            options=["--per", "run", "--host-time", mode]).out

    def test_reads_what_the_gpu_took(self):
        out = self.run_program("off")
        took = re.findall(r"took (\S+) (\S+)", out)
        self.assertEqual(len(took), 5, out)
        for here, there in took[1:]:  # before the first, the run had not begun
            # Clocks show whole nanoseconds, of which a double near the epoch rounds some off.
            self.assertAlmostEqual(float(here), float(there), delta=1e-6)
        self.assertGreater(float(took[-1][0]), 20)

    def test_times_out_by_simulated_time(self):
        out = self.run_program("off")
        self.assertGreaterEqual(float(re.search(r"waited (\S+)", out)[1]), 5)
        self.assertIn("then True", out)
        # However long its simulation takes, the rank answers in no simulated time.
        self.assertIn("came True", out)


class Pinged(JobTest):
    """A rank waits for a process that waits by its clock, and meanwhile answers pings beside services, as Ray's
    workers do. By the rank's clock, to which pings add the little that they compute, the wait took a minute."""

    PROGRAM = """
        import multiprocessing, os, threading, time

        def serve(orders, pings):
            os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1")
            import gpu
            gpu.set_device()
            gpu.synchronize()
            threading.Thread(target=lambda: [pings.send(n) for n in iter(pings.recv, None)]).start()
            orders.send("ready")
            for order in iter(orders.recv, None):
                orders.send(order)

        def works_now_and_then():
            while True:
                burnt = time.thread_time() + 0.02
                while time.thread_time() < burnt:
                    pass
                time.sleep(0.01)

        if __name__ == "__main__":
            context = multiprocessing.get_context("spawn")
            service = context.Process(target=works_now_and_then, daemon=True)
            service.start()
            orders, theirs = context.Pipe()
            pings, answers = context.Pipe()
            child = context.Process(target=serve, args=(theirs, answers))
            child.start()
            print(orders.recv(), flush=True)
            done = threading.Event()

            def ping():
                count = 0
                while not done.is_set():
                    pings.send(count)
                    assert pings.recv() == count
                    count += 1
                    time.sleep(0.05)
                pings.send(None)
            pinging = threading.Thread(target=ping)
            pinging.start()
            start = time.perf_counter()
            threading.Event().wait(5)
            assert time.perf_counter() - start >= 5
            orders.send(1)
            print("order", orders.recv(), flush=True)
            done.set()
            pinging.join()
            orders.send(None)
            child.join()
            print("ends", child.exitcode, flush=True)
        """

    def test_their_controllers_waits_end(self):
        program = self.write("program.py", self.PROGRAM)
        for mode in ("measured", "off"):
            out = self.run_job([PYTHON, program], cluster="h200:1x1", timeout=30,
                               options=["--per", "run", "--host-time", mode]).out
            self.assertIn("order 1", out)
            self.assertIn("ends 0", out)


class Allocator(JobTest):
    """A program whose allocator reads the clock and takes locks, as jemalloc does."""

    def test_allocates(self):
        import os
        for mode in MODES:
            job = self.run_job([os.environ["PHANTORA_ALLOCATOR"]], cluster="h200:1x1",
                               options=["--host-time", mode], timeout=20)
            self.assertIn("allocated", job.out)


class BusyThread(JobTest):
    """A thread that spins beside the one that issues work."""

    PROGRAM = """
        import ctypes, gpu, sys, threading, time
        gpu.set_device()
        size = 1 << 28
        buffer = gpu.allocate(size)
        stop = False
        def spin():
            while not stop:
                pass
        def spin_without_the_lock():
            import zlib
            block = bytes(1 << 22)
            while not stop:
                zlib.crc32(block)  # releases the GIL
        kind = sys.argv[1]
        if kind != "none":
            threading.Thread(target=spin if kind == "python" else spin_without_the_lock,
                             daemon=True).start()
        times = []
        for step in range(20):
            start = time.perf_counter()
            for _ in range(10):
                gpu.cuda("cudaMemsetAsync", buffer, 0, ctypes.c_size_t(size), None)
            gpu.synchronize()
            times.append(time.perf_counter() - start)
        stop = True
        times.sort()
        print("step", repr(times[len(times) // 2]), flush=True)
        """

    def step(self, kind, *options):
        program = self.write("program.py", self.PROGRAM)
        job = self.run_job([PYTHON, program, kind], cluster="h200:1x1", options=options, timeout=60)
        return float(re.search(r"step (\S+)", job.out)[1])

    def test_nobody_sees_it(self):
        # The last charges what API calls cost and nothing for CPU time, which varies from run to
        # run. What spinning costs those who issue work (caches, the interpreter's lock) is theirs.
        for options in (("--host-time", "off"), ("--host-time", "fixed:1000"),
                        ("--host-time", "measured", "--host-scale", "0")):
            alone = self.step("none", *options)
            self.assertGreater(alone, 1e-4)
            for kind in ("python", "native"):
                # Steps differ by the rounding of a double near the epoch's nanoseconds.
                self.assertAlmostEqual(self.step(kind, *options), alone, delta=1e-6,
                                       msg=(kind, options))


class Recurrent(JobTest):
    """cuDNN launches every step of a recurrent network by itself, which keeps the host."""

    PROGRAM = """
        import time, torch
        def forward(net, steps):
            x = torch.zeros(steps, 16, net.input_size, device="cuda", dtype=net.weight_hh_l0.dtype)
            for _ in range(2):
                torch.cuda.synchronize()
                begin = time.perf_counter()
                net(x)
                took = time.perf_counter() - begin
            print("took", steps, took)
        for net in (torch.nn.GRU(256, 256, 2), torch.nn.LSTM(128, 128).half()):
            net.cuda()
            for steps in (64, 164):
                forward(net, steps)
        """

    def test_keeps_the_host(self):
        out = self.run_python(self.PROGRAM, torch=True, cluster="h200:1x1",
                              options=["--host-time", "measured", "--host-scale", "0"], timeout=60).out
        took = [float(seconds) for _, seconds in re.findall(r"took (\d+) (\S+)", out)]
        self.assertEqual(len(took), 4, out)
        # 100 steps more of two layers, 14.9 us each (host_cost.hpp); other calls differ by their gaps.
        self.assertAlmostEqual(took[1] - took[0], 2 * 100 * 14.9e-6, delta=50e-6)
        # The units of the second network stay in the SMs, in one kernel for all steps.
        self.assertAlmostEqual(took[3] - took[2], 0, delta=50e-6)


class Unequal(JobTest):
    """asymmetric.py: unequal ranks and random real delays; equal virtual times in every run."""

    RUNS = 6
    maxDiff = None

    def test_equal_in_every_run(self):
        first = None
        ways = [((), ()), (("--runnable", "1"), ()), (("--runnable", "2"), ()),
                (("--runnable", "4"), ()), ((), ("taskset", "-c", "0")),
                (("--runnable", "4"), ("taskset", "-c", "0"))]
        for i in range(self.RUNS):
            options, prefix = ways[i % len(ways)]
            job = self.run_job([PROGRAMS / "asymmetric.py"], torch=True, cluster="h200:2x2",
                               options=["--host-time", "off", "--report", "report.json", *options],
                               prefix=prefix, timeout=120)
            lines = printed(job)
            self.assertEqual(len([line for line in lines if "[" in line]), 4, job.text())
            result = ([line for line in lines if "[" in line],
                      (self.directory / "report.json").read_bytes())
            first = first or result
            self.assertEqual(result[0], first[0], (i, options, prefix))
            self.assertEqual(result[1], first[1], (i, options, prefix))
        self.assertEqual(self.report()["forced_answers"], 0)


class UnequalOften(Unequal):
    """The same, twenty times."""

    RUNS = 20


if __name__ == "__main__":
    main()
