"""How runs fail: one clear message, the right status, nothing left behind (issue 2, section F)."""
import json
import os
import pathlib
import re
import signal
import time

from job import PYTHON, JobTest, main, marked_processes

REDUCE = """
    import gpu, os, signal, sys, time
    gpu.set_device()
    buffer = gpu.allocate(4 << 20)
    everyone = gpu.Communicator()
    everyone.all_reduce(buffer, 1 << 20)
    gpu.synchronize()
"""


class DyingRank(JobTest):
    """Rank 1 of 3 dies while the others wait for it in a collective."""

    def dies(self, how, status, said):
        job = self.run_python(
            REDUCE + f"""
    if gpu.rank == 1:
        {how}
    everyone.all_reduce(buffer, 1 << 20)
    gpu.synchronize()
    print("went on")
""", cluster="h200:1x3", status=status, timeout=30)
        self.assert_one_message(job, "rank 1 " + said)
        self.assertNotIn("went on", job.out)
        self.assertLess(job.seconds, 15)
        return job

    def test_exception(self):
        job = self.dies("raise ValueError('the reason')", 1, "exited with status 1")
        self.assertEqual(job.err.count("ValueError: the reason"), 1, job.err)

    def test_exit_without_cleanup(self):
        self.dies("os._exit(3)", 3, "exited with status 3")

    def test_sigkill(self):
        self.dies("os.kill(os.getpid(), signal.SIGKILL)", 137, "was killed by signal 9")

    def test_segmentation_fault(self):
        self.dies("import ctypes; ctypes.string_at(0)", 139, "was killed by signal 11")

    def test_status_is_that_of_the_first_rank_that_fails(self):
        job = self.run_python("""
            import gpu, os, time
            gpu.set_device()
            if gpu.rank == 0:
                time.sleep(0.7)
                os._exit(4)
            os._exit(5)
            """, status=5, timeout=30)
        self.assert_one_message(job, "rank 1 exited with status 5")

    def test_a_run_after_a_failed_one_works(self):
        self.dies("os._exit(3)", 3, "exited with status 3")
        self.run_python(REDUCE, cluster="h200:1x3", timeout=30)


