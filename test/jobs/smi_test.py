"""What a run's GPUs do, as others see it: `phantora smi`, and NVML within the run."""
import json
import re
import subprocess
import time

import job
from job import PYTHON, JobTest, main

GIB = 1 << 30


def smi(*arguments, status=0):
    done = subprocess.run([job.PHANTORA, "smi", *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
    return done.stdout if status == 0 else done.stderr


class Smi(JobTest):
    HOLD = """
        import ctypes, os, time
        cudart = ctypes.CDLL("libcudart.so.13")
        cudart.cudaSetDevice(int(os.environ["LOCAL_RANK"]))
        address = ctypes.c_void_p()
        assert cudart.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(3 << 30)) == 0
        cudart.cudaMemset(address, 0, ctypes.c_size_t(3 << 30))
        cudart.cudaDeviceSynchronize()
        print("holding", flush=True)
        while not os.path.exists("go"):
            time.sleep(0.05)
        """

    def test_shows_the_gpus_of_a_run_that_lives(self):
        held = self.start([PYTHON, self.write("hold.py", self.HOLD)], cluster="h200:2x2")
        while held.out.count("holding") < 4:
            self.assertIsNone(held.process.poll(), held.text())
            time.sleep(0.05)
        pid = str(held.process.pid)
        run, = json.loads(smi("--run", pid, "--format", "json"))
        self.assertEqual(run["cluster"], "h200:2x2")
        self.assertIn("hold.py", " ".join(run["command"]))
        self.assertEqual([(gpu["host"], gpu["index"]) for gpu in run["gpus"]],
                         [("host0", 0), ("host0", 1), ("host1", 0), ("host1", 1)])
        for rank, gpu in enumerate(run["gpus"]):
            self.assertEqual(gpu["name"], "NVIDIA H200")
            self.assertEqual(gpu["memory_total"], 150109880320)
            process, = gpu["processes"]
            self.assertEqual(process["rank"], rank)
            self.assertEqual(process["memory_used"], gpu["memory_used"])
            self.assertGreaterEqual(gpu["memory_used"], 3 * GIB)
            self.assertLess(gpu["memory_used"], 4 * GIB)
            self.assertGreater(gpu["busy_s"], 0)
        matrix = smi("--run", pid, "topo", "-m")
        self.assertEqual([line.split() for line in matrix.splitlines()[:5]],
                         [["host0"], ["GPU0", "GPU1", "NIC0", "NIC1"], ["GPU0", "X", "NV18", "PIX", "NODE"],
                          ["GPU1", "NV18", "X", "NODE", "PIX"], []])
        self.assertEqual(matrix.splitlines()[5], "host1")
        table = smi("--run", pid)
        self.assertRegex(table, r"host1 +1  NVIDIA H200 +3\d\d\d MiB / 143155 MiB")
        (self.directory / "go").touch()
        self.assertEqual(held.wait().status, 0, held.text())
        self.assertIn(f"no simulation runs as {pid}", smi("--run", pid, status=6))


class Nvml(JobTest):
    ASK = """
        import ctypes, os
        cudart, nvml = ctypes.CDLL("libcudart.so.13"), ctypes.CDLL("libnvidia-ml.so.1")
        class Process(ctypes.Structure):
            _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong),
                        ("instance", ctypes.c_uint), ("compute", ctypes.c_uint)]
        class Utilization(ctypes.Structure):
            _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]
        assert nvml.nvmlInit_v2() == 0
        handle = ctypes.c_void_p()
        assert nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle)) == 0
        count = ctypes.c_uint(0)
        def processes():
            count.value = 0
            status = nvml.nvmlDeviceGetComputeRunningProcesses_v3(handle, ctypes.byref(count), None)
            if status == 0:
                return []
            assert status == 7, status  # insufficient size
            found = (Process * count.value)()
            assert nvml.nvmlDeviceGetComputeRunningProcesses_v3(handle, ctypes.byref(count), found) == 0
            return [(process.pid, process.used) for process in found]
        used = Utilization()
        def utilization():
            assert nvml.nvmlDeviceGetUtilizationRates(handle, ctypes.byref(used)) == 0
            return used.gpu
        assert processes() == []
        address = ctypes.c_void_p()
        assert cudart.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(1 << 30)) == 0
        (pid, bytes_used), = processes()
        assert pid == os.getpid() and (1 << 30) <= bytes_used < (2 << 30), (pid, bytes_used)
        name = ctypes.create_string_buffer(64)
        assert nvml.nvmlSystemGetProcessName(pid, name, 64) == 0 and name.value
        confidential = (ctypes.c_uint * 3)(7, 7, 7)
        assert nvml.nvmlSystemGetConfComputeState(confidential) == 0 and list(confidential) == [0, 0, 0]
        settings = (ctypes.c_uint * 5)(0x1000014, 9, 9, 9, 9)
        assert nvml.nvmlSystemGetConfComputeSettings(settings) == 0 and list(settings) == [0x1000014, 0, 0, 0, 0]
        settings[0] = 0x2000014
        assert nvml.nvmlSystemGetConfComputeSettings(settings) == 25  # NVML_ERROR_ARGUMENT_VERSION_MISMATCH
        utilization()
        for _ in range(20):
            assert cudart.cudaMemset(address, 0, ctypes.c_size_t(1 << 30)) == 0
        cudart.cudaDeviceSynchronize()
        print("busy", utilization())
        power = ctypes.c_uint()
        print("power", nvml.nvmlDeviceGetPowerUsage(handle, ctypes.byref(power)))
        """

    LINKS = """
        import ctypes
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        assert nvml.nvmlInit_v2() == 0
        gpus = [ctypes.c_void_p() for _ in range(4)]
        for i, gpu in enumerate(gpus):
            assert nvml.nvmlDeviceGetHandleByIndex_v2(i, ctypes.byref(gpu)) == 0
        def ask(call, *arguments):
            number = ctypes.c_int(-1)
            status = call(*arguments, ctypes.byref(number))
            return number.value if status == 0 else f"status {status}"
        first = gpus[0]
        print("level", [ask(nvml.nvmlDeviceGetTopologyCommonAncestor, first, gpu) for gpu in gpus])
        print("p2p", [[ask(nvml.nvmlDeviceGetP2PStatus, first, gpu, index) for index in range(5)] for gpu in gpus[1:2]])
        links = [ask(nvml.nvmlDeviceGetNvLinkState, first, link) for link in range(20)]
        print("links", links.count(1), sorted({link for link in links if link != 1}))
        print("first link", [ask(call, first, 0) for call in (
            nvml.nvmlDeviceGetNvLinkVersion, nvml.nvmlDeviceGetNvLinkRemoteDeviceType)],
            [ask(nvml.nvmlDeviceGetNvLinkCapability, first, 0, what) for what in range(7)])
        remote = ctypes.create_string_buffer(256)
        if nvml.nvmlDeviceGetNvLinkRemotePciInfo_v2(first, 0, remote) == 0:
            print("remote", remote[:12].decode())
        class Field(ctypes.Structure):
            _fields_ = [("id", ctypes.c_uint), ("scope", ctypes.c_uint), ("time", ctypes.c_longlong),
                        ("latency", ctypes.c_longlong), ("type", ctypes.c_int), ("status", ctypes.c_int),
                        ("value", ctypes.c_ulonglong)]
        # How many links; the speed of all, of the second and the seventh; the last one's speed,
        # state and version, and those of one too many; an energy counter.
        asked = [(91, 0), (90, 0), (85, 9), (132, 9), (164, 17), (165, 17), (166, 17), (164, 18), (83, 0)]
        fields = (Field * len(asked))(*[Field(*one) for one in asked])
        assert nvml.nvmlDeviceGetFieldValues(first, len(asked), fields) == 0
        assert nvml.nvmlDeviceGetFieldValues(first, 0, fields) == 2  # NVML_ERROR_INVALID_ARGUMENT
        print("fields", [(field.value, field.type) if field.status == 0 else field.status for field in fields])
        nvml.nvmlErrorString.restype = ctypes.c_char_p
        print(nvml.nvmlErrorString(3).decode(), nvml.nvmlErrorString(12345).decode())
        count = ctypes.c_uint(0)
        near = lambda level, room: nvml.nvmlDeviceGetTopologyNearestGpus(first, level, ctypes.byref(count), room)
        assert near(40, None) == 0
        print("far", count.value, end=" ")
        found = (ctypes.c_void_p * 4)()
        count.value = 4
        assert near(10, found) == 0
        print("near", [[gpu.value for gpu in gpus].index(gpu) for gpu in found[:count.value]])
        """

    def links(self, cluster):
        ended = self.run_job([PYTHON, self.write("links.py", self.LINKS)], cluster=cluster,
                             options=["--host-time", "off", "--per", "run"])
        return ended.out.split("\n\nphantora:")[0].splitlines()

    def test_links_by_nvswitch(self):
        self.assertEqual(self.links("h200:1x4"), [
            "level [0, 40, 40, 40]", "p2p [[0, 0, 0, 0, 0]]", "links 18 ['status 2']", "first link [6, 2] [1, 0, 1, 0, 0, 1, 'status 2']",
            "remote 0000:05:00.0",
            "fields [(18, 1), (26562, 1), (26562, 1), (26562, 1), (26562, 1), (1, 1), (6, 1), 3, 3]",
            "Not Supported Unknown Error", "far 3 near []"])

    def test_links_of_pcie_cards(self):
        # Two cards of an L40S host share a PCIe switch.
        self.assertEqual(self.links("l40s:1x4"), [
            "level [0, 10, 40, 40]", "p2p [[0, 0, 5, 5, 0]]", "links 0 ['status 2', 'status 3']",
            "first link ['status 3', 'status 3'] [" + ", ".join(["'status 3'"] * 7) + "]",
            "fields [(0, 1), 3, 3, 3, 3, 3, 3, 3, 3]", "Not Supported Unknown Error", "far 2 near [1]"])

    def test_memory_processes_and_utilisation(self):
        ended = self.run_job([PYTHON, self.write("ask.py", self.ASK)], cluster="h200:1x1",
                             options=["--host-time", "off"])
        # 20 fills of 1 GiB, of which the first begins when its launch has reached the GPU.
        busy = int(re.search(r"busy (\d+)", ended.out)[1])
        self.assertGreaterEqual(busy, 98)
        self.assertIn("power 3", ended.out)  # NVML_ERROR_NOT_SUPPORTED


if __name__ == "__main__":
    main()
