"""Clusters whose hosts have unlike GPUs: each rank has those of its own host."""
import json

from job import PYTHON, JobTest, main, printed

H200 = "NVIDIA H200 132 9.0 150109880320"
L40S = "NVIDIA L40S 142 8.9 47700000000"


class Mixed(JobTest):
    # What the runtime, the driver and NVML say of a GPU, which has to be the same.
    DESCRIBE = """
        import ctypes, os, socket
        cudart, driver = ctypes.CDLL("libcudart.so.13"), ctypes.CDLL("libcuda.so.1")
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        def call(function, *arguments):
            status = function(*arguments)
            assert status == 0, (function, status)
        def number(function, *arguments, kind=ctypes.c_int):
            value = kind()
            call(function, ctypes.byref(value), *arguments)
            return value.value
        def describe(index):
            call(cudart.cudaSetDevice, index)
            properties = ctypes.create_string_buffer(4096)
            call(cudart.cudaGetDeviceProperties, properties, index)
            text = ctypes.create_string_buffer(96)
            call(driver.cuInit, 0)
            device = number(driver.cuDeviceGet, index)
            call(driver.cuDeviceGetName, text, 96, device)
            assert text.value == properties.value, (text.value, properties.value)
            call(nvml.nvmlInit_v2)
            handle = ctypes.c_void_p()
            call(nvml.nvmlDeviceGetHandleByIndex_v2, index, ctypes.byref(handle))
            call(nvml.nvmlDeviceGetName, handle, text, 96)
            assert text.value == properties.value, (text.value, properties.value)
            major, minor = ctypes.c_int(), ctypes.c_int()
            call(nvml.nvmlDeviceGetCudaComputeCapability, handle, ctypes.byref(major),
                 ctypes.byref(minor))
            assert (major.value, minor.value) == tuple(
                number(cudart.cudaDeviceGetAttribute, attribute, index) for attribute in (75, 76))
            free, total = ctypes.c_size_t(), ctypes.c_size_t()
            call(cudart.cudaMemGetInfo, ctypes.byref(free), ctypes.byref(total))
            assert total.value == number(driver.cuDeviceTotalMem_v2, device, kind=ctypes.c_size_t)
            sms = number(cudart.cudaDeviceGetAttribute, 16, index)
            return f"{text.value.decode()} {sms} {major.value}.{minor.value} {total.value}"
        """

    def described(self, program, command=(PYTHON,), **settings):
        self.write("describe.py", self.DESCRIBE)
        job = self.run_job([*command, self.write("program.py", program)], timeout=60, **settings)
        return [line for line in printed(job) if line]

    def test_ranks_see_the_gpu_that_the_cluster_defines(self):
        cluster = self.directory / "own.toml"
        cluster.write_text("""
            [gpu.h20]
            like = "h200"
            name = "NVIDIA H20, perhaps"
            sms = 78
            memory = "96GB"
            half = "148TFLOPS"
            [[hosts]]
            gpu = "h20"
            gpus = 1
            [[hosts]]
            gpu = "h200"
            gpus = 1
            """)
        lines = self.described("""
            from describe import *
            print(os.environ["RANK"], describe(int(os.environ["LOCAL_RANK"])))
            """, cluster=str(cluster), options=["--report", "report.json"])
        self.assertEqual(lines, ["0 NVIDIA H20, perhaps 78 9.0 96000000000", f"1 {H200}"])
        self.assertEqual(self.report()["gpu"], "NVIDIA H20, perhaps and NVIDIA H200")

    def test_each_rank_sees_its_own_gpu(self):
        lines = self.described("""
            from describe import *
            print(os.environ["RANK"], describe(int(os.environ["LOCAL_RANK"])))
            """, cluster="h200:1x2+l40s:1x1", options=["--report", "report.json"])
        self.assertEqual(lines, [f"0 {H200}", f"1 {H200}", f"2 {L40S}"])
        report = self.report()
        self.assertEqual(report["gpu"], "NVIDIA H200 and NVIDIA L40S")
        self.assertIsNone(report["gpu_memory_bytes"])
        self.assertEqual([f"{rank['gpu']} {rank['gpu_memory_bytes']}" for rank in report["ranks"]],
                         ["NVIDIA H200 150109880320"] * 2 + ["NVIDIA L40S 47700000000"])

    def test_one_process_drives_the_gpus_of_its_host(self):
        lines = self.described("""
            from describe import *
            os.environ["CUDA_VISIBLE_DEVICES"] = "1"
            hidden = number(cudart.cudaGetDeviceCount)
            print(socket.gethostname(), hidden, describe(0))
            """, cluster="h200:1x2+l40s:1x3", options=["--per", "host"])
        self.assertEqual(lines, [f"host0 1 {H200}", f"host1 1 {L40S}"])

    def test_ranks_of_one_parent_find_the_gpus_of_their_host(self):
        ranks = "; ".join(f"OMPI_COMM_WORLD_RANK={rank} OMPI_COMM_WORLD_LOCAL_RANK={rank} "
                          f'"$0" "$1"' for rank in range(3))
        lines = self.described("""
            from describe import *
            device = int(os.environ["OMPI_COMM_WORLD_LOCAL_RANK"])
            print(socket.gethostname(), device, describe(device), flush=True)
            """, command=("sh", "-c", ranks, PYTHON), cluster="h200:1x1+l40s:1x2",
            options=["--per", "run"])
        self.assertEqual(lines, [f"host0 0 {H200}", f"host1 0 {L40S}", f"host1 1 {L40S}"])

    def test_60_gb_fit_the_h200_alone(self):
        job = self.run_python("""
            import ctypes, gpu
            gpu.set_device()
            address = ctypes.c_void_p()
            print(gpu.rank, gpu.cudart.cudaMalloc(ctypes.byref(address),
                                                  ctypes.c_size_t(60_000_000_000)))
            """, cluster="h200:1x1+l40s:1x1", options=["--report", "report.json"], timeout=30)
        self.assertEqual([line for line in printed(job) if line], ["0 0", "1 2"])
        self.assertRegex(job.out, r"peak memory +56\.\d\d GiB of 139\.80 GiB, NVIDIA H200\n"
                                  r" +0\.51 GiB of 44\.42 GiB, NVIDIA L40S\n")

    def test_groups_of_hosts_have_their_own_memory(self):
        cluster = self.directory / "cluster.toml"
        cluster.write_text('[[hosts]]\ngpu = "h200"\ngpus = 1\nmemory = "80GB"\n'
                           '[[hosts]]\ngpu = "h200"\ngpus = 1\nmemory = "40GB"\n')
        program = """
            from describe import *
            print(os.environ["RANK"], describe(0).split()[-1])
            """
        self.assertEqual(self.described(program, cluster=str(cluster)),
                         ["0 80000000000", "1 40000000000"])
        self.assertEqual(self.described(program, cluster=str(cluster),
                                        options=["--gpu-memory", "24GB"]),
                         ["0 24000000000", "1 24000000000"])

    def test_steps_take_as_long_as_the_slower_gpu(self):
        busy, communication, titles = {}, {}, {}
        for cluster in ("h200:2x1", "l40s:2x1", "h200:1x1+l40s:1x1"):
            self.run_python("""
                import ctypes, gpu
                gpu.set_device()
                buffer = gpu.allocate(1 << 30)
                everyone = gpu.Communicator()
                for _ in range(10):
                    for _ in range(5):
                        gpu.cuda("cudaMemset", buffer, 0, ctypes.c_size_t(1 << 30))
                    everyone.all_reduce(buffer, 1 << 26)
                gpu.synchronize()
                """, cluster=cluster, timeout=60,
                options=["--host-time", "off", "--report", "report.json", "--trace", "trace.json"])
            report = self.report()
            trace = json.loads((self.directory / "trace.json").read_text())
            titles[cluster] = [event["args"]["name"] for event in trace["traceEvents"]
                               if event["name"] == "process_name"]
            # Of the time from the first kernel on: until then the ranks wait for each other's sockets.
            busy[cluster] = [rank["busy_s"] for rank in report["ranks"]]
            communication[cluster] = [rank["communication_s"] for rank in report["ranks"]]
        self.assertEqual(busy["h200:1x1+l40s:1x1"][1], busy["l40s:2x1"][1])
        self.assertGreater(busy["l40s:2x1"][1], 1.5 * busy["h200:2x1"][1])
        self.assertEqual(titles["h200:2x1"], ["rank 0 (GPU 0)", "rank 1 (GPU 1)"])
        self.assertEqual(titles["h200:1x1+l40s:1x1"],
                         ["rank 0 (GPU 0, NVIDIA H200)", "rank 1 (GPU 1, NVIDIA L40S)"])
        # The faster GPU waits in the collective.
        faster, slower = communication["h200:1x1+l40s:1x1"]
        self.assertGreater(faster, slower + 0.03)


