"""torch.profiler sees the simulated GPU: the same operations at the same times as `--trace`."""
import collections
from decimal import Decimal
import json
import re

import job
from job import JobTest, main

# Torch's own names of what --trace calls otherwise.
COPIES = {"Memcpy HtoD (Pageable -> Device)": "memcpy_h2d_pageable",
          "Memcpy HtoD (Pinned -> Device)": "memcpy_h2d_pinned",
          "Memcpy DtoH (Device -> Pageable)": "memcpy_d2h_pageable",
          "Memcpy DtoH (Device -> Pinned)": "memcpy_d2h_pinned",
          "Memcpy DtoD (Device -> Device)": "memcpy_d2d",
          "Memset (Device)": "memset"}
COLLECTIVES = {"AllReduce": "all_reduce", "AllGather": "all_gather", "Broadcast": "broadcast"}


def plain(name):
    """As --trace has it."""
    collective = re.match(r"ncclDevKernel_([A-Za-z]+)_", name)
    return COLLECTIVES[collective[1]] if collective else COPIES.get(name, name)


def nanoseconds(microseconds):
    return int(microseconds * 1000)


class SameOperations:
    """Of any torch: versions_test.py has it for others than the newest."""
    python = job.TORCH_PYTHON

    def profile(self, *arguments, host_time="off"):
        ended = self.run_job([self.python, job.PROGRAMS / "profiled.py", self.directory, *arguments],
                             cluster="h200:1x2", timeout=600,
                             options=["--host-time", host_time, "--trace", "trace.json"])
        with open(self.directory / "trace.json") as file:
            self.trace = json.load(file, parse_float=Decimal)["traceEvents"]
        self.profiles = []
        for rank in range(2):
            with open(self.directory / f"rank{rank}.json") as file:
                self.profiles.append(json.load(file, parse_float=Decimal)["traceEvents"])
        return ended

    def operations(self, rank):
        """What the profile of a rank has on the GPU, by stream, in order."""
        streams = collections.defaultdict(list)
        for event in self.profiles[rank]:
            if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
                streams[event["args"]["stream"]].append(event)
        for events in streams.values():
            events.sort(key=lambda event: (event["ts"], event["ts"] + event["dur"]))
        return streams

    def traced(self, rank):
        """The same of --trace, of the whole run: [(name, start and end in whole nanoseconds)]."""
        streams = collections.defaultdict(list)
        for event in self.trace:
            if event["pid"] == rank and event.get("cat") in ("compute", "copy", "communication"):
                begin = int(event["ts"] * 1000)
                end = int((event["ts"] + event["dur"]) * 1000)
                streams[event["tid"]].append((event["name"], begin, end))
        return list(streams.values())

    def test_same_operations_at_the_same_times(self):
        self.profile()
        for rank in range(2):
            streams = self.operations(rank)
            self.assertGreaterEqual(len(streams), 3)  # its own, a side stream, NCCL's
            traced = self.traced(rank)
            for events in streams.values():
                found = [(plain(event["name"]), nanoseconds(event["dur"])) for event in events]
                start = nanoseconds(events[0]["ts"])
                starts = [nanoseconds(event["ts"]) - start for event in events]
                # Times of a profile are whole nanoseconds since 1970, of a trace since the start.
                # The profile ends with the run.
                ends = [stream[-len(found):] for stream in traced]
                same = [end for end in ends
                        if [(name, end - begin) for name, begin, end in end] == found]
                self.assertEqual(len(same), 1, found[:3])
                self.assertEqual([begin - same[0][0][1] for _, begin, _ in same[0]], starts)


class Profiles(SameOperations, JobTest):
    def test_calls_lead_to_operations(self):
        ended = self.profile(host_time="fixed:1000")
        for rank in range(2):
            events = [event for event in self.profiles[rank] if event.get("ph") == "X"]
            calls = {event["args"]["correlation"]: event for event in events
                     if event.get("cat") in ("cuda_runtime", "cuda_driver")}
            operations = [event for events in self.operations(rank).values() for event in events]
            cpu = {event["args"]["External id"]: event for event in events
                   if event.get("cat") == "cpu_op"}
            names = collections.Counter()
            for operation in operations:
                call = calls[operation["args"]["correlation"]]
                names[call["name"]] += 1
                # A kernel begins after its launch has.
                self.assertLess(call["ts"], operation["ts"])
                self.assertIn(operation["args"]["External id"], cpu)
                caller = cpu[operation["args"]["External id"]]
                self.assertLessEqual(caller["ts"], call["ts"])
                self.assertLessEqual(call["ts"] + call["dur"], caller["ts"] + caller["dur"])
            self.assertEqual(set(names), {"cudaLaunchKernel", "cudaMemcpyAsync", "cudaMemsetAsync",
                                          "cuLaunchKernelEx"})
            arrows = collections.Counter(event["ph"] for event in self.profiles[rank]
                                         if event.get("cat") == "ac2g")
            self.assertGreaterEqual(arrows["f"], len(operations))
            said = re.search(rf"rank {rank}: ([\d.]+) us on the device, ([\d.]+) us of aten::addmm",
                             ended.out)
            self.assertEqual(Decimal(said[1]), sum(event["dur"] for event in operations))
            self.assertGreater(float(said[2]), 0)

    def test_waits_and_other_calls(self):
        self.profile("sync")
        waits = [event for event in self.profiles[0] if event.get("cat") == "cuda_sync"]
        kinds = {event["name"] for event in waits}
        self.assertIn("Stream Wait Event", kinds)
        self.assertIn("Stream Sync", kinds)
        calls = {event["name"] for event in self.profiles[0] if event.get("cat") == "cuda_runtime"}
        for name in ("cudaGraphCreate", "cudaGraphDestroy", "cudaMemcpy3D"):
            self.assertIn(name, calls)


if __name__ == "__main__":
    main()
