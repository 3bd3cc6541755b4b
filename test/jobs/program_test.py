"""Programs of every kind run to their end under `phantora run`."""
import os
import re
import shutil
import subprocess
import unittest

from job import PHANTORA, PYTHON, JobTest, main, printed


class Programs(JobTest):
    def test_version(self):
        told = subprocess.run([PHANTORA, "--version"], capture_output=True, text=True, timeout=20)
        self.assertRegex(told.stdout, r"^phantora \d+\.\d+\.\d+\n$")
        self.assertEqual(told.returncode, 0)

    def test_program_without_gpu(self):
        job = self.run_job([PYTHON, "-c", "import os; print('rank', os.environ['RANK'])"],
                           cluster="h200:2x2", timeout=30)
        self.assertEqual([line for line in printed(job) if line], [f"rank {r}" for r in range(4)])
        self.assertIn("no kernels", job.out)

    def test_program_in_no_language_of_ours(self):
        job = self.run_job(["true"], cluster="h200:1x2", timeout=20)
        self.assertEqual(job.err, "")

    def test_gpu_only_in_rank_0(self):
        job = self.run_python("""
            import os, time
            if os.environ["RANK"] == "0":
                import gpu, ctypes
                gpu.set_device()
                buffer = gpu.allocate(1 << 20)
                for _ in range(50):
                    gpu.cuda("cudaMemset", buffer, 0, ctypes.c_size_t(1 << 20))
                    gpu.synchronize()
            print("done", os.environ["RANK"])
            """, cluster="h200:1x4", options=["--report", "report.json"], timeout=30)
        self.assertEqual([line for line in printed(job) if line], [f"done {r}" for r in range(4)])
        self.assertEqual([entry["kernels"] for entry in self.report()["ranks"]], [50, 0, 0, 0])

    def test_ranks_that_end_at_different_times(self):
        self.run_python("""
            import gpu, ctypes
            gpu.set_device()
            buffer = gpu.allocate(1 << 24)
            everyone = gpu.Communicator()
            everyone.all_reduce(buffer, 1 << 20)
            gpu.synchronize()
            if gpu.rank:
                rest = everyone.split(0)
                for _ in range(20 * gpu.rank):
                    gpu.cuda("cudaMemset", buffer, 0, ctypes.c_size_t(1 << 24))
                rest.all_reduce(buffer, 1 << 20)
                gpu.synchronize()
            else:
                everyone.split(-1)
            """, cluster="h200:1x3", options=["--report", "report.json"], timeout=30)
        self.assertEqual([entry["kernels"] for entry in self.report()["ranks"]], [0, 20, 40])

    def test_much_output_arrives_whole(self):
        job = self.run_job(
            [PYTHON, "-c", "import os\nfor i in range(20000): print(os.environ['RANK'], i, 'y' * 40,"
             " flush=i % 100 == 0)"], cluster="h200:1x4", timeout=60)
        report = job.out.rfind("\nphantora: ")
        # Python writes its buffer where it is full, in the middle of a line, whatever others write.
        self.assertEqual(job.out.count("y", 0, report), 4 * 20000 * 40)
        self.assertEqual(job.out.count("\n", 0, report), 80000)

    def test_first_rank_reads_the_input(self):
        job = self.run_job([PYTHON, "-c", "import os, sys; print(os.environ['RANK'],"
                            " repr(sys.stdin.read()))"], cluster="h200:1x3", stdin=b"the input\n",
                           timeout=30)
        self.assertEqual([line for line in printed(job) if line],
                         ["0 'the input\\n'", "1 ''", "2 ''"])

    def test_shell_script_around_two_programs(self):
        """The second one has the whole memory again, and goes on where the first one's time ended."""
        program = self.write("program.py", """
            import ctypes, gpu, sys, time
            gpu.set_device()
            free, total = ctypes.c_size_t(), ctypes.c_size_t()
            gpu.cuda("cudaMemGetInfo", ctypes.byref(free), ctypes.byref(total))
            buffer = gpu.allocate(100 << 30)
            gpu.cuda("cudaMemset", buffer, 0, ctypes.c_size_t(100 << 30))
            gpu.synchronize()
            print(sys.argv[1], gpu.rank, free.value, time.monotonic(), flush=True)
            """)
        script = self.directory / "train.sh"
        script.write_text(f"#!/bin/sh\n{PYTHON} {program} first && {PYTHON} {program} second\n"
                          "exit 7\n")
        script.chmod(0o755)
        job = self.run_job([script], status=7, options=["--host-time", "off"], timeout=30)
        self.assert_one_message(job, "exited with status 7")
        seen = {}
        for line in printed(job):
            if line.startswith(("first", "second")):
                when, rank, free, at = line.split()
                seen[when, int(rank)] = int(free), float(at)
        self.assertEqual(len(seen), 4, job.text())
        for rank in (0, 1):
            self.assertEqual(seen["first", rank][0], seen["second", rank][0])
            # 107 GB at 4.8 TB/s at most: 22 ms for each.
            self.assertGreater(seen["second", rank][1], seen["first", rank][1] + 0.02)

    def test_fork_and_exec_of_a_rank_live_in_real_time(self):
        job = self.run_python("""
            import gpu, multiprocessing, os, subprocess, sys, time

            def child(queue):
                before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
                time.sleep(0.01)
                queue.put((os.getpid(), time.clock_gettime_ns(time.CLOCK_MONOTONIC) - before))

            if __name__ == "__main__":
                gpu.set_device()
                buffer = gpu.allocate(1 << 20)
                for method in ("fork", "spawn", "forkserver"):
                    context = multiprocessing.get_context(method)
                    queue = context.Queue()
                    children = [context.Process(target=child, args=(queue,)) for _ in range(2)]
                    for one in children:
                        one.start()
                    results = [queue.get() for _ in children]
                    for one in children:
                        one.join()
                    assert len({pid for pid, _ in results}) == 2
                    assert all(1e7 <= ns < 1e10 for _, ns in results), results
                    assert all(one.exitcode == 0 for one in children)
                with multiprocessing.Pool(2) as pool:
                    assert pool.map(abs, [-1, -2, 3]) == [1, 2, 3]
                assert subprocess.run(["echo", "hello"], capture_output=True).stdout == b"hello\\n"
                assert os.system("exit 5") >> 8 == 5
                gpu.synchronize()
                print("children are well")
            """, cluster="h200:1x1", timeout=60)
        self.assertIn("children are well", job.out)

    def test_threads_that_all_use_the_gpu(self):
        self.run_python("""
            import ctypes, gpu, threading
            gpu.set_device()
            def work():
                gpu.set_device()
                stream = ctypes.c_void_p()
                gpu.cuda("cudaStreamCreate", ctypes.byref(stream))
                buffer = gpu.allocate(1 << 20)
                for _ in range(50):
                    gpu.cuda("cudaMemsetAsync", buffer, 0, ctypes.c_size_t(1 << 20), stream)
                    gpu.cuda("cudaStreamSynchronize", stream)
            threads = [threading.Thread(target=work) for _ in range(20)]
            for one in threads: one.start()
            for one in threads: one.join()
            """, cluster="h200:1x1", options=["--report", "report.json"], timeout=60)
        self.assertEqual(self.report()["ranks"][0]["kernels"], 1000)