class MissingRank(JobTest):
    """A collective that some rank never joins ends the run, and says who waits for whom."""

    def test_rank_that_ends_without_joining(self):
        job = self.run_python(
            REDUCE + """
    if gpu.rank != 2:
        everyone.all_reduce(buffer, 1 << 20)
        gpu.synchronize()
    """, cluster="h200:2x2", status=70, timeout=30)
        self.assert_one_message(job, "all_reduce of 4194304 bytes", "communicator of ranks 0-3",
                                "ranks 0, 1, 3 wait since", "rank 2 has not called it and has ended")
        self.assertLess(job.seconds, 15)

    def test_message_names_global_ranks_of_a_part(self):
        job = self.run_python(
            REDUCE + """
    part = everyone.split(gpu.rank % 2)
    if gpu.rank != 3:
        part.all_reduce(buffer, 1 << 20)
        gpu.synchronize()
    """, cluster="h200:1x4", status=70, timeout=30)
        self.assert_one_message(job, "all_reduce", "communicator of ranks 1, 3", "rank 1 waits",
                                "rank 3")

    def test_ranks_that_wait_for_each_other(self):
        job = self.run_python(
            REDUCE + """
    first, second = everyone.split(0), everyone.split(0)
    (first if gpu.rank == 0 else second).all_reduce(buffer, 1 << 20)
    gpu.synchronize()
    """, status=70, timeout=30)
        self.assert_one_message(job, "rank 0 waits", "rank 1 waits")
        self.assertLess(job.seconds, 15)

    def test_link_that_is_down(self):
        cluster = self.directory / "cluster.toml"
        cluster.write_text('[[hosts]]\ncount = 2\ngpus = 1\n[[failures]]\nat = "0ms"\nnode = "leaf0"\n')
        job = self.run_python(REDUCE, cluster=str(cluster), status=70, timeout=30)
        self.assert_one_message(job, "all_reduce on a communicator of 2 ranks: stalled", "leaf0",
                                "is down and no route avoids it")
        self.assertNotIn("in the same order", job.err)

    def test_rank_that_sleeps_for_ever(self):
        job = self.run_python(
            REDUCE + """
    while gpu.rank == 1:
        time.sleep(0.1)
    everyone.all_reduce(buffer, 1 << 20)
    gpu.synchronize()
    """, status=70, timeout=60, options=["--stall-timeout", "3"])
        self.assert_one_message(job, "all_reduce", "rank 0 waits", "rank 1", "has not called")

    def test_one_long_sleep_is_no_stall(self):
        self.run_python(
            REDUCE + """
    if gpu.rank == 1:
        time.sleep(5)
    everyone.all_reduce(buffer, 1 << 20)
    gpu.synchronize()
    """, timeout=60, options=["--stall-timeout", "2"])

    def test_message_without_a_receiver(self):
        job = self.run_python(
            REDUCE + """
    if gpu.rank == 0:
        everyone.send(buffer, 1 << 20, 1)
        gpu.synchronize()
    """, status=70, timeout=30)
        self.assert_one_message(job, "send", "rank 0 waits", "rank 1")
        self.assertLess(job.seconds, 15)

    def test_communicator_that_a_rank_never_joins(self):
        job = self.run_python("""
            import ctypes, gpu
            gpu.set_device()
            if gpu.rank != 1:
                unique = gpu.UniqueId(b"the same everywhere")
                handle = ctypes.c_void_p()
                gpu.nccl.ncclCommInitRank(ctypes.byref(handle), 3, unique, gpu.rank)
            """, cluster="h200:1x3", status=70, timeout=30)
        self.assert_one_message(job, "ncclCommInitRank", "3 ranks", "ranks 0, 2", "rank 1")
        self.assertLess(job.seconds, 15)

    def test_split_that_a_rank_never_joins(self):
        job = self.run_python(
            REDUCE + """
    if gpu.rank != 1:
        everyone.split(0)
    """, cluster="h200:1x3", status=70, timeout=30)
        self.assert_one_message(job, "ncclCommSplit", "ranks 0, 2", "rank 1")

    def test_different_operations_do_not_match(self):
        job = self.run_python(
            REDUCE + """
    if gpu.rank == 0:
        everyone.all_reduce(buffer, 1 << 20)
    else:
        everyone.broadcast(buffer, 1 << 20, 0)
    gpu.synchronize()
    """, status=70, timeout=30)
        self.assert_one_message(job, "rank 0 calls all_reduce", "rank 1 calls broadcast")


class OutOfMemory(JobTest):
    def test_cuda_error_of_an_allocation_too_large(self):
        job = self.run_python("""
            import ctypes, gpu
            gpu.set_device()
            address = ctypes.c_void_p()
            size = ctypes.c_size_t(9 << 30)
            print(gpu.cudart.cudaMalloc(ctypes.byref(address), size))
            free, total = ctypes.c_size_t(), ctypes.c_size_t()
            gpu.cuda("cudaMemGetInfo", ctypes.byref(free), ctypes.byref(total))
            print(total.value)
            """, cluster="h200:1x1", options=["--gpu-memory", "8GB"], timeout=30)
        self.assertIn("2\n8000000000\n", job.out)  # cudaErrorMemoryAllocation