class MixedTorch(JobTest):
    def test_data_parallel_training(self):
        job = self.run_python("""
            import os, torch
            import torch.distributed as dist
            local = int(os.environ["LOCAL_RANK"])
            torch.cuda.set_device(local)
            properties = torch.cuda.get_device_properties(local)
            print(os.environ["RANK"], torch.cuda.get_device_name(), properties.multi_processor_count,
                  f"{properties.major}.{properties.minor}", properties.total_memory)
            # The gradient sorts by CUB, which asks for what its kernels were compiled.
            weight = torch.randn(1000, 64, device="cuda", requires_grad=True)
            torch.nn.functional.embedding(torch.arange(4096, device="cuda") % 1000,
                                          weight).sum().backward()
            dist.init_process_group("nccl", device_id=torch.device("cuda", local))
            layers = [torch.nn.Linear(4096, 4096), torch.nn.GELU(), torch.nn.LayerNorm(4096),
                      torch.nn.Linear(4096, 4096)]
            model = torch.nn.parallel.DistributedDataParallel(
                torch.nn.Sequential(*layers).to("cuda", torch.bfloat16))
            optimizer = torch.optim.AdamW(model.parameters())
            batch = torch.randn(8192, 4096, device="cuda", dtype=torch.bfloat16)
            for _ in range(6):
                model(batch).square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()
            torch.cuda.synchronize()
            dist.destroy_process_group()
            """, torch=True, cluster="h200:1x1+l40s:1x1",
            options=["--host-time", "off", "--report", "report.json"])
        self.assertEqual([line for line in printed(job) if line], [f"0 {H200}", f"1 {L40S}"])
        report = self.report()
        fast, slow = report["ranks"]
        # Both launch the same kernels, whose machine code for their GPU was read.
        self.assertEqual(fast["kernels_per_step"], slow["kernels_per_step"])
        self.assertNotIn("unread", report)
        self.assertAlmostEqual(fast["step_s"], slow["step_s"], delta=0.01 * slow["step_s"])
        compute = [rank["busy_s"] - rank["exposed_communication_s"] for rank in (fast, slow)]
        self.assertGreater(compute[1], 2 * compute[0])


if __name__ == "__main__":
    main()