class Hosts(JobTest):
    def test_ranks_see_their_own_host(self):
        job = self.run_python("""
            import ctypes, gpu, os, platform, socket
            count = ctypes.c_int()
            gpu.cuda("cudaGetDeviceCount", ctypes.byref(count))
            address = socket.gethostbyname(socket.gethostname())
            print(gpu.rank, gpu.local, os.environ["GROUP_RANK"], os.environ["LOCAL_WORLD_SIZE"],
                  socket.gethostname(), os.uname().nodename, platform.node(), count.value, address)
            """, cluster="h200:2x8", timeout=60)
        lines = [line for line in printed(job) if line]
        self.assertEqual(len(lines), 16)
        for line in lines:
            rank, local, group, size, *names, count, address = line.split()
            host = int(rank) // 8
            self.assertEqual((int(local), int(group), int(size)), (int(rank) % 8, host, 8))
            self.assertEqual(names, [f"host{host}"] * 3)
            self.assertEqual(int(count), 8)
            self.assertEqual(address, "127.0.0.1")


class Starts(JobTest):
    """Programs that drive, or start processes for, several GPUs; launchers other than torchrun."""

    # What gpu.py does for ranks, for whoever is none.
    USE_GPU = """
        import ctypes, os, socket, sys
        cudart = ctypes.CDLL("libcudart.so.13")
        def cuda(name, *arguments):
            status = getattr(cudart, name)(*arguments)
            assert status == 0, (name, status)
        def gpus():
            count = ctypes.c_int()
            cuda("cudaGetDeviceCount", ctypes.byref(count))
            return count.value
        def use(device):
            cuda("cudaSetDevice", device)
            address = ctypes.c_void_p()
            cuda("cudaMalloc", ctypes.byref(address), ctypes.c_size_t(1 << 24))
            for _ in range(20):
                cuda("cudaMemset", address, 0, ctypes.c_size_t(1 << 24))
            cuda("cudaDeviceSynchronize")
            return address
        """

    def module(self):
        self.write("use.py", self.USE_GPU)

    def kernels(self):
        return [entry["kernels"] for entry in self.report()["ranks"]]

    def test_one_process_drives_all_gpus(self):
        self.module()
        job = self.run_python("""
            from use import *
            nccl = ctypes.CDLL("libnccl.so.2")
            assert "RANK" not in os.environ and "WORLD_SIZE" not in os.environ
            buffers = [use(device) for device in range(gpus())]
            communicators = (ctypes.c_void_p * gpus())()
            assert nccl.ncclCommInitAll(communicators, gpus(), None) == 0
            assert nccl.ncclGroupStart() == 0
            for device, buffer in enumerate(buffers):
                cuda("cudaSetDevice", device)
                assert nccl.ncclAllReduce(buffer, buffer, ctypes.c_size_t(1 << 22), 7, 0,
                                          ctypes.c_void_p(communicators[device]), None) == 0
            assert nccl.ncclGroupEnd() == 0
            for device in range(gpus()):
                cuda("cudaSetDevice", device)
                cuda("cudaDeviceSynchronize")
            print(socket.gethostname(), gpus())
            """, cluster="h200:1x4", options=["--per", "run", "--report", "report.json"], timeout=30)
        self.assertIn("host0 4", job.out)
        self.assertEqual(self.kernels(), [20] * 4)
        self.assertEqual(self.report()["forced_answers"], 0)

    def test_gpu_uses_memory_of_the_host(self):
        self.module()
        job = self.run_python("""
            from use import *
            nccl = ctypes.CDLL("libnccl.so.2")
            nccl.ncclGetLastError.restype = ctypes.c_char_p
            cuda("cudaSetDevice", 0)
            communicator = (ctypes.c_void_p * 1)()
            assert nccl.ncclCommInitAll(communicator, 1, None) == 0
            device = ctypes.c_void_p()
            cuda("cudaMalloc", ctypes.byref(device), ctypes.c_size_t(1 << 20))
            for kind in ("cudaMallocHost", "cudaMallocManaged"):
                address = ctypes.c_void_p()
                size = ctypes.c_size_t(1 << 20)
                cuda(kind, ctypes.byref(address), size, *([1] if kind == "cudaMallocManaged" else []))
                floats = ctypes.cast(address, ctypes.POINTER(ctypes.c_float))
                chars = ctypes.cast(address, ctypes.POINTER(ctypes.c_ubyte))
                cuda("cudaMemset", address, 1, size)
                cuda("cudaMemsetAsync", address, 2, ctypes.c_size_t(4), None)
                cuda("cudaMemset2D", address, ctypes.c_size_t(1024), 3, ctypes.c_size_t(1),
                     ctypes.c_size_t(2))
                cuda("cudaDeviceSynchronize")
                print(kind, *[chars[i] for i in (0, 1, 4, 1024, (1 << 20) - 1)])
                cuda("cudaMemcpy", device, address, ctypes.c_size_t(8), 4)
                cuda("cudaMemcpy", ctypes.c_void_p(address.value + 16), device, ctypes.c_size_t(8), 4)
                print(*[chars[i] for i in (16, 17, 20)])
                floats[0] = 2.5
                assert nccl.ncclAllReduce(address, address, ctypes.c_size_t(2), 7, 0,
                                          ctypes.c_void_p(communicator[0]), None) == 0
                cuda("cudaDeviceSynchronize")
                print(floats[0])
            pageable = ctypes.create_string_buffer(64)
            print(nccl.ncclAllReduce(pageable, pageable, ctypes.c_size_t(2), 7, 0,
                                     ctypes.c_void_p(communicator[0]), None),
                  nccl.ncclGetLastError(None).decode())
            """, cluster="h200:1x1", options=["--per", "run"], timeout=30)
        lines = job.out.splitlines()
        for at, kind in ((0, "cudaMallocHost"), (3, "cudaMallocManaged")):
            self.assertEqual(lines[at:at + 3], [f"{kind} 3 2 1 3 1", "3 2 1", "2.5"], job.text())
        self.assertEqual(lines[6], "4 a buffer is not memory that the GPU can reach")  # ncclInvalidArgument

    def test_program_per_host_has_its_hosts_gpus(self):
        self.module()
        job = self.run_python("""
            from use import *
            for device in range(gpus()):
                use(device)
            print(socket.gethostname(), gpus())
            """, cluster="h200:2x2", options=["--per", "host", "--report", "report.json"], timeout=30)
        self.assertEqual([line for line in printed(job) if line], ["host0 2", "host1 2"])
        self.assertEqual(self.kernels(), [20] * 4)

    def test_memory_is_as_fast_as_its_gpu_has(self):
        # Programs make the bandwidth of the memory's clock and width, as XLA does.
        program = self.write("program.py", """
            import ctypes
            cudart = ctypes.CDLL("libcudart.so.13")
            def attribute(number):
                value = ctypes.c_int()
                assert cudart.cudaDeviceGetAttribute(ctypes.byref(value), number, 0) == 0
                return value.value
            print(round(2e3 * attribute(36) * attribute(37) / 8 / 1e9), attribute(37))
            """)
        for cluster, expected in (("h200", "4814 6016"), ("h100", "3350 5120"), ("a100", "2039 5120"),
                                  ("b200", "7700 7680"), ("l40s", "864 384")):
            job = self.run_job([PYTHON, program], cluster=f"{cluster}:1x1", timeout=30)
            self.assertEqual(printed(job)[0], expected)

    def test_driver_has_its_files(self):
        # JAX looks for them before it asks CUDA.
        program = self.write("program.py", """
            import os, stat
            def there(name):
                path = "/dev/" + name
                found = os.path.exists(path), os.path.lexists(path), os.access(path, os.R_OK | os.W_OK)
                assert len(set(found)) == 1, (name, found)
                return found[0] and stat.S_ISCHR(os.stat(path).st_mode)
            names = ["nvidia0", "nvidia1", "nvidia2", "nvidia", "nvidia0x", "nvidia-1", "nvidiactl",
                     "nvidia-uvm", "null"]
            print(os.environ.get("RANK", "all"), [name for name in names if there(name)])
            """)
        for options in ([], ["--per", "host"], ["--per", "run"]):
            job = self.run_job([PYTHON, program], cluster="h200:1x2", options=options, timeout=30)
            self.assertEqual({line.partition(" ")[2] for line in printed(job) if line},
                             {"['nvidia0', 'nvidia1', 'nvidiactl', 'nvidia-uvm', 'null']"}, options)

    def test_children_that_use_a_gpu_are_ranks(self):
        self.module()
        job = self.run_python("""
            from use import *
            import multiprocessing, time

            def work(device, queue):
                before = time.monotonic()
                use(device)
                queue.put((device, time.monotonic() >= before))

            if __name__ == "__main__":
                assert gpus() == 3
                for method in ("spawn", "fork", "forkserver"):
                    context = multiprocessing.get_context(method)
                    queue = context.Queue()
                    children = [context.Process(target=work, args=(i, queue)) for i in range(3)]
                    for child in children: child.start()
                    print(method, sorted(queue.get() for _ in children))
                    for child in children: child.join()
                    assert all(child.exitcode == 0 for child in children)
            """, cluster="h200:1x3", options=["--per", "run", "--report", "report.json"], timeout=60)
        for method in ("spawn", "fork", "forkserver"):
            self.assertIn(f"{method} [(0, True), (1, True), (2, True)]", job.out)
        self.assertEqual(self.kernels(), [60] * 3)

    def test_ranks_of_other_launchers_find_their_host(self):
        """Each launcher has variables of its own; what it says of local ranks is of this machine."""
        self.module()
        program = self.write("program.py", """
            from use import *
            import time
            local, ranks = sys.argv[1:]
            device = int(os.environ[local])
            time.sleep(1)  # of virtual time: it is a rank from its start
            use(device)
            here = os.environ[ranks] if ranks != "-" else 2
            # The ranks of one parent share a pipe: what print writes in parts can mix.
            os.write(1, f"{socket.gethostname()} {device} {here} {gpus()}\\n".encode())
            """)
        for rank, size, local, ranks in (
                ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                 "OMPI_COMM_WORLD_LOCAL_SIZE"),
                ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "-"),
                ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS")):
            script = f"for r in 0 1 2 3; do {rank}=$r {size}=4 {local}=$r {ranks if ranks != '-' else 'X'}=4" \
                     f" {PYTHON} {program} {local} {ranks} & done; wait"
            # What an outer launcher says of phantora is not said of its ranks.
            job = self.run_job(["sh", "-c", script], cluster="h200:2x2", environment={rank: "1"},
                               options=["--per", "run", "--report", "report.json"], timeout=60)
            self.assertEqual([line for line in printed(job) if line],
                             ["host0 0 2 2", "host0 1 2 2", "host1 0 2 2", "host1 1 2 2"], job.text())
            self.assertEqual(self.kernels(), [20] * 4)
            self.assertGreater(self.report()["simulated_s"], 1)

    def test_a_launcher_starts_scripts_of_bash(self):
        """Bash has a setenv() of its own, which cannot be called before the shell has begun."""
        script = "for r in 0 1 2 3; do SLURM_PROCID=$r SLURM_LOCALID=$r bash -c 'echo $SLURM_PROCID $SLURM_LOCALID'; done"
        job = self.run_job(["sh", "-c", script], cluster="h200:2x2", options=["--per", "run"], timeout=60)
        self.assertEqual([line for line in printed(job) if line], ["0 0", "1 1", "2 0", "3 1"], job.text())

    @unittest.skipUnless(shutil.which("mpirun"), "Open MPI is not installed")
    def test_mpirun_starts_the_ranks_of_all_hosts(self):
        self.module()
        program = self.write("program.py", """
            from use import *
            use(int(os.environ["OMPI_COMM_WORLD_LOCAL_RANK"]))
            sys.stdout.write(f"rank {os.environ['OMPI_COMM_WORLD_RANK']} {socket.gethostname()}\\n")
            """)
        job = self.run_job(["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "4", PYTHON,
                            program], cluster="h200:2x2", timeout=60)
        self.assertEqual([line for line in printed(job) if line.startswith("rank")],
                         ["rank 0 host0", "rank 1 host0", "rank 2 host1", "rank 3 host1"], job.text())

    def test_rank_that_hides_its_number_is_known(self):
        """nanoGPT takes RANK for a wish to use DistributedDataParallel."""
        self.module()
        program = self.write("program.py", "from use import *\nuse(int(os.environ['LOCAL_RANK']))")
        for command in (["env", "-u", "RANK", PYTHON, program],
                        ["sh", "-c", f"unset RANK; {PYTHON} {program}; true"]):
            self.run_job(command, cluster="h200:1x2", options=["--report", "report.json"], timeout=30)
            self.assertEqual(self.kernels(), [20, 20])
            self.assertEqual(self.report()["forced_answers"], 0)

    def test_launcher_in_a_script_that_every_rank_runs_is_told(self):
        torchrun = self.write("torchrun", "print('started')")
        script = self.directory / "run.sh"
        script.write_text(f"{PYTHON} {torchrun} --nproc-per-node 2\n")
        job = self.run_job(["bash", script], cluster="h200:1x2", timeout=30)
        self.assertRegex(job.err, "rank 0 starts torchrun, which starts ranks itself.* --per host ")
        self.assertEqual(job.err.count("which starts ranks itself"), 1)
        job = self.run_job(["bash", script], cluster="h200:1x2", options=["--per", "host"],
                           timeout=30)
        self.assertEqual(printed(job).count("started"), 1)
        self.assertNotIn("which starts ranks itself", job.err)

    def test_run_without_a_gpu_says_so(self):
        self.assertIn("no process of this run used a simulated GPU",
                      self.run_job(["true"], cluster="h200:1x2", timeout=20).out)
        self.module()
        job = self.run_python("import use; use.use(0)", cluster="h200:1x1", timeout=20)
        self.assertNotIn("used a simulated GPU", job.out)

    def test_shell_has_the_libraries_and_no_gpu(self):
        for command, printed_ in (([PYTHON, "-c", "import ctypes; ctypes.CDLL('libcufile.so.0');"
                                    "print(ctypes.CDLL('libcudart.so.13').cudaSetDevice(0))"], "100"),
                                  ([], "hello")):
            shell = subprocess.run([PHANTORA, "shell", *(["--", *command] if command else [])],
                                   env=dict(os.environ, SHELL="/bin/sh"), input="echo hello\n",
                                   capture_output=True, text=True, timeout=20)
            self.assertEqual((shell.returncode, shell.stdout.strip()), (0, printed_), shell.stderr)
        shell = subprocess.run([PHANTORA, "shell", "--", "no-such-program"], capture_output=True)
        self.assertEqual(shell.returncode, 127)