class BadArguments(JobTest):
    """Said once, before anything is started."""

    def refused(self, status, *parts, command=("true",), **settings):
        job = self.run_job(list(command), status=status, timeout=20, **settings)
        self.assertEqual(job.out, "")
        self.assertLessEqual(len(job.err.strip().splitlines()), 2, job.err)
        for part in parts:
            self.assertIn(part, job.err)

    def test_unknown_cluster(self):
        self.refused(2, "h900", "h200", cluster="h900:1x2")

    def test_malformed_cluster(self):
        self.refused(2, "h200:2by8", "PRESET:HOSTSxGPUS", cluster="h200:2by8")

    def test_missing_program(self):
        self.refused(127, "no-such-program", "PATH", command=["no-such-program"])

    def test_missing_program_by_path(self):
        self.refused(127, "./no/such/python", "examples/quickstart.sh",
                     command=["./no/such/python", "train.py"])

    def test_program_that_is_not_executable(self):
        plain = self.directory / "plain.txt"
        plain.write_text("text")
        self.refused(126, "plain.txt", "not executable", command=[str(plain)])

    def test_bad_host_time(self):
        self.refused(None, "--host-time", "fixed:NS", "sometimes",
                     options=["--host-time", "sometimes"])

    def test_host_times_beyond_the_clock(self):
        self.refused(None, "--host-time", "12 digits",
                     options=["--host-time", "fixed:99999999999999999999"])
        self.refused(None, "--host-scale", "finite", options=["--host-scale", "nan"])

    def test_bad_memory_size(self):
        for size in ("lots", "0", "inf", "1e300GB", "0x10GB"):
            with self.subTest(size=size):
                self.refused(2, "--gpu-memory", "80GB", size, options=["--gpu-memory", size])

    def test_unwritable_report(self):
        self.refused(2, "report", "/no/such/folder/report.json",
                     options=["--report", "/no/such/folder/report.json"])

    def test_unwritable_trace(self):
        self.refused(2, "trace", "/no/such/folder/trace.json",
                     options=["--trace", "/no/such/folder/trace.json"])

    def test_report_that_is_a_folder(self):
        self.refused(2, "report", str(self.directory),
                     options=["--report", str(self.directory)])

    def test_unknown_sync(self):
        self.refused(2, "--sync", options=["--sync", "optimistic"])


class PartialReports(JobTest):
    """A run that fails writes what was simulated until then, and says that it failed."""

    def partial(self, source, status, why):
        job = self.run_python(source, status=status, timeout=30,
                              options=["--report", "report.json", "--trace", "trace.json"])
        report = self.report()
        self.assertEqual(report["status"], status)
        self.assertIn(why, report["partial"])
        self.assertGreater(report["simulated_s"], 0)
        self.assertRegex(job.out, r"(?m)^  partial +.*" + re.escape(why))
        events = json.loads((self.directory / "trace.json").read_text())["traceEvents"]
        self.assertIn("all_reduce", {event["name"].split()[0] for event in events})

    def test_stalled_run(self):
        self.partial(REDUCE + """
    if gpu.rank == 0:
        everyone.all_reduce(buffer, 1 << 20)
        gpu.synchronize()
    """, 70, "the run is stalled")

    def test_failed_rank(self):
        self.partial(REDUCE + """
    if gpu.rank == 1:
        os._exit(3)
    everyone.all_reduce(buffer, 1 << 20)
    gpu.synchronize()
    """, 3, "rank 1 exited with status 3")

    def test_whole_run(self):
        self.run_python(REDUCE, timeout=30, options=["--report", "report.json"])
        self.assertIsNone(self.report()["partial"])


