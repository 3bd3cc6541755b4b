"""Stream capture and CUDA graphs under `phantora run`."""
import json

from job import JobTest, main, printed

ONE = {"cluster": "h200:1x1", "timeout": 60}
OFF = ["--host-time", "off"]


def lines(job):
    return [line for line in printed(job) if line]


class Capture(JobTest):
    def test_nothing_runs_until_the_graph_is_launched(self):
        job = self.run_python("""
            from graph import *
            s, a, b = stream(), allocate(4096), allocate(4096)
            fill(a, 1, 4, s)
            begin(s)
            copy(b, a, 4, s)
            fill(a, 7, 4, s)
            captured = end(s)
            synchronize(s)
            print("0 captured", read(a), types(captured), edges(captured))
            run = instantiate(captured)
            launch(run, s)
            synchronize(s)
            print("1 launched", read(a), read(b))
            fill(a, 5, 4, s)
            launch(run, s)
            synchronize(s)
            print("2 again", read(a), read(b))
            cuda("cudaGraphExecDestroy", run)
            cuda("cudaGraphDestroy", captured)
            """, options=[*OFF, "--report", "report.json"], **ONE)
        self.assertEqual(lines(job), ["0 captured [1, 1, 1, 1] [1, 2] [(0, 1)]",
                                      "1 launched [7, 7, 7, 7] [1, 1, 1, 1]",
                                      "2 again [7, 7, 7, 7] [5, 5, 5, 5]"])
        # Two fills, two launches of two nodes, five reads.
        self.assertEqual(self.report()["ranks"][0]["kernels"], 2 + 4 + 5)

    def test_streams_join_by_events(self):
        """Branches run side by side: a copy to the host and one on the device take as long as the first."""
        job = self.run_python("""
            from graph import *
            s, side, a, b = stream(), stream(), allocate(1 << 26), allocate(1 << 26)
            host = pointer("cudaMallocHost", size(1 << 26))
            def branches():
                fork, join = event(), event()
                fill(a, 0, 4, s)
                cuda("cudaEventRecord", fork, s)
                cuda("cudaStreamWaitEvent", side, fork, 0)
                copy(host, a, 1 << 26, s)
                copy(b, a, 1 << 26, side)
                cuda("cudaEventRecord", join, side)
                cuda("cudaStreamWaitEvent", s, join, 0)
                fill(a, 0, 4, s)
            begin(s)
            branches()
            captured = end(s)
            print("types", types(captured), "edges", edges(captured))
            both = instantiate(captured)
            begin(s)
            fill(a, 0, 4, s)
            copy(host, a, 1 << 26, s)
            fill(a, 0, 4, s)
            one = instantiate(end(s))
            for _ in range(2):
                launch(both, s)
            synchronize(s)
            times = [timed(s, lambda: launch(which, s)) for which in (both, one)]
            print("as long as one:", times[0] == times[1])
            """, options=OFF, **ONE)
        self.assertEqual(lines(job), ["as long as one: True",
                                      "types [2, 1, 1, 2] edges [(0, 1), (0, 2), (1, 3), (2, 3)]"])

    def test_kernels_of_a_graph_follow_closely(self):
        """0.82 us sooner each than in a stream, as on an H200 (bench/accuracy/h200_graphs.jsonl)."""
        job = self.run_python("""
            from graph import *
            s, a = stream(), allocate(1 << 24)
            def chain():
                for _ in range(11):
                    fill(a, 0, 1 << 24, s)
            begin(s)
            chain()
            run = instantiate(end(s))
            by_stream, by_graph = timed(s, chain), timed(s, lambda: launch(run, s))
            print("ns sooner", by_stream - by_graph, "after it", timed(s, chain) - by_stream)
            """, options=OFF, **ONE)
        self.assertEqual(lines(job), ["ns sooner 8200 after it 0"])

    def test_what_a_capture_refuses(self):
        """By CUDA's documentation, and as the numbers of driver_types.h."""
        job = self.run_python("""
            from graph import *
            import threading
            s, other, legacy_too, a = stream(), stream(), stream(blocking=True), allocate(4096)
            e, outside = event(), event()
            cuda("cudaEventRecord", outside, other)
            cuda("cudaDeviceSynchronize")
            print("end of nothing", end_status(s))
            print("legacy", status("cudaStreamBeginCapture", None, RELAXED))
            def refused(what, call, mode=RELAXED, on=s):
                begin(on, mode)
                fill(a, 0, 4, on)
                cuda("cudaEventRecord", e, on)
                print(what, call(), end_status(on)[0])
            refused("synchronize", lambda: status("cudaStreamSynchronize", s))
            refused("query", lambda: status("cudaStreamQuery", s))
            refused("device", lambda: status("cudaDeviceSynchronize"))
            refused("event", lambda: status("cudaEventQuery", e))
            refused("again", lambda: status("cudaStreamBeginCapture", s, RELAXED))
            refused("stream", lambda: status("cudaStreamSynchronize", other), GLOBAL)
            refused("stream elsewhere", lambda: status("cudaStreamSynchronize", other), RELAXED)
            refused("never recorded", lambda: status("cudaStreamWaitEvent", s, event(), 0))
            refused("pinned", lambda: status("cudaMallocHost", ctypes.byref(ctypes.c_void_p()), size(4)), GLOBAL)
            begin(s)
            fill(a, 0, 4, s)
            small = instantiate(end(s))
            refused("graph", lambda: status("cudaGraphLaunch", small, s))
            refused("malloc relaxed", lambda: status("cudaMalloc", ctypes.byref(ctypes.c_void_p()), size(4)))
            refused("malloc global", lambda: status("cudaMalloc", ctypes.byref(ctypes.c_void_p()), size(4)), GLOBAL)
            def exchanged():
                mode = ctypes.c_int(RELAXED)
                cuda("cudaThreadExchangeStreamCaptureMode", ctypes.byref(mode))
                result = status("cudaMalloc", ctypes.byref(ctypes.c_void_p()), size(4))
                cuda("cudaThreadExchangeStreamCaptureMode", ctypes.byref(mode))
                return result, mode.value
            refused("malloc exchanged", exchanged, GLOBAL)
            refused("wait uncaptured", lambda: status("cudaStreamWaitEvent", s, outside, 0))
            refused("legacy work", lambda: status("cudaMemsetAsync", a, 0, size(4), None), on=legacy_too)
            refused("legacy work beside non-blocking", lambda: status("cudaMemsetAsync", a, 0, size(4), None))
            def elsewhere(call):
                def run():
                    result = []
                    thread = threading.Thread(target=lambda: result.append(call()))
                    thread.start()
                    thread.join()
                    return result[0]
                return run
            query = elsewhere(lambda: status("cudaEventQuery", outside))
            refused("query elsewhere, global", query, GLOBAL)
            refused("query elsewhere, thread local", query, THREAD_LOCAL)
            refused("end elsewhere", elsewhere(lambda: end_status(s)[0]), GLOBAL)
            def fork():
                cuda("cudaStreamWaitEvent", other, e, 0)
                fill(a, 0, 4, other)
                return "forked"
            refused("unjoined", fork)
            refused("not its origin", lambda: (fork(), end_status(other)[0])[1])
            begin(other)
            refused("merge", lambda: status("cudaStreamWaitEvent", other, e, 0))
            print("merged", end_status(other)[0])
            state = ctypes.c_int(9)
            cuda("cudaStreamIsCapturing", other, ctypes.byref(state))
            print("state", state.value)
            """, options=OFF, **ONE)
        self.assertEqual(lines(job), sorted([
            "end of nothing (401, None)", "legacy 900", "again 401 0", "stream elsewhere 0 0", "stream 900 901", "graph 900 901",
            "never recorded 0 0", "pinned 900 901", "synchronize 900 901", "query 900 901",
            "device 900 901", "event 907 901", "malloc relaxed 0 0", "malloc global 900 901",
            "malloc exchanged (0, 2) 0", "wait uncaptured 905 901", "legacy work 906 901",
            "legacy work beside non-blocking 0 0", "query elsewhere, global 900 901",
            "query elsewhere, thread local 0 0", "end elsewhere 908 401", "unjoined forked 904",
            "not its origin 903 901", "merge 902 901", "merged 901", "state 0"]))

    def test_its_state_is_told_and_changed(self):
        job = self.run_python("""
            from graph import *
            s, a = stream(), allocate(4096)
            def state():
                what, number, graph = ctypes.c_int(), ctypes.c_ulonglong(), ctypes.c_void_p()
                dependencies, count = ctypes.POINTER(ctypes.c_void_p)(), size(0)
                cuda("cudaStreamGetCaptureInfo", s, ctypes.byref(what), ctypes.byref(number),
                     ctypes.byref(graph), ctypes.byref(dependencies), None, ctypes.byref(count))
                return what.value, [dependencies[i] for i in range(count.value)], graph
            print("0", state()[:2])
            begin(s)
            print("1", state()[:2])
            fill(a, 0, 4, s)
            fill(a, 1, 4, s)
            _, after, graph = state()
            made = nodes(graph)
            print("2", after == [made[1].value], len(made))
            free = pointer("cudaGraphAddEmptyNode", graph, None, size(0))
            added = (ctypes.c_void_p * 1)(free.value)
            cuda("cudaStreamUpdateCaptureDependencies", s, added, None, size(1), 0)
            fill(a, 2, 4, s)
            cuda("cudaStreamUpdateCaptureDependencies", s, (ctypes.c_void_p * 1)(made[0].value), None, size(1), 1)
            fill(a, 3, 4, s)
            print("3", status("cudaStreamEndCapture", s, ctypes.byref(graph)), edges(graph))
            begin_to = (ctypes.c_void_p * 1)(nodes(graph)[4].value)
            cuda("cudaStreamBeginCaptureToGraph", s, graph, begin_to, None, size(1), RELAXED)
            fill(a, 4, 4, s)
            print("4", end(s).value == graph.value, edges(graph))
            """, options=OFF, **ONE)
        self.assertEqual(lines(job), [
            "0 (0, [])", "1 (1, [])", "2 True 2", "3 0 [(0, 1), (0, 4), (1, 3), (2, 3)]",
            "4 True [(0, 1), (0, 4), (1, 3), (2, 3), (4, 5)]"])

    def test_collectives_are_captured(self):
        """Each launch reduces anew what is there then."""
        job = self.run_python("""
            from graph import *
            import gpu, struct
            gpu.set_device()
            everyone, s, a = gpu.Communicator(), stream(), allocate(4096)
            host = pointer("cudaMallocHost", size(4))
            ctypes.memmove(host, struct.pack("f", 1.0 + gpu.rank), 4)
            copy(a, host, 4, s)
            begin(s)
            assert gpu.nccl.ncclAllReduce(a, a, size(1), gpu.FLOAT32, gpu.SUM, everyone.handle, s) == 0
            captured = end(s)
            run = instantiate(captured)
            for _ in range(3):
                launch(run, s)
            synchronize(s)
            print(gpu.rank, types(captured), struct.unpack("f", bytes(read(a)))[0])
            """, cluster="h200:1x2", options=[*OFF, "--report", "report.json"], timeout=60)
        self.assertEqual(lines(job), ["0 [0] 12.0", "1 [0] 12.0"])

    def test_memory_is_a_node(self):
        """Taken when the graph is launched, given back where it says so."""
        job = self.run_python("""
            from graph import *
            s, a = stream(), allocate(4096)
            def free():
                there, total = size(0), size(0)
                cuda("cudaMemGetInfo", ctypes.byref(there), ctypes.byref(total))
                return there.value
            before = free()
            def used():
                return (before - free()) >> 20
            begin(s)
            kept = pointer("cudaMallocAsync", size(64 << 20), s)
            passing = pointer("cudaMallocAsync", size(32 << 20), s)
            fill(passing, 3, 4, s)
            copy(kept, passing, 4, s)
            cuda("cudaFreeAsync", passing, s)
            captured = end(s)
            print("0 captured", types(captured), used())
            run = instantiate(captured)
            launch(run, s)
            synchronize(s)
            print("1 launched", used(), read(kept))
            held = ctypes.c_uint64()
            cuda("cudaDeviceGetGraphMemAttribute", 0, 0, ctypes.byref(held))
            print("2 held", held.value >> 20)
            cuda("cudaFreeAsync", kept, s)
            synchronize(s)
            print("3 freed", used())
            """, options=OFF, **ONE)
        self.assertEqual(lines(job), ["0 captured [10, 10, 2, 1, 11] 0", "1 launched 64 [3, 3, 3, 3]",
                                      "2 held 64", "3 freed 0"])