class Torchrun(JobTest):
    def test_torchrun_starts_the_ranks_of_each_host(self):
        from job import TORCH_PYTHON
        torchrun = os.path.join(os.path.dirname(TORCH_PYTHON), "torchrun")
        program = self.write("program.py", """
            import os, socket, sys, torch, torch.distributed as dist
            local = int(os.environ["LOCAL_RANK"])
            torch.cuda.set_device(local)
            dist.init_process_group("nccl", device_id=torch.device("cuda", local))
            x = torch.full((4,), float(dist.get_rank()), device="cuda")
            dist.all_reduce(x)
            # torchrun starts `python -u`, and the ranks of a host share its pipe: with print, whose
            # text and line end are two writes there, lines of two ranks can mix.
            sys.stdout.write(f"rank {dist.get_rank()} {dist.get_world_size()} {local} "
                             f"{socket.gethostname()} {torch.cuda.device_count()} {x.tolist()}\\n")
            dist.destroy_process_group()
            """)
        job = self.run_job([torchrun, program], cluster="h200:2x2",
                           options=["--host-time", "off", "--report", "report.json"])
        lines = [line for line in printed(job) if line.startswith("rank")]
        self.assertEqual(lines, [f"rank {r} 4 {r % 2} host{r // 2} 2 [6.0, 6.0, 6.0, 6.0]"
                                 for r in range(4)])
        self.assertEqual(self.report()["forced_answers"], 0)

    def test_restarted_ranks_go_on_where_time_was(self):
        from job import TORCH_PYTHON
        torchrun = os.path.join(os.path.dirname(TORCH_PYTHON), "torchrun")
        program = self.write("program.py", """
            import os, sys, time, torch, torch.distributed as dist
            rank, attempt = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
            torch.cuda.set_device(rank)
            dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
            x = torch.full((4,), float(rank + attempt), device="cuda")
            dist.all_reduce(x)
            time.sleep(1)
            sys.stdout.write(f"attempt {attempt} rank {rank} {x.tolist()} {time.monotonic() > attempt + 1}\\n")
            sys.stdout.flush()
            if attempt == 0 and rank == 1:
                os._exit(3)
            if attempt == 0:
                dist.all_reduce(x)
            torch.cuda.synchronize()
            dist.destroy_process_group()
            """)
        # A store that outlives the ranks still holds what the first ones wrote: whether the second
        # ones read that is a race in PyTorch, here as on real GPUs.
        job = self.run_job([torchrun, "--rdzv-backend", "c10d", "--rdzv-endpoint", "host0:29517",
                            "--max-restarts", "1", program], cluster="h200:1x2",
                           environment={"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"},
                           options=["--host-time", "off", "--report", "report.json"], timeout=60)
        lines = [line for line in printed(job) if line.startswith("attempt 1")]
        self.assertEqual(lines, ["attempt 1 rank 0 [3.0, 3.0, 3.0, 3.0] True",
                                 "attempt 1 rank 1 [3.0, 3.0, 3.0, 3.0] True"])
        self.assertGreater(self.report()["simulated_s"], 2)

    def test_spawned_children_train(self):
        job = self.run_python("""
            import os, torch, torch.distributed as dist, torch.multiprocessing as mp
            def work(rank, world):
                torch.cuda.set_device(rank)
                dist.init_process_group("nccl", rank=rank, world_size=world)
                model = torch.nn.parallel.DistributedDataParallel(
                    torch.nn.Linear(64, 64).cuda(), device_ids=[rank])
                model(torch.randn(4, 64, device="cuda")).sum().backward()
                x = torch.full((4,), float(rank), device="cuda")
                dist.all_reduce(x)
                # In one write: both children write into their parent's pipe.
                print(f"sum {x.tolist()}", flush=True)
                torch.cuda.synchronize()
                dist.destroy_process_group()
            if __name__ == "__main__":
                mp.spawn(work, args=(torch.cuda.device_count(),), nprocs=torch.cuda.device_count())
            """, torch=True, cluster="h200:1x2", options=["--per", "run", "--report", "report.json"])
        self.assertEqual(job.out.count("sum [1.0, 1.0, 1.0, 1.0]"), 2)
        self.assertEqual(self.report()["forced_answers"], 0)

    def test_failing_rank_under_torchrun(self):
        from job import TORCH_PYTHON
        torchrun = os.path.join(os.path.dirname(TORCH_PYTHON), "torchrun")
        program = self.write("program.py", """
            import gpu
            gpu.set_device()
            if gpu.rank == 1:
                raise SystemExit(3)
            gpu.synchronize()
            """)
        job = self.run_job([torchrun, program], cluster="h200:1x2", status=1)
        self.assert_one_message(job, "the launcher of ranks 0-1 exited with status 1")