class Stopped(JobTest):
    """A run that is stopped from outside, with a child of a rank that would live on."""

    PROGRAM = """
        import gpu, os, signal, subprocess, sys, time
        gpu.set_device()
        buffer = gpu.allocate(4 << 20)
        everyone = gpu.Communicator()
        children = [os.fork(), subprocess.Popen(["sleep", "300"]).pid]
        if children[0] == 0:
            os.setsid()  # as daemons do
            time.sleep(300)
        everyone.all_reduce(buffer, 1 << 20)
        gpu.synchronize()
        print("pid", gpu.rank, os.getpid(), flush=True)
        if gpu.rank == 1:
            time.sleep(300)
        everyone.all_reduce(buffer, 1 << 20)
        gpu.synchronize()
        """

    def started(self):
        job = self.start([PYTHON, self.write("program.py", self.PROGRAM)],
                         options=["--report", "report.json"])
        job.wait_for_output("pid 0")
        job.wait_for_output("pid 1")
        self.assertGreaterEqual(len(marked_processes(job.mark)), 8)
        return job

    def ends(self, job, status, *parts):
        job.wait(20)
        self.assertEqual(job.status, status, job.text())
        self.assert_nothing_left(job)
        if parts:
            self.assert_one_message(job, *parts)
        self.run_python(REDUCE, timeout=30)  # and the next run works at once

    def rank_pid(self, job, rank):
        return int(next(line.split()[2] for line in job.out.splitlines()
                        if line.startswith(f"pid {rank} ")))

    def engine_pid(self, job):
        children = pathlib.Path(
            f"/proc/{job.process.pid}/task/{job.process.pid}/children").read_text().split()
        self.assertEqual(len(children), 1)
        return int(children[0])

    def test_ctrl_c(self):
        job = self.started()
        os.killpg(job.process.pid, signal.SIGINT)
        self.ends(job, 130, "interrupted")
        self.assertIn("interrupted by signal 2", self.report()["partial"])

    def test_sigterm(self):
        job = self.started()
        job.process.send_signal(signal.SIGTERM)
        job.process.send_signal(signal.SIGTERM)  # as `timeout` does: to the process, to its group
        self.ends(job, 143, "interrupted")
        report = self.report()
        self.assertEqual(report["status"], 143)
        self.assertIn("interrupted by signal 15", report["partial"])

    def test_second_ctrl_c_ends_an_engine_that_does_not_answer(self):
        job = self.started()
        os.kill(self.engine_pid(job), signal.SIGSTOP)
        os.killpg(job.process.pid, signal.SIGINT)
        time.sleep(1.5)
        os.killpg(job.process.pid, signal.SIGINT)
        self.ends(job, 137, "interrupted again")

    def test_sighup(self):
        job = self.started()
        os.killpg(job.process.pid, signal.SIGHUP)
        self.ends(job, 129, "interrupted")

    def test_sigkill_of_the_launcher(self):
        job = self.started()
        job.process.kill()
        self.ends(job, -signal.SIGKILL)

    def test_sigkill_of_the_engine(self):
        job = self.started()
        os.kill(self.engine_pid(job), signal.SIGKILL)
        self.ends(job, 137, "the engine was killed by signal 9")

    def test_sigkill_of_launcher_and_engine_ends_the_ranks(self):
        job = self.started()
        ranks = [self.rank_pid(job, rank) for rank in (0, 1)]
        engine = self.engine_pid(job)
        job.process.kill()
        os.kill(engine, signal.SIGKILL)
        job.wait(20)
        deadline = time.monotonic() + 5
        while set(ranks) & set(marked_processes(job.mark)) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(set(ranks) & set(marked_processes(job.mark)), set())

    def test_sigkill_of_a_rank(self):
        job = self.started()
        os.kill(self.rank_pid(job, 0), signal.SIGKILL)
        self.ends(job, 137, "rank 0 was killed by signal 9")
        self.assertNotIn("memory", job.err)


class OutOfMemoryInTorch(JobTest):
    def test_torch_out_of_memory_error(self):
        job = self.run_python("""
            import torch
            held = torch.empty(3 << 30, dtype=torch.uint8, device="cuda")
            try:
                torch.empty(6 << 30, dtype=torch.uint8, device="cuda")
            except torch.OutOfMemoryError as error:
                print(error)
            torch.empty(6 << 30, dtype=torch.uint8, device="cuda")
            """, torch=True, cluster="h200:1x1", options=["--gpu-memory", "8GiB"], status=1)
        self.assertIn("Tried to allocate 6.00 GiB", job.out)
        self.assertIn("total capacity of 8.00 GiB", job.out)
        self.assertIn("3.00 GiB is allocated by PyTorch", job.out)
        self.assertIn("torch.OutOfMemoryError", job.err)
        self.assert_one_message(job, "rank 0 exited with status 1")


class StoppedTorch(JobTest):
    """PyTorch's own processes and threads end with the run."""

    def test_ctrl_c_with_data_loader_workers(self):
        program = self.write("program.py", """
            import os, time, torch
            from torch.utils.data import DataLoader

            class Endless(torch.utils.data.IterableDataset):
                def __iter__(self):
                    while True:
                        yield torch.ones(1 << 10)

            torch.cuda.set_device(0)
            for i, batch in enumerate(DataLoader(Endless(), batch_size=4, num_workers=2)):
                batch.cuda()
                if i == 3:
                    print("loading", flush=True)
            """)
        job = self.start([program], torch=True, cluster="h200:1x1")
        job.wait_for_output("loading")
        self.assertGreaterEqual(len(marked_processes(job.mark)), 5)
        os.killpg(job.process.pid, signal.SIGINT)
        job.wait(30)
        self.assertEqual(job.status, 130, job.text())
        self.assert_nothing_left(job)


if __name__ == "__main__":
    main()
