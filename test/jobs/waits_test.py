"""Every way in which a thread can wait: runs go on, and say what is wrong where they cannot."""
import os
import re

from job import PYTHON, JobTest, main

MODES = ("off", "fixed:1000", "measured")
STILL = "nothing has moved"


class Waits(JobTest):
    """A thread waits for another that uses the GPU (blocking.cpp)."""

    def ends(self, way, does, mode):
        with self.subTest(way=way, does=does, mode=mode):
            job = self.run_job([os.environ["PHANTORA_BLOCKING"], way, does], cluster="h200:1x1",
                               options=["--host-time", mode, "--report", "report.json"],
                               timeout=60)
            self.assertIn(f"{way} ended", job.out)
            self.assertEqual(self.report()["forced_answers"], 0)

    def all_end(self, *ways, does=("poll", "synchronize")):
        for way in ways:
            for what in does:
                for mode in MODES:
                    self.ends(way, what, mode)

    def test_locks(self):
        self.all_end("mutex", "read_lock", "write_lock", "once")

    def test_notifications(self):
        self.all_end("condition", "deadline_never", "future", "atomic", "semaphore", "std_semaphore")

    def test_relays(self):
        self.all_end("relay", "long_relay", does=("poll", "synchronize", "callback"))
        # How a spinning thread's time comes about nobody sees. After a function that CUDA called,
        # that is taken for the cause.
        self.all_end("spinning_relay", does=("callback",))

    def test_callbacks(self):
        self.all_end("condition", "future", "atomic", "semaphore", "pipe", "socket",
                     does=("callback",))

    def test_descriptors(self):
        self.all_end("pipe", "socket", "unix_socket", "accepted_unix_socket", "event", "poll", "epoll")

    def test_processes(self):
        self.all_end("process")

    def test_spinning(self):
        self.all_end("yield")
        self.ends("spin", "poll", "measured")
        self.ends("spin", "synchronize", "measured")


class SilentSpin(JobTest):
    """Without measured host time nothing tells a spin from work: it is waited for, then forced."""

    def test_forced_in_the_end(self):
        job = self.run_job([os.environ["PHANTORA_BLOCKING"], "spin", "synchronize"],
                           cluster="h200:1x1",
                           options=["--host-time", "off", "--report", "report.json"], timeout=120)
        self.assertIn("spin ended", job.out)
        self.assertEqual(self.report()["forced_answers"], 1)


class Stalls(JobTest):
    """Runs that cannot go on end, and say what the rank waits for (stalling.cpp)."""

    def stalls(self, way, *parts, cluster="h200:1x1"):
        with self.subTest(way=way):
            job = self.run_job([os.environ["PHANTORA_STALLING"], way], cluster=cluster, status=70,
                               options=["--stall-timeout", "1"], timeout=60,
                               environment={"STALLING_FILE": str(self.directory / "lock")})
            self.assertNotIn("went on", job.out)
            self.assert_one_message(job, "the run is stalled", "rank 0: ", *parts)
            (self.directory / "lock").unlink(missing_ok=True)

    def test_locks(self):
        # Who waits for a lock looks again every 16 ms, and is not in a system call meanwhile.
        for way in ("mutexes", "mutex_twice", "read_write_locks"):
            self.stalls(way, "waits for a lock")

    def test_notifications(self):
        self.stalls("lost_notification", "waits for a condition variable")
        self.stalls("broken_promise", "waits for a future or an atomic")
        self.stalls("semaphore", "waits for a semaphore")

    def test_threads(self):
        self.stalls("join_of_a_thread_that_waits", "waits for the end of another thread")

    def test_what_no_hook_sees(self):
        self.stalls("pause", "sleeps in host code")
        self.stalls("file_lock", "sleeps in host code (in flock of", "lock)")
        self.stalls("stopped", "was stopped by a signal or a debugger")

    def test_host_function(self):
        self.stalls("host_function_that_waits",
                    "waits for its GPU (a synchronisation or a copy) since")

    def told(self, way, *parts):
        """What may come from outside of the run is waited for, and told after 10 s."""
        with self.subTest(way=way):
            job = self.start([os.environ["PHANTORA_STALLING"], way], cluster="h200:1x1",
                             options=["--stall-timeout", "1"])
            job.wait_for_error(STILL, 60)
            for part in parts:
                self.assertIn(part, job.err)
            job.kill()

    def test_outside(self):
        self.told("pipe", "waits for data (in read of pipe:")
        self.told("socket", "waits for data (in recvfrom of socket:")
        self.told("poll", "waits for data (in poll)")
        self.told("epoll", "waits for data (in epoll_wait of anon_inode:[eventpoll])")
        self.told("child", "waits for the end of another process (in wait4)")