class DataLoading(JobTest):
    def test_data_loader_with_workers(self):
        for mode in ("off", "measured"):
            job = self.run_python("""
                import os, time, torch
                from torch.utils.data import DataLoader, Dataset

                class Numbers(Dataset):
                    def __len__(self):
                        return 64
                    def __getitem__(self, i):
                        time.sleep(0.002)
                        return torch.full((1024,), float(i)), i

                device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
                torch.cuda.set_device(device)
                for pinned in (False, True):
                    seen = []
                    loader = DataLoader(Numbers(), batch_size=8, num_workers=2, pin_memory=pinned)
                    for batch, index in loader:
                        batch = batch.to(device, non_blocking=True)
                        seen += index.tolist()
                        (batch @ batch.T).sum()
                    torch.cuda.synchronize()
                    assert seen == list(range(64)), seen
                print("loaded", flush=True)
                """, torch=True, cluster="h200:1x1", options=["--host-time", mode])
            self.assertIn("loaded", job.out)


class Compiled(JobTest):
    """torch.compile: what Triton's kernels move is read in their code."""

    def test_no_kernel_is_unread(self):
        job = self.run_python("""
            import os, tempfile
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.tempdir = os.path.abspath("cache")
            os.makedirs(tempfile.tempdir)
            import torch
            model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.GELU(),
                                        torch.nn.LayerNorm(2048), torch.nn.Linear(2048, 512))
            compiled = torch.compile(model.cuda())
            for _ in range(2):
                compiled(torch.randn(256, 512, device="cuda")).square().mean().backward()
            print("trained", flush=True)
            """, torch=True, cluster="h200:1x1", options=["--report", "report.json"])
        self.assertIn("trained", job.out)
        report = self.report()
        self.assertTrue(any(kernel["name"].startswith("triton_") for kernel in report["kernels"]))
        self.assertNotIn("unread", report)

    def test_loops_move_what_they_move(self):
        """However many blocks share the rows: 2 x 64 MiB take an H200 28 us at its data sheet's 4.8 TB/s."""
        job = self.run_python("""
            import os, tempfile
            tempfile.tempdir = os.environ["TRITON_CACHE_DIR"] = os.path.abspath("cache")
            os.makedirs(tempfile.tempdir)
            import torch, triton, triton.language as tl

            @triton.jit
            def double(x, y, rows, WIDTH: tl.constexpr):
                columns = tl.arange(0, WIDTH)
                for row in range(tl.program_id(0), rows, tl.num_programs(0)):
                    tl.store(y + row * WIDTH + columns, 2 * tl.load(x + row * WIDTH + columns))

            x = torch.empty(16384, 1024, device="cuda")
            y = torch.empty_like(x)
            for blocks in 264, 528, 16384:
                began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                began.record()
                double[(blocks,)](x, y, len(x), 1024)
                ended.record()
                torch.cuda.synchronize()
                print("took", 1000 * began.elapsed_time(ended), flush=True)
            """, torch=True, cluster="h200:1x1", options=["--host-time", "off"])
        took = [float(us) for us in re.findall(r"took (\S+)", job.out)]
        self.assertEqual(len(took), 3, job.out)
        for us in took:
            self.assertGreater(us, 2 * 64 * 2**20 / 4.8e12 * 1e6)
            self.assertLess(us, 2 * 64 * 2**20 / 4.8e12 * 1e6 * 2)