class Construction(JobTest):
    MEMSET = """
        from graph import *
        class Memset(ctypes.Structure):
            _fields_ = [("dst", ctypes.c_void_p), ("pitch", ctypes.c_size_t), ("value", ctypes.c_uint),
                        ("element", ctypes.c_uint), ("width", ctypes.c_size_t), ("height", ctypes.c_size_t)]
        def memset(where, value):
            return ctypes.byref(Memset(where.value, 4, value, 1, 4, 1))
        def dependencies(*nodes):
            return (ctypes.c_void_p * len(nodes))(*(node.value for node in nodes)), size(len(nodes))
        """

    def test_nodes_by_hand(self):
        job = self.run_python(self.MEMSET + """
        s, a, b = stream(), allocate(4096), allocate(4096)
        graph = pointer("cudaGraphCreate", 0)
        first = pointer("cudaGraphAddMemsetNode", graph, None, size(0), memset(a, 1))
        second = pointer("cudaGraphAddMemcpyNode1D", graph, *dependencies(first), b, a, size(4), 3)
        called = []
        function = HOST_FUNCTION(lambda _: called.append(len(called)))
        class Host(ctypes.Structure):
            _fields_ = [("fn", HOST_FUNCTION), ("data", ctypes.c_void_p)]
        third = pointer("cudaGraphAddHostNode", graph, *dependencies(second), ctypes.byref(Host(function, None)))
        child = pointer("cudaGraphCreate", 0)
        inner = pointer("cudaGraphAddMemsetNode", child, None, size(0), memset(a, 9))
        fourth = pointer("cudaGraphAddChildGraphNode", graph, *dependencies(third), child)
        joined = pointer("cudaGraphAddEmptyNode", graph, *dependencies(fourth))
        print("0", types(graph), edges(graph), len(nodes(graph, "cudaGraphGetRootNodes")))
        run = instantiate(graph)
        for _ in range(2):
            launch(run, s)
        synchronize(s)
        print("1", read(a), read(b), called)
        # Changed in the executable, which the graph does not see, and the other way round.
        cuda("cudaGraphExecMemsetNodeSetParams", run, first, memset(a, 2))
        cuda("cudaGraphMemsetNodeSetParams", first, memset(a, 3))
        launch(run, s)
        synchronize(s)
        got = Memset()
        cuda("cudaGraphMemsetNodeGetParams", first, ctypes.byref(got))
        print("2", read(b), got.value)
        class Result(ctypes.Structure):
            _fields_ = [("result", ctypes.c_int), ("node", ctypes.c_void_p), ("from_node", ctypes.c_void_p)]
        result = Result(9)
        print("3", status("cudaGraphExecUpdate", run, graph, ctypes.byref(result)), result.result)
        launch(run, s)
        synchronize(s)
        print("4", read(b))
        clone = pointer("cudaGraphClone", graph)
        there = pointer("cudaGraphNodeFindInClone", first, clone)
        cuda("cudaGraphDestroyNode", pointer("cudaGraphNodeFindInClone", joined, clone))
        print("5", there.value == nodes(clone)[0].value, types(clone),
              status("cudaGraphExecUpdate", run, clone, ctypes.byref(result)), result.result)
        cuda("cudaGraphNodeSetEnabled", run, first, 0)
        fill(a, 6, 4, s)
        launch(run, s)
        synchronize(s)
        print("6", read(b))
        cuda("cudaGraphAddDependencies", clone, *dependencies(nodes(clone)[3])[:1], dependencies(nodes(clone)[0])[0], None, size(1))
        print("7 a circle", status("cudaGraphInstantiate", ctypes.byref(ctypes.c_void_p()), clone, ctypes.c_ulonglong(0)))
        cuda("cudaGraphDebugDotPrint", graph, b"graph.dot", 0)
        text = open("graph.dot").read()
        print("8", text.count("memset of 4 bytes"), text.count("->"), text.startswith("digraph"))
        """, options=OFF, **ONE)
        self.assertEqual(lines(job), [
            "0 [2, 1, 3, 4, 5] [(0, 1), (1, 2), (2, 3), (3, 4)] 1",
            "1 [9, 9, 9, 9] [1, 1, 1, 1] [0, 1]", "2 [2, 2, 2, 2] 3", "3 0 0", "4 [3, 3, 3, 3]",
            "5 True [2, 1, 3, 4] 910 2", "6 [6, 6, 6, 6]", "7 a circle 1", "8 2 4 True"])

    def test_what_it_keeps_is_destroyed_with_it(self):
        job = self.run_python(self.MEMSET + """
        destroyed = []
        destroy = HOST_FUNCTION(lambda _: destroyed.append("object"))
        thing = pointer("cudaUserObjectCreate", None, destroy, 1, 1)
        graph = pointer("cudaGraphCreate", 0)
        pointer("cudaGraphAddEmptyNode", graph, None, size(0))
        cuda("cudaGraphRetainUserObject", graph, thing, 1, 1)
        run = instantiate(graph)
        cuda("cudaGraphDestroy", graph)
        print("0", destroyed)
        cuda("cudaGraphExecDestroy", run)
        print("1", destroyed)
        """, options=OFF, **ONE)
        self.assertEqual(lines(job), ["0 []", "1 ['object']"])

    def test_a_conditional_node_is_refused_by_name(self):
        job = self.run_python(self.MEMSET + """
        graph, parameters = pointer("cudaGraphCreate", 0), (ctypes.c_int * 64)(13)
        print(status("cudaGraphAddNode", ctypes.byref(ctypes.c_void_p()), graph, None, None, size(0), parameters))
        """, options=OFF, **ONE)
        self.assertEqual(lines(job), ["801"])
        self.assertIn("a conditional node of a graph", job.err)