class RanksThatWaitForRanks(JobTest):
    """Time travels with data between processes; a rank that waits holds up nobody."""

    def test_tcp_and_pipes(self):
        for mode in MODES:
            job = self.run_python("""
                import ctypes, gpu, socket, os, time
                gpu.set_device()
                size = 1 << 30
                buffer = gpu.allocate(size)
                port = int(os.environ["MASTER_PORT"])
                if gpu.rank == 0:
                    with socket.create_server(("127.0.0.1", port)) as server:
                        peer, _ = server.accept()
                    for _ in range(100):
                        gpu.cuda("cudaMemsetAsync", buffer, 0, ctypes.c_size_t(size), None)
                    gpu.synchronize()
                    peer.sendall(repr(time.monotonic()).encode())
                else:
                    while True:
                        try:
                            peer = socket.create_connection(("127.0.0.1", port))
                            break
                        except ConnectionRefusedError:
                            time.sleep(0.01)
                    gpu.cuda("cudaMemsetAsync", buffer, 0, ctypes.c_size_t(size), None)
                    sent = float(peer.recv(100))
                    print("received", time.monotonic() >= sent, flush=True)
                    gpu.synchronize()
                """, options=["--host-time", mode, "--report", "report.json"], timeout=60)
            self.assertIn("received True", job.out)
            self.assertEqual(self.report()["forced_answers"], 0)

    def test_unix_sockets(self):
        """As multiprocessing's listeners and pipes are, and ZeroMQ's `ipc`."""
        for mode in MODES:
            job = self.run_python("""
                import ctypes, gpu, time
                from multiprocessing.connection import Client, Listener
                gpu.set_device()
                size = 1 << 30
                buffer = gpu.allocate(size)
                if gpu.rank == 0:
                    with Listener("listener", "AF_UNIX") as listener:
                        peer = listener.accept()
                    for _ in range(100):
                        gpu.cuda("cudaMemsetAsync", buffer, 0, ctypes.c_size_t(size), None)
                    gpu.synchronize()
                    peer.send(time.monotonic())
                    start = time.monotonic()
                    print("answered after", peer.recv() - start, flush=True)
                else:
                    while True:
                        try:
                            peer = Client("listener", "AF_UNIX")
                            break
                        except (ConnectionRefusedError, FileNotFoundError):
                            time.sleep(0.01)
                    gpu.cuda("cudaMemsetAsync", buffer, 0, ctypes.c_size_t(size), None)
                    sent = peer.recv()
                    print("received", time.monotonic() >= sent, flush=True)
                    time.sleep(3)
                    peer.send(time.monotonic())
                    gpu.synchronize()
                """, options=["--host-time", mode, "--report", "report.json"], timeout=60)
            self.assertIn("received True", job.out)
            after = float(re.search(r"answered after (\S+)", job.out)[1])
            self.assertGreaterEqual(after, 3)
            self.assertLess(after, 4)
            self.assertEqual(self.report()["forced_answers"], 0)

    def test_beside_watchdogs(self):
        """Threads of rank 0 ask again and again for a collective that rank 1 has not come to, as
        NCCL's watchdogs do: that the engine hears of it does not mean that something happens."""
        job = self.run_python("""
            import ctypes, gpu, os, socket, threading, time
            gpu.set_device()
            buffer = gpu.allocate(1 << 20)
            everyone = gpu.Communicator()
            address = ("127.0.0.1", int(os.environ["MASTER_PORT"]))
            def event_of(stream):
                event = ctypes.c_void_p()
                gpu.cuda("cudaEventCreate", ctypes.byref(event))
                gpu.cuda("cudaEventRecord", event, stream)
                return event
            if gpu.rank == 0:
                server = socket.create_server(address)
                everyone.all_reduce(buffer, 1 << 10)
                reduced = event_of(None)
                def watch():
                    while gpu.cudart.cudaEventQuery(reduced) != 0:
                        time.sleep(0.001)
                watchdogs = [threading.Thread(target=watch) for _ in range(4)]
                for watchdog in watchdogs:
                    watchdog.start()
                peer, _ = server.accept()
                time.sleep(0.5)  # its clock is ahead of rank 1's from here on
                other = ctypes.c_void_p()
                gpu.cuda("cudaStreamCreateWithFlags", ctypes.byref(other), 1)
                gpu.cuda("cudaMemsetAsync", buffer, 0, ctypes.c_size_t(1 << 20), other)
                gpu.cuda("cudaStreamSynchronize", other)
                peer.sendall(b"!")
                gpu.synchronize()
                for watchdog in watchdogs:
                    watchdog.join()
            else:
                while True:
                    try:
                        peer = socket.create_connection(address)
                        break
                    except ConnectionRefusedError:
                        time.sleep(0.01)
                peer.recv(1)
                everyone.all_reduce(buffer, 1 << 10)
            gpu.synchronize()
            print("reduced", flush=True)
            """, options=["--report", "report.json"], timeout=60)
        self.assertEqual(job.out.count("reduced"), 2)
        self.assertEqual(self.report()["forced_answers"], 0)