class Nvrtc(JobTest):
    """Kernels that PyTorch compiles at run time."""

    PROGRAM = """
        import math, torch
        x = torch.linspace(-0.9, 0.9, 7, device="cuda")
        assert torch.allclose(torch.erf(torch.erfinv(x)).cpu(), x.cpu(), atol=1e-5)
        half = torch.arange(1, 9, device="cuda", dtype=torch.float16)
        print("half", torch.special.exp2(half)[::2].tolist())
        strided = torch.arange(12, device="cuda").view(3, 4).t()
        print("gcd", torch.gcd(strided, torch.full_like(strided, 6)).tolist())
        print("prod", torch.arange(1, 6, device="cuda").prod().item(),
              torch.full((3, 4), 0.5, device="cuda").prod(0).tolist())
        z = torch.tensor([3 + 4j, 1j], device="cuda")
        print("complex", z.abs().tolist(), abs(z.angle()[1].item() - math.pi / 2) < 1e-6,
              torch.allclose(z.exp().log().cpu(), torch.tensor([3 - 2.28318531j, 1j]), atol=1e-6),
              z.prod().item())
        w = torch.empty(4096, 4096, device="cuda")
        torch.nn.init.trunc_normal_(w, std=0.02)  # by erfinv before torch 2.13
        w.erfinv_()
        f = torch.cuda.jiterator._create_jit_fn("template <typename T> T f(T a, T b) { return a - b; }")
        torch.cuda.synchronize()
        f(w, w)
        torch.cuda.synchronize()
        """
    PRINTED = ["complex [5.0, 1.0] True True (-4+3j)", "gcd [[6, 2, 2], [1, 1, 3], [2, 6, 2], [3, 1, 1]]",
               "half [2.0, 8.0, 32.0, 128.0]", "prod 120 [0.125, 0.125, 0.125, 0.125]"]

    @staticmethod
    def real_libraries():
        text = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout
        found = {os.path.dirname(path) for path in re.findall(r"libnvrtc\.so\.\d+ .*=> (.*)", text)}
        return {folder for folder in found if os.path.isdir(folder)}  # the loader's cache may be old

    def test_without_nvidias(self):
        prefix = ["env", f"PYTORCH_KERNEL_CACHE_PATH={self.directory}"]
        if folders := self.real_libraries():
            mounts = " && ".join(f"mount -t tmpfs none {folder}" for folder in folders)
            hidden = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
            if subprocess.run([*hidden, mounts], capture_output=True).returncode != 0:
                self.skipTest("a real NVRTC is installed and cannot be hidden here")
            prefix += [*hidden, f'{mounts} && exec "$0" "$@"']
        job = self.run_python(self.PROGRAM, torch=True, cluster="h200:1x1", prefix=prefix,
                              options=["--host-time", "off", "--report", "report.json"])
        self.assertEqual([line for line in printed(job) if line], self.PRINTED)
        self.assertEqual(job.messages(), [])
        kernels = {entry["name"]: entry for entry in self.report()["kernels"]}
        # 128 MiB at 4.8 TB/s at most: 28 us.
        self.assertGreater(kernels["erfinv_kernel_vectorized4_kernel"]["total_s"], 28e-6)
        self.assertNotIn("unread_kernels", job.out)

    def test_nvidias_is_used_where_it_is_installed(self):
        if not self.real_libraries():
            self.skipTest("no NVRTC of NVIDIA's is installed")
        job = self.run_python("""
            import torch
            torch.empty(8, device="cuda").erfinv_()
            print(open("/proc/self/maps").read().count("/unless_real_"))
            """, torch=True, cluster="h200:1x1",
            prefix=["env", f"PYTORCH_KERNEL_CACHE_PATH={self.directory}"])
        self.assertIn("0", printed(job))
        self.assertEqual(job.messages(), [])
        self.assertTrue([name for name in os.listdir(self.directory) if "nvrtc13.0" in name])