class GraphsTorch(JobTest):
    MODEL = """
        import torch
        from torch import nn
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.LayerNorm(128), nn.Linear(128, 8)).cuda()
        x = torch.randn(16, 64, device="cuda")
        def step():
            model.zero_grad()
            model(x).square().mean().backward()
        """

    def kernels(self, way):
        """Names of the kernels of three steps, in order."""
        self.run_python(self.MODEL + f"""
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for _ in range(3):
                step()
        torch.cuda.synchronize()
        way = {way!r}
        if way == "graph":
            graph = torch.cuda.CUDAGraph()
            model.zero_grad()
            with torch.cuda.graph(graph, stream=side):
                model(x).square().mean().backward()
            step = graph.replay
        torch.cuda.nvtx.range_push("measured")
        with torch.cuda.stream(side):
            for _ in range(3):
                step()
                torch.cuda.synchronize()
        """, torch=True, options=[*OFF, "--trace", "trace.json"], **{**ONE, "timeout": 240})
        events = json.loads((self.directory / "trace.json").read_text())
        events = events["traceEvents"] if isinstance(events, dict) else events
        spans = sorted((e["ts"], e["name"]) for e in events
                       if e.get("ph") == "X" and e.get("cat") in ("compute", "copy", "kernel"))
        return [name for _, name in spans]

    def test_a_replay_has_the_kernels_of_an_eager_step(self):
        eager, graph = self.kernels("eager"), self.kernels("graph")
        step = next(n for n in range(5, len(eager)) if eager[-n:] == eager[-2 * n:-n])
        self.assertIn("gemm", eager[-step:])
        self.assertEqual(graph[-3 * step:], eager[-3 * step:])

    def test_an_all_reduce_is_captured(self):
        """With PyTorch's watchdog beside it, which asks about events."""
        job = self.run_python("""
            import os, torch, torch.distributed as dist
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            dist.init_process_group("nccl")
            x = torch.ones(4, device="cuda")
            dist.all_reduce(x)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                dist.all_reduce(x)
            for _ in range(3):
                graph.replay()
            print(x.tolist(), flush=True)
            dist.destroy_process_group()
            """, torch=True, options=OFF, cluster="h200:1x2", timeout=240)
        self.assertEqual(lines(job), ["[16.0, 16.0, 16.0, 16.0]"] * 2)

    def test_values_are_those_of_eager(self):
        job = self.run_python("""
            import torch
            x, y = torch.zeros(8, device="cuda"), torch.zeros(8, device="cuda")
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                y.copy_(x * 2 + 1)
                z = y.sum()
            for value in (1.0, 5.0):
                x.fill_(value)
                graph.replay()
                print(value, y.tolist()[:2], z.item())
            torch.manual_seed(3)
            noise = torch.cuda.CUDAGraph()
            with torch.cuda.graph(noise):
                r = torch.rand(4, device="cuda")
            drawn = []
            for _ in range(2):
                noise.replay()
                drawn.append(r.tolist())
            torch.manual_seed(3)
            print("numbers of eager", drawn == [torch.rand(4, device="cuda").tolist() for _ in range(2)])
            print("pool", torch.cuda.memory_allocated() > 0, graph.pool() != noise.pool())
            """, torch=True, options=OFF, **{**ONE, "timeout": 240})
        self.assertEqual(lines(job), ["1.0 [3.0, 3.0] 24.0", "5.0 [11.0, 11.0] 88.0",
                                      "numbers of eager True", "pool True True"])


if __name__ == "__main__":
    main()