class Outside(JobTest):
    """A rank waits for something outside of the run, and another for that rank: no stall."""

    def goes_on(self, child, **settings):
        job = self.run_python(f"""
            import gpu, subprocess, sys
            gpu.set_device()
            buffer = gpu.allocate(4 << 20)
            everyone = gpu.Communicator()
            if gpu.rank == 0:
                subprocess.run({child}, check=True)
            everyone.all_reduce(buffer, 1 << 20)
            gpu.synchronize()
            print("went on", flush=True)
            """, **settings)
        self.assertEqual(job.out.count("went on"), 2)

    def test_child_that_only_computes(self):
        """As compilers do that a rank has started: they are not taken to wait for anybody."""
        work = "x = 0\nfor i in range(150_000_000): x += 1"  # some 10 s
        self.goes_on(f"[sys.executable, '-c', {work!r}]", timeout=120,
                     options=["--stall-timeout", "2", "--report", "report.json"])
        self.assertEqual(self.report()["forced_answers"], 0)

    def test_child_that_takes_its_time(self):
        self.goes_on(["sleep", "4"], timeout=60)


class ParentOfRanks(JobTest):
    """A process that has used a GPU waits for its children, which use GPUs too."""

    PROGRAM = """
        import ctypes, gpu, os, time
        gpu.cuda("cudaSetDevice", 0)
        size = 1 << 30
        def work(times):
            buffer = gpu.allocate(size)
            start = time.monotonic()
            for _ in range(times):
                gpu.cuda("cudaMemsetAsync", buffer, 0, ctypes.c_size_t(size), None)
                gpu.synchronize()
            return time.monotonic() - start
        work(1)
        start = time.monotonic()
        child = WAY
        waited = time.monotonic() - start
        print("waited", waited >= 200 * 2e-4, flush=True)
        """

    def test_spawned_child(self):
        child = self.write("child.py", """
            import ctypes, os
            for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
                os.environ.setdefault(name, "0")
            import gpu
            gpu.cuda("cudaSetDevice", 0)
            buffer = gpu.allocate(1 << 30)
            for _ in range(200):
                gpu.cuda("cudaMemsetAsync", buffer, 0, ctypes.c_size_t(1 << 30), None)
                gpu.synchronize()
            """)
        program = self.PROGRAM.replace(
            "WAY", f"__import__('subprocess').run([__import__('sys').executable, {str(child)!r}])")
        job = self.run_python(
            "import os\nfor name in ('RANK', 'LOCAL_RANK', 'WORLD_SIZE'):\n"
            "    os.environ.setdefault(name, '0')\n" + self.dedented(program),
            cluster="h200:1x1", timeout=60,
            options=["--per", "run", "--host-time", "off", "--report", "report.json"])
        self.assertIn("waited True", job.out)
        self.assertEqual(self.report()["forced_answers"], 0)

    @staticmethod
    def dedented(text):
        import textwrap
        return textwrap.dedent(text)