class SymmetricMemory(JobTest):
    def test_ranks_show_each_other_their_memory(self):
        """Fused operations of asynchronous tensor parallelism copy from the other rank over NVLink."""
        job = self.run_python("""
            import os, torch, torch.distributed as dist
            import torch.distributed._symmetric_memory as symm
            rank = int(os.environ["RANK"])
            torch.cuda.set_device(rank)
            device = torch.device("cuda", rank)
            dist.init_process_group("nccl", device_id=device)
            group = dist.group.WORLD.group_name
            t = symm.empty(1 << 16, device=device, dtype=torch.bfloat16)
            handle = symm.rendezvous(t, dist.group.WORLD)
            assert (handle.rank, handle.world_size) == (rank, 2)
            torch.ops.symm_mem.two_shot_all_reduce_(t, "sum", group)
            a = torch.randn(8192, 4096, device=device, dtype=torch.bfloat16)
            b = torch.randn(4096, 1024, device=device, dtype=torch.bfloat16)
            gathered, (product,) = torch.ops.symm_mem.fused_all_gather_matmul(a, [b], 0, group)
            assert gathered.shape == (16384, 4096) and product.shape == (16384, 1024)
            part = torch.ops.symm_mem.fused_matmul_reduce_scatter(gathered, b, "sum", 0, group)
            assert part.shape == (8192, 1024)
            torch.cuda.synchronize()
            dist.destroy_process_group()
            print("done", flush=True)
            """, torch=True, cluster="h200:1x2", options=["--host-time", "off", "--report", "report.json"])
        self.assertEqual(job.out.count("done"), 2)
        self.assertEqual([m for m in job.err.splitlines() if "not simulated" in m], [])
        kernels = {entry["name"]: entry for entry in self.report()["kernels"]}
        # Each rank fetches the other's 64 MiB at 450 GB/s at most: 149 us.
        self.assertGreater(kernels["memcpy_p2p"]["total_s"], 2 * 149e-6)


    def test_kernels_wait_for_those_of_other_ranks(self):
        """A barrier and an all-reduce on memory of both, called and in a graph, begin when the later rank comes. A signal waits for nobody
        whom it does not reach."""
        job = self.run_python("""
            import os, torch, torch.distributed as dist
            import torch.distributed._symmetric_memory as symm
            rank = int(os.environ["RANK"])
            torch.cuda.set_device(rank)
            dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
            group = dist.group.WORLD
            t = symm.empty(1 << 12, device="cuda", dtype=torch.bfloat16)
            handle = symm.rendezvous(t, group)
            t.fill_(1)
            def reduce():
                torch.ops.symm_mem.one_shot_all_reduce(t, "sum", group.group_name)
            reduce()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                reduce()
            for name, work in {"barrier": handle.barrier, "reduce": reduce, "graph": graph.replay}.items():
                dist.barrier()
                torch.cuda.synchronize()
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                begin.record()
                if rank == 1:
                    torch.cuda._sleep(20_000_000)
                work()
                end.record()
                torch.cuda.synchronize()
                print("waited", rank, name, begin.elapsed_time(end), flush=True)
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
                if rank == 1:
                    torch.cuda._sleep(20_000_000)
                handle.barrier()
                t.fill_(1)
                torch.cuda.synchronize()
            took = {event.name: event.device_time_total for event in profile.events()}
            print("profiled", rank, max(ms for name, ms in took.items() if "barrier" in name) / 1000,
                  max(ms for name, ms in took.items() if "Fill" in name) / 1000, flush=True)
            dist.barrier()
            if rank == 0:
                handle.put_signal(1)
            torch.cuda.synchronize()
            dist.barrier()
            dist.destroy_process_group()
            """, torch=True, cluster="h200:1x2", options=["--host-time", "off"])
        waited = {(rank, name): float(ms) for _, rank, name, ms in
                  (line.split() for line in job.out.splitlines() if line.startswith("waited"))}
        self.assertEqual(len(waited), 6)
        for name in ("barrier", "reduce", "graph"):
            # 20 million cycles at 1.98 GHz are 10.1 ms. The ranks end together.
            self.assertGreater(waited["0", name], 10, name)
            self.assertAlmostEqual(waited["0", name], waited["1", name], delta=0.1, msg=name)
        # In a profile the kernel is at work while it waits, and what follows is not.
        profiled = dict((rank, (float(barrier), float(fill))) for _, rank, barrier, fill in
                        (line.split() for line in job.out.splitlines() if line.startswith("profiled")))
        self.assertGreater(profiled["0"][0], 10)
        self.assertLess(profiled["1"][0], 1)
        self.assertLess(max(fill for _, fill in profiled.values()), 1)


