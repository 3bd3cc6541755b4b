"""Processes that help a rank, as its data loaders do: what they compute takes its time."""
import re

from job import JobTest, main


class Helpers(JobTest):
    """Python's ways to have work done by other processes, each of which sleeps for 20 ms a piece."""

    PROGRAM = """
        import concurrent.futures, multiprocessing, os, queue, threading, time
        import gpu

        def slow(x):
            time.sleep(0.02)
            return x

        def serve(requests, answers):
            for x in iter(requests.get, None):
                answers.put(slow(x))

        def answer(pipe):
            for x in iter(pipe.recv, None):
                pipe.send(slow(x))

        def took(what, ask, expected):
            ask()  # starts what is to be started
            begin = time.perf_counter()
            ask()
            ms = 1e3 * (time.perf_counter() - begin)
            print(f"{what}: {ms:.3f} ms of {expected}", flush=True)

        if __name__ == "__main__":
            gpu.set_device()
            gpu.allocate(1 << 20)
            for method in ("fork", "spawn", "forkserver"):
                context = multiprocessing.get_context(method)
                requests, answers = context.Queue(), context.Queue()
                context.Process(target=serve, args=(requests, answers), daemon=True).start()
                def by_queue():
                    requests.put(1)
                    answers.get()
                took(f"{method} queue", by_queue, 20)
                # Two are asked for at once: the second is begun when the first is done.
                took(f"{method} two", lambda: [requests.put(1), requests.put(2), answers.get(), answers.get()], 40)
                inner = queue.Queue()
                def pass_on():
                    while True:
                        inner.put(answers.get())
                threading.Thread(target=pass_on, daemon=True).start()
                def by_thread():
                    requests.put(1)
                    inner.get(timeout=5)
                took(f"{method} thread", by_thread, 20)
                here, there = context.Pipe()
                context.Process(target=answer, args=(there,), daemon=True).start()
                took(f"{method} pipe", lambda: [here.send(1), here.recv()], 20)
                with context.Pool(2) as pool:
                    took(f"{method} pool", lambda: pool.map(slow, range(4), chunksize=1), 40)
                with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
                    took(f"{method} executor", lambda: list(pool.map(slow, range(4))), 40)
            print("all answered", flush=True)
            os._exit(0)
        """

    def test_answers_come_when_they_are_ready(self):
        job = self.run_python(self.PROGRAM, cluster="h200:1x1", options=["--host-time", "off"], timeout=120)
        self.assertIn("all answered", job.out)
        taken = re.findall(r"^(.+): ([\d.]+) ms of (\d+)$", job.out, re.M)
        self.assertEqual(len(taken), 18)
        for what, ms, expected in taken:
            with self.subTest(what=what):
                # Which of two gets the next piece is decided in real time, on a busy machine one may get all.
                most = 2 if what.split()[1] in ("pool", "executor") else 1
                self.assertGreaterEqual(float(ms), float(expected) - 1e-3)
                self.assertLessEqual(float(ms), most * float(expected) + 1)


class Ahead(JobTest):
    """A process that is ahead of its rank, whose answers a thread of the rank reads as soon as they have been written."""

    PROGRAM = """
        import multiprocessing, os, queue, threading, time
        import gpu

        def load(pipe):
            for i in range(8):
                time.sleep(0.02)
                pipe.send(i)

        def compute():
            # Takes no time, since host time is off, but some milliseconds of real time.
            sum(range(300_000))

        gpu.set_device()
        gpu.allocate(1 << 20)
        for what in ("at once", "late"):
            here, there = multiprocessing.Pipe(duplex=False)
            ready = queue.Queue()
            def read():
                for _ in range(8):
                    ready.put(here.recv())
            begin = time.perf_counter()
            multiprocessing.Process(target=load, args=(there,), daemon=True).start()
            threading.Thread(target=read, daemon=True).start()
            ends = []
            for _ in range(30 if what == "late" else 8):
                compute()
                if what == "late":
                    time.sleep(0.001)
                else:
                    ready.get()
                ends.append(round(1e3 * (time.perf_counter() - begin)))
            print(what, *ends, flush=True)
        os._exit(0)
        """

    def test_nothing_is_read_before_its_time(self):
        job = self.run_python(self.PROGRAM, cluster="h200:1x1", options=["--host-time", "off"], timeout=60)
        # One after the other, though all were there before the first was asked for; and who computes beside
        # the reader takes turns at Python's lock with it, and not its time.
        self.assertIn(" ".join(["at once", *map(str, range(20, 161, 20))]), job.out)
        self.assertIn(" ".join(["late", *map(str, range(1, 31))]), job.out)


class Loaders(JobTest):
    """PyTorch's DataLoader, whose items take 10 ms each: two workers have a batch of four every 20 ms."""

    PROGRAM = """
        import sys, time, torch

        class Items(torch.utils.data.Dataset):
            def __len__(self):
                return 400
            def __getitem__(self, index):
                time.sleep(0.01)
                return torch.ones(1000)

        model = torch.nn.Linear(1000, 10).cuda()
        for pin in (False, True):
            for ms in (0, 25):
                loader = torch.utils.data.DataLoader(Items(), batch_size=4, num_workers=2, pin_memory=pin)
                ends = []
                for step, batch in zip(range(48), loader):
                    model(batch.cuda(non_blocking=True)).sum().backward()
                    torch.cuda.synchronize()
                    time.sleep(ms / 1e3)
                    ends.append(time.perf_counter())
                # The first batches were loaded while the first step began; two come at once.
                print(f"pinned {pin}, work {ms}: {1e3 * (ends[-1] - ends[7]) / 40:.3f} ms", flush=True)
        """

    def test_steps_wait_for_their_batches(self):
        job = self.run_python(self.PROGRAM, torch=True, cluster="h200:1x1", options=["--host-time", "off"], timeout=120)
        steps = dict(re.findall(r"^(pinned \w+, work \d+): ([\d.]+) ms$", job.out, re.M))
        for pin in (False, True):
            # What the GPU does beside takes microseconds. A step may come a batch early or late.
            self.assertAlmostEqual(float(steps[f"pinned {pin}, work 0"]), 20, delta=1.1)
            self.assertAlmostEqual(float(steps[f"pinned {pin}, work 25"]), 25, delta=0.1)


if __name__ == "__main__":
    main()