class MemoryPollers(JobTest):
    """Ranks that wait for helpers which look at shared memory all the time (memory_pollers.cpp)."""

    def test_turns(self):
        import mmap
        for mode in MODES:
            with self.subTest(mode=mode):
                shared = self.directory / f"shared-{mode[:3]}"
                shared.write_bytes(bytes(mmap.PAGESIZE))
                job = self.run_job([os.environ["PHANTORA_MEMORY_POLLERS"], str(shared)],
                                   cluster="h200:1x2", timeout=60,
                                   options=["--host-time", mode, "--report", "report.json"])
                self.assertEqual(job.out.count("ended"), 2)
                self.assertEqual(self.report()["forced_answers"], 0)


class SpinningRanks(JobTest):
    """More ranks than may run at once, which spin until all have come, as MPI's do."""

    def test_barrier_in_shared_memory(self):
        import mmap
        shared = self.directory / "barrier"
        shared.write_bytes(bytes(mmap.PAGESIZE))
        job = self.run_python(f"""
            import gpu, mmap, os
            gpu.set_device()
            with open({str(shared)!r}, "r+b") as file:
                memory = mmap.mmap(file.fileno(), 0)
            memory[gpu.rank] = 1
            while not all(memory[rank] for rank in range(gpu.world)):
                os.sched_yield()
            gpu.synchronize()
            print("all came", flush=True)
            """, cluster="h200:1x4", options=["--runnable", "1"], timeout=60)
        self.assertEqual(job.out.count("all came"), 4)

    def test_for_ranks_that_are_far_ahead(self):
        # 1,000 all-reduces of 64 GiB take more than 100 s. Those who look at memory meanwhile do
        # not hold them up, though their clocks stand still, and go on as late as they end.
        import mmap
        for mode in MODES:
            with self.subTest(mode=mode):
                shared = self.directory / f"ahead-{mode[:3]}"
                shared.write_bytes(bytes(mmap.PAGESIZE))
                job = self.run_python(f"""
                    import gpu, mmap, os, time
                    gpu.set_device()
                    pair = gpu.Communicator().split(gpu.rank // 2)
                    buffer = gpu.allocate(1 << 36)
                    with open({str(shared)!r}, "r+b") as file:
                        memory = mmap.mmap(file.fileno(), 0)
                    gpu.synchronize()
                    start = time.monotonic()
                    if gpu.rank < 2:
                        time.sleep(1)  # the others have come to look
                        for _ in range(1000):
                            pair.all_reduce(buffer, 1 << 34)
                        gpu.synchronize()
                        memory[gpu.rank] = 1
                    while not (memory[0] and memory[1]):
                        os.sched_yield()
                    gpu.synchronize()
                    print("went on", time.monotonic() - start > 100, flush=True)
                    """, cluster="h200:1x4", options=["--host-time", mode], timeout=60)
                self.assertEqual(job.out.count("went on True"), 4)


class ManyAtOnce(JobTest):
    """Threads that all wait when their process first uses a GPU get their clocks at the same time."""

    def test_first_use_of_a_gpu(self):
        job = self.run_python("""
            import ctypes, select, threading

            def polls():
                with select.epoll() as nothing:
                    for _ in range(100):
                        nothing.poll(0.001)

            threads = [threading.Thread(target=polls) for _ in range(32)]
            for thread in threads:
                thread.start()
            if ctypes.CDLL("libcudart.so.13").cudaDeviceSynchronize() != 0:
                raise RuntimeError("no GPU")
            for thread in threads:
                thread.join()
            print("all went on", flush=True)
            """, cluster="h200:1x1", options=["--per", "run"], timeout=60)
        self.assertIn("all went on", job.out)


if __name__ == "__main__":
    main()