class SharedMemory(JobTest):
    """Memory and events that one process shows another (cudaIpc..., cuIpc...)."""

    def test_another_process_waits_and_has_the_memory(self):
        self.share("runtime")

    def test_the_same_through_the_driver(self):
        self.share("driver")

    def share(self, api):
        job = self.run_python("""
            import gpu, ctypes, time
            from gpu import cuda
            SIZE, SLICE = 1 << 30, ctypes.c_size_t(1 << 30)
            begun = time.monotonic()
            gpu.set_device()
            library, prefix, version = {"runtime": (gpu.cudart, "cudaIpc", ""),
                                        "driver": (ctypes.CDLL("libcuda.so.1"), "cuIpc", "_v2")}[API]

            def ipc(name, *arguments):
                return getattr(library, prefix + name)(*arguments)

            def open_memory(address, handle, flags):
                return ipc("OpenMemHandle" + version, ctypes.byref(address), handle, flags)

            class Handle(ctypes.Structure):
                _fields_ = [("bytes", ctypes.c_char * 64)]

            def handle_of(function, thing):
                handle = Handle()
                assert ipc(function, ctypes.byref(handle), thing) == 0
                return bytes(handle)

            def free():
                left, total = ctypes.c_size_t(), ctypes.c_size_t()
                cuda("cudaMemGetInfo", ctypes.byref(left), ctypes.byref(total))
                return left.value

            if gpu.rank == 0:
                memory, event = gpu.allocate(SIZE), ctypes.c_void_p()
                cuda("cudaEventCreateWithFlags", ctypes.byref(event), 6)  # interprocess, no timing
                shown = handle_of("GetMemHandle", memory) + handle_of("GetEventHandle", event)
                for _ in range(400):  # a quarter of a millisecond each
                    cuda("cudaMemsetAsync", memory, 7, SLICE, None)
                cuda("cudaEventRecord", event, None)
                gpu._hand_out(shown, 1)
                handle = Handle.from_buffer_copy(shown[:64])
                again = ctypes.c_void_p()
                print("own", open_memory(again, handle, 1))
                time.sleep(1)  # the other has it as long as this process lives
            else:
                before = free()
                shown = gpu._hand_out(b"", 0)
                memory, twice, event = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
                memory_handle, event_handle = (Handle.from_buffer_copy(part) for part in (shown[:64], shown[64:]))
                assert open_memory(memory, memory_handle, 1) == open_memory(twice, memory_handle, 1) == 0
                assert ipc("OpenEventHandle", ctypes.byref(event), event_handle) == 0
                print("same", memory.value == twice.value, "taken", before - free())
                stream = ctypes.c_void_p()
                cuda("cudaStreamCreate", ctypes.byref(stream))
                cuda("cudaStreamWaitEvent", stream, event, 0)
                cuda("cudaMemsetAsync", memory, 1, SLICE, stream)
                cuda("cudaStreamSynchronize", stream)
                waited = time.monotonic() - begun
                print("waited", waited > 0.1, "done", gpu.cudart.cudaEventQuery(event))
                byte = ctypes.c_char()
                cuda("cudaMemcpy", ctypes.byref(byte), memory, ctypes.c_size_t(1), 2)
                print("closed", [ipc("CloseMemHandle", memory) for _ in range(3)])
                print("broken", open_memory(memory, Handle(), 1))
                print("flags", open_memory(memory, memory_handle, 0))
            """.replace("API", repr(api)), cluster="h200:1x2", options=["--host-time", "off", "--report", "report.json"], timeout=60)
        for line in ("own 201", "same True taken 0", "waited True done 0", "closed [0, 0, 1]", "broken 400", "flags 1"):
            self.assertIn(line, job.out)
        # Each process may have written what the other reads: it counts as unknown.
        self.assertEqual(self.report()["counters"]["unknown_reads"], 1)
        self.assertEqual(self.report()["forced_answers"], 0)
        self.assertNotIn("unsupported", job.out)


class Libraries(JobTest):
    def test_origin_of_the_caller_still_applies_to_dlopen(self):
        job = self.run_job([os.environ["PHANTORA_ORIGIN_MAIN"], os.environ["PHANTORA_ORIGIN_LIBRARY"]],
                           cluster="h200:1x1", timeout=20)
        self.assertTrue(re.search(r"^answer 42$", job.out, re.M), job.text())


if __name__ == "__main__":
    main()
