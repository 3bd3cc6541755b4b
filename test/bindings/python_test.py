"""The Python package: what it computes is what the C++ library does, and what it refuses."""
import copy
import gc
import gzip
import json
import math
import pathlib
import pickle
import sys
import tempfile
import threading
import time
import unittest

import numpy
import phantora
from phantora import kernels

MS = 1e-3
PROFILE = pathlib.Path(__file__).resolve().parents[1] / "data" / "gpt2_b8_profile.json.gz"


def two_ranks():
    job = phantora.Workload()
    job.launch(range(2), kernels.known_time(1 * MS)).all_reduce([0, 1], "1MiB").end_step()
    return job


class Kernels(unittest.TestCase):
    def test_costs_depend_on_shape_type_and_gpu(self):
        gemm = kernels.gemm(8192, 8192, 8192)
        self.assertEqual(gemm.name, "gemm")
        self.assertEqual(gemm.features["m"], 8192)
        cost = gemm.cost("h200")
        self.assertTrue(1 * MS < cost.time < 2 * MS, cost)  # 1.1 PFLOP at 500 to 1000 TFLOP/s
        self.assertGreater(cost.deviation, 0)
        self.assertIn(cost.source, ("measured", "fitted"))
        self.assertGreater(gemm.cost("a100").time, cost.time)
        self.assertIn(gemm.cost("h100").source, ("measured", "fitted"))
        self.assertEqual(gemm.cost("b200").source, "roofline")
        self.assertLess(kernels.gemm(8192, 8192, 8192, dtype="fp8_e4m3").cost().time, cost.time)

    def test_costs_of_many_are_an_array(self):
        sizes = [1024, 2048, 4096]
        times = kernels.costs([kernels.gemm(n, n, n) for n in sizes], "h200")
        self.assertEqual((times.dtype, times.shape), (numpy.float64, (3,)))
        self.assertEqual(times[1], kernels.gemm(2048, 2048, 2048).cost().time)
        self.assertTrue((numpy.diff(times) > 0).all())

    def test_every_kernel_has_a_price(self):
        for kernel in (
            kernels.linear_forward(4096, 4096, 11008), kernels.linear_backward_input(4096, 4096, 11008),
            kernels.linear_backward_weight(4096, 4096, 11008), kernels.attention_forward(4096, 32, 128, key_heads=8),
            kernels.attention_backward(4096, 32, 128, causal=False), kernels.layer_norm_forward(4096, 4096),
            kernels.layer_norm_backward_input(4096, 4096), kernels.layer_norm_backward_weight(4096, 4096),
            kernels.rms_norm_forward(4096, 4096), kernels.rms_norm_backward_input(4096, 4096),
            kernels.rms_norm_backward_weight(4096, 4096), kernels.softmax_forward(4096, 4096, "fp32"),
            kernels.softmax_backward(4096, 4096), kernels.elementwise(1 << 24, inputs=2),
            kernels.embedding(4096, 4096), kernels.adam(1 << 24), kernels.copy("64MiB"),
            kernels.custom("mine", bytes=1e9, flops=1e12, arithmetic="half"), kernels.known_time(2 * MS)):
            self.assertGreater(kernel.cost("h200").time, 0, kernel)
        self.assertEqual(kernels.known_time(2 * MS).cost("b200").time, 2 * MS)

    def test_refuses(self):
        with self.assertRaisesRegex(phantora.ArgumentError, "bf17.*bf16"):
            kernels.gemm(1, 1, 1, dtype="bf17")
        with self.assertRaises(phantora.ArgumentError):
            kernels.gemm(0, 1, 1)
        with self.assertRaises(phantora.ArgumentError):
            kernels.known_time(math.nan)
        with self.assertRaisesRegex(phantora.ConfigError, "h200"):
            kernels.gemm(1, 1, 1).cost("tpu")
        with self.assertRaises(TypeError):
            kernels.gemm("8192", 1, 1)


class Workloads(unittest.TestCase):
    def test_is_plain_data(self):
        job = two_ranks()
        self.assertEqual((job.rank_count, len(job), job.groups), (2, 6, [[0, 1]]))
        self.assertEqual(job.describe(0, 1), "all_reduce of 1048576 bytes by ranks 0, 1")
        for other in (copy.copy(job), copy.deepcopy(job), pickle.loads(pickle.dumps(job)),
                      phantora.Workload.from_json(job.to_json()), phantora.Workload.from_bytes(job.to_bytes())):
            self.assertEqual(other, job)
            self.assertEqual(other.digest(), job.digest())
        other.host(0, 1 * MS)
        self.assertNotEqual(other, job)
        self.assertNotEqual(job, 5)
        with tempfile.TemporaryDirectory() as folder:
            for name in ("job.json", "job.bin"):
                path = pathlib.Path(folder) / name
                job.save(path)
                self.assertEqual(phantora.Workload.load(path), job)

    def test_methods_give_the_workload_itself(self):
        job = phantora.Workload()
        self.assertIs(job.launch(0, kernels.known_time(1)), job)
        self.assertIs(job.end_step(), job)

    def test_many_launches_from_an_array(self):
        job, one_by_one = phantora.Workload(), phantora.Workload()
        shapes = [kernels.gemm(n, n, n) for n in (256, 512)]
        numbers = numpy.array([job.kernel(kernel) for kernel in shapes], dtype=numpy.uint32)
        job.launch_many(0, numbers[[0, 1, 1, 0]], stream=3)
        for place in (0, 1, 1, 0):
            one_by_one.launch(0, shapes[place], 3)
        self.assertEqual(job, one_by_one)
        with self.assertRaisesRegex(phantora.ArgumentError, "no kernel 9"):
            job.launch_many(0, numpy.array([0, 9], dtype=numpy.uint32))
        self.assertEqual(job, one_by_one)

    def test_streams_hosts_memory_and_messages(self):
        job = phantora.Workload()
        job.launch(0, kernels.known_time(1 * MS), stream=1)
        event = job.record(0, 1)
        job.wait(0, event).send(0, 1, 1e6).receive(1, 0, "1MB").order(1, 0, 2)
        job.synchronize(0, event).synchronize(1).host(1, 2 * MS)
        block = job.allocate(0, "1GiB", "weights")
        job.free(block).allocate(1, 5)
        with self.assertRaisesRegex(phantora.ArgumentError, "freed"):
            job.free(block)
        report = phantora.Simulation("h200:1x2").run(job)
        self.assertGreater(report.makespan, 3 * MS)
        peaks = report.ranks["peak_memory"]
        self.assertEqual(peaks[0] - peaks[1], 2**30 - 5)

    def test_threads_and_marks_of_hosts(self):
        job = phantora.Workload()
        job.host(0, 2 * MS).thread(0, 1).host(0, 3 * MS)
        mark = job.mark(0)
        job.thread(0, 0).synchronize(0, mark).launch(0, kernels.known_time(1 * MS))
        run = phantora.Simulation("h200:1x1", launch_latency=0).run
        self.assertAlmostEqual(run(job).makespan, 4 * MS, 12)  # the threads work side by side
        self.assertAlmostEqual(run(job.scale_host_time(2)).makespan, 7 * MS, 12)
        with self.assertRaises(phantora.ArgumentError):
            job.scale_host_time(-1)

    def test_more_replicas(self):
        wide = phantora.widen(two_ranks(), 3)
        self.assertEqual((wide.rank_count, wide.groups), (6, [[0, 1, 2, 3, 4, 5]]))
        apart = phantora.widen(two_ranks(), 2, replica=2)
        self.assertEqual((apart.rank_count, sorted(apart.groups)), (4, [[0, 1], [2, 3]]))
        with self.assertRaisesRegex(phantora.ArgumentError, "replica"):
            phantora.widen(two_ranks(), 2, replica=3)

    def test_shards_of_more_replicas(self):
        def sharded(replicas):
            job = phantora.Workload()
            for rank in range(replicas):
                job.allocate(rank, 2**30 // replicas)
                job.launch(rank, kernels.custom("update", bytes=2.0**30 / replicas))
            return job.all_gather(range(replicas), 2**30)

        self.assertEqual(phantora.widen(sharded(4), 4, narrower=sharded(2)), sharded(16))
        self.assertNotEqual(phantora.widen(sharded(4), 4), sharded(16))

    def test_refuses(self):
        job = phantora.Workload()
        for bad, words in ((lambda: job.all_reduce([0, 0], 8), "0"), (lambda: job.all_reduce([0, 1], "8 parsecs"), "parsecs"),
                           (lambda: job.collective([0], "all_together", 8), "all_reduce"),
                           (lambda: job.host(0, -1.0), "")):
            with self.assertRaisesRegex(phantora.ArgumentError, words):
                bad()
        self.assertEqual(len(job), 0)
        with self.assertRaisesRegex(phantora.ConfigError, "workload: .*line 1"):
            phantora.Workload.from_json("{")
        self.assertTrue(issubclass(phantora.ConfigError, phantora.Error))


class Traces(unittest.TestCase):
    def test_a_profile_of_pytorch(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "profile.json"
            path.write_bytes(gzip.decompress(PROFILE.read_bytes()))
            trace = phantora.read_kineto(path)
            with self.assertRaisesRegex(phantora.ConfigError, "profile.json"):
                phantora.read_kineto(path, str(path) + ".none")
        self.assertEqual((trace.workload.rank_count, len(trace.workload)), (1, 4706))
        self.assertEqual((trace.recorded.dtype, trace.recorded.shape), (numpy.float64, (1,)))
        self.assertAlmostEqual(trace.recorded[0], 0.131495, 6)
        self.assertTrue(all(isinstance(note, str) for note in trace.notes))
        simulation = phantora.Simulation("h200:1x1")
        makespan = simulation.run(trace.workload).makespan
        self.assertAlmostEqual(makespan / trace.recorded[0], 1, delta=0.02)
        with self.assertRaisesRegex(phantora.ConfigError, "there is none"):
            phantora.read_kineto()
        with self.assertRaisesRegex(TypeError, "paths"):
            phantora.read_kineto(5)

    def test_chakra_both_ways(self):
        job = two_ranks().send(0, 1, "1MB").receive(1, 0, "1MB")
        job.launch(1, kernels.gemm(1024, 1024, 1024))
        with tempfile.TemporaryDirectory() as folder:
            prefix = pathlib.Path(folder) / "job"
            phantora.write_chakra(job, prefix)
            self.assertEqual(sorted(path.name for path in prefix.parent.iterdir()),
                             ["job.0.et", "job.1.et", "job.groups.json"])
            trace = phantora.read_chakra(prefix)
            on_a100 = pathlib.Path(folder) / "a100"
            phantora.write_chakra(job, on_a100, gpu="a100")
            self.assertNotEqual(on_a100.with_suffix(".1.et").read_bytes(), prefix.with_suffix(".1.et").read_bytes())
            with self.assertRaisesRegex(phantora.ConfigError, "none.0.et"):
                phantora.read_chakra(pathlib.Path(folder) / "none")
            with self.assertRaisesRegex(phantora.ConfigError, "tpu"):
                phantora.write_chakra(job, prefix, gpu="tpu")
        run = phantora.Simulation("h200:1x2").run
        self.assertAlmostEqual(run(trace.workload).makespan, run(job).makespan, 11)


class Simulations(unittest.TestCase):
    def test_reports_add_up(self):
        report = phantora.Simulation("h200:1x2").run(two_ranks())
        self.assertEqual(report.computing, 1 * MS)
        self.assertAlmostEqual(report.computing + report.exposed + report.waiting + report.idle, report.makespan, 12)
        self.assertEqual(report.steps.tolist(), [report.makespan])
        self.assertTrue(report.fits)
        ranks = report.ranks
        self.assertEqual(ranks["gpu"].tolist(), [0, 1])
        self.assertEqual({len(column) for column in ranks.values()}, {2})
        self.assertAlmostEqual(sum(part.time for part in report.critical_path), report.makespan, 12)
        self.assertEqual((report.critical_path[0].kind, report.critical_path[0].name), ("kernel", "known time"))
        exact = json.loads(report.to_json())
        self.assertEqual(exact["makespan_ps"], round(report.makespan * 1e12))
        self.assertEqual(exact["critical_path"][0]["count"], 1)

    def test_spans_are_what_ran(self):
        job = phantora.Workload()
        begin = job.mark(1)
        job.launch(0, kernels.known_time(1 * MS, "a"), stream=7).launch(1, kernels.known_time(2 * MS, "b"), stream=3)
        job.record(1, 2)  # a stream without work
        job.order(1, 3, 5).order(0, 7, 4).order(1, 3, 4).all_reduce([0, 1], "1MiB", stream=4)
        job.launch(1, kernels.copy("1MiB"), stream=5).synchronize(1).range(1, begin, "all")
        simulation = phantora.Simulation("h200:1x2")
        report = simulation.run(job, spans=True)
        spans = report.spans()
        rows = list(zip(spans["rank"].tolist(), spans["stream"].tolist(), spans["kind"]))
        self.assertEqual(sorted(rows), sorted([(0, 7, "compute"), (1, 3, "compute"), (0, 4, "communication"),
                                               (1, 4, "communication"), (1, 5, "copy"), (1, 0, "range")]))
        of = {(rank, kind): i for i, (rank, _, kind) in enumerate(rows)}
        lengths = spans["end"] - spans["start"]
        self.assertAlmostEqual(lengths[of[0, "compute"]], 1 * MS, 12)
        self.assertEqual(spans["name"][of[1, "compute"]], "b")
        self.assertEqual(spans["name"][of[1, "range"]], "all")
        self.assertAlmostEqual(spans["start"][of[1, "copy"]], spans["end"][of[1, "compute"]], 5)
        self.assertEqual(spans["start"][of[1, "range"]], 0)
        self.assertEqual(spans["end"].max(), report.makespan)
        self.assertTrue((numpy.diff(spans["start"]) >= 0).all())
        with self.assertRaisesRegex(phantora.ArgumentError, "spans=True"):
            simulation.run(job).spans()

    def test_arrays_outlive_what_they_are_of(self):
        column = phantora.Simulation("h200:1x2").run(two_ranks()).ranks["computing"]
        gc.collect()
        self.assertEqual(column.tolist(), [1 * MS, 1 * MS])

    def test_all_at_a_time_are_as_one_by_one(self):
        simulation = phantora.Simulation("h200:2x8")
        shape = phantora.TransformerShape(layers=2, hidden=1024, heads=8, mlp=4096)
        jobs = [phantora.training_steps(shape, phantora.Parallelism(tensor=t, data=16 // t, batch=16), 2) for t in (1, 2, 4)]
        together = [report.to_json() for report in simulation.run_all(jobs, threads=2)]
        self.assertEqual(together, [simulation.run(job).to_json() for job in jobs])
        results = {}
        threads = [threading.Thread(target=lambda i=i: results.update({i: simulation.run(jobs[i]).to_json()})) for i in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([results[i] for i in range(3)], together)

    def test_other_threads_run_meanwhile(self):
        # It counts while the simulation runs: it would not, if that kept the interpreter's lock.
        simulation, counts, ended = phantora.Simulation("h200:4x8"), [0], threading.Event()
        job = phantora.training_steps(phantora.TransformerShape(layers=16), phantora.Parallelism(tensor=8, pipeline=4, batch=16))

        def count():
            while not ended.is_set():
                counts[0] += 1
                time.sleep(1e-4)  # gives the lock away

        thread = threading.Thread(target=count)
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1000)  # nobody is interrupted
        thread.start()
        before = counts[0]
        simulation.run(job)
        after = counts[0]
        sys.setswitchinterval(interval)
        ended.set()
        thread.join()
        self.assertGreater(after, before)

    def test_gpus_of_ones_choice_and_memory(self):
        cluster = phantora.Cluster("h100:2x2", gpu_memory="1GiB")
        simulation = phantora.Simulation(cluster)
        job = two_ranks()
        job.allocate(0, 2 << 30)
        near, far = simulation.run(job), simulation.run(job, [0, 2])
        self.assertFalse(near.fits)
        self.assertEqual(far.ranks["gpu"].tolist(), [0, 2])
        self.assertGreater(far.makespan, near.makespan)
        loads = simulation.link_loads(job, [0, 2])
        self.assertEqual(len(loads["link"]), len(loads["bytes"]))
        self.assertTrue((numpy.diff(loads["time"]) <= 0).all())

    def test_costs_of_ones_own(self):
        asked = []

        def costs(kernel, gpu):
            asked.append((kernel.name, gpu))
            return 7 * MS if kernel.name == "gemm" else None

        simulation = phantora.Simulation("h100:1x1", costs=costs, launch_latency=0, kernel_gap=0)
        job = phantora.Workload()
        for _ in range(3):
            job.launch(0, kernels.gemm(64, 64, 64))
        job.launch(0, kernels.custom("mine", bytes=1e6))
        report = simulation.run(job)
        self.assertAlmostEqual(report.makespan, 21 * MS + kernels.custom("mine", bytes=1e6).cost("h100").time, 12)
        self.assertEqual(sorted(asked), [("gemm", "h100"), ("mine", "h100")])
        del costs, simulation
        gc.collect()

        def fails(kernel, gpu):
            raise KeyError(kernel.name)

        with self.assertRaisesRegex(KeyError, "gemm"):
            phantora.Simulation("h100:1x1", costs=fails).run_all([job, job])

    def test_steps_of_what_marks_none(self):
        simulation = phantora.Simulation("h200:1x2")
        job = phantora.Workload()
        for _ in range(6):
            job.launch(range(2), kernels.known_time(2 * MS, "forward")).launch(range(2), kernels.known_time(1 * MS, "backward"))
            job.all_reduce(range(2), "1MiB").launch(range(2), kernels.known_time(1 * MS, "update"))
        found = simulation.step_time(job)
        self.assertGreater(found, 4 * MS)
        self.assertAlmostEqual(found, simulation.run(job).makespan / 6, 5)
        self.assertAlmostEqual(simulation.step_time(job, marker="backward"), found, 8)
        self.assertIsNone(simulation.step_time(two_ranks()))

    def test_nccl_variables(self):
        job = phantora.Workload().all_reduce(range(16), "1GiB")
        free, ring = (phantora.Simulation("h200:2x8", nccl=nccl).run(job) for nccl in ({}, {"NCCL_ALGO": "Ring", "NCCL_PROTO": "LL"}))
        self.assertLess(free.makespan, ring.makespan)

    def test_jobs_share_a_cluster(self):
        simulation = phantora.Simulation("h200:2x2")
        jobs = phantora.Jobs(simulation)
        first = jobs.add(two_ranks(), [0, 1])
        self.assertEqual(jobs.free_gpus().tolist(), [2, 3])
        with self.assertRaisesRegex(phantora.ArgumentError, "GPU 1"):
            jobs.add(two_ranks(), [1, 2])
        second = jobs.add(two_ranks(), jobs.free_gpus(), start=5 * MS)
        self.assertIsNone(jobs.next(until=0.5 * MS))
        self.assertEqual(jobs.next(), first)
        self.assertEqual(jobs.now, jobs.report(first).makespan)
        self.assertEqual(jobs.next(), second)
        self.assertEqual(jobs.report(second).start, 5 * MS)
        self.assertIsNone(jobs.next())

    def test_refuses(self):
        with self.assertRaisesRegex(phantora.ConfigError, "h200"):
            phantora.Simulation("h9000:1x2")
        job = phantora.Workload().collective_of(0, [0, 1], "broadcast", 8)
        with self.assertRaisesRegex(phantora.ConfigError, "rank 0, operation 0"):
            phantora.Simulation("h200:1x2").run(job)
        with self.assertRaisesRegex(phantora.ConfigError, "GPU"):
            phantora.Simulation("h200:1x1").run(two_ranks())

    def test_json_in_one_call(self):
        request = {"cluster": "h200:1x2", "workload": json.loads(two_ranks().to_json())}
        report = phantora.Simulation("h200:1x2").run(two_ranks())
        self.assertEqual(phantora.simulate_json(json.dumps(request)), report.to_json())


class Clusters(unittest.TestCase):
    def test_says_what_there_is(self):
        cluster = phantora.Cluster("h200:2x8/leaf_spine,oversubscription=2")
        self.assertEqual((cluster.gpu_count, cluster.gpu_model, len(cluster.hosts)), (16, "h200", 2))
        links = cluster.links()
        self.assertEqual({len(column) for column in links.values()}, {len(links["name"])})
        route = cluster.route(0, 8)
        self.assertTrue(set(route) <= set(links["name"]))
        self.assertEqual(cluster.bisection(), cluster.narrowest_cut(0, 1))
        self.assertTrue(cluster.to_svg().startswith("<svg"))
        self.assertEqual(len(json.loads(cluster.to_json())["hosts"]), 2)
        with self.assertRaisesRegex(phantora.ArgumentError, "no GPU 16"):
            cluster.route(0, 16)
        toml = phantora.Cluster.from_toml('[[hosts]]\ngpu = "h200"\ngpus = 4\n')
        self.assertEqual(toml.gpu_count, 4)
        model = phantora.gpu_model("h200")
        self.assertEqual(model.key, "h200")
        self.assertGreater(model.half, model.fp32)
        self.assertIn("l40s", phantora.gpu_model_keys())

    def test_flows_share_links(self):
        cluster = phantora.Cluster("h200:1x4")
        flows = phantora.FlowNetwork(cluster)
        for source in (0, 1):
            flows.start(source, 2, "45MB")
        alone = flows.start(3, 0, "45MB", at=1.0)
        self.assertTrue(numpy.isnan(flows.completions()).all())
        flows.run()
        ends = flows.completions()
        self.assertEqual(ends[0], ends[1])
        # The two shared what the third had to itself; all pay one latency.
        self.assertAlmostEqual(ends[0], 2 * (ends[alone] - 1), delta=1e-6)
        with self.assertRaisesRegex(phantora.ArgumentError, "no link"):
            flows.set_capacity("nowhere", 0, 1e9)


class Transformers(unittest.TestCase):
    def test_steps_from_shapes(self):
        shape = phantora.TransformerShape(layers=2, hidden=1024, heads=8, mlp=4096)
        way = phantora.Parallelism(tensor=2, pipeline=2, data=2, batch=8)
        self.assertEqual(way.ranks, 8)
        self.assertGreater(shape.parameters, 2 * 1024 * 128256)
        job = phantora.training_steps(shape, way, steps=3)
        self.assertEqual(len(phantora.Simulation("h200:1x8").run(job).steps), 3)
        with self.assertRaisesRegex(phantora.ArgumentError, "layers"):
            phantora.training_steps(phantora.TransformerShape(layers=3), phantora.Parallelism(pipeline=2))

    def test_every_field_is_heard_in_python_and_in_json(self):
        shape = {"layers": 4, "hidden": 1024, "heads": 8, "mlp": 4096}
        way = {"tensor": 2, "pipeline": 2, "data": 2, "batch": 8}
        simulation = phantora.Simulation("h200:2x8")

        def report(shape_fields, way_fields, recipe_fields):
            of_shape, of_way = phantora.TransformerShape(**shape_fields), phantora.Parallelism(**way_fields)
            recipe = phantora.TrainingRecipe(**recipe_fields)
            for it, fields in ((of_shape, shape_fields), (of_way, way_fields), (recipe, recipe_fields)):
                for name, value in fields.items():
                    self.assertEqual(getattr(it, name), value)
            told = simulation.run(phantora.training_steps(of_shape, of_way, recipe=recipe)).to_json()
            request = {"cluster": "h200:2x8", "transformer": shape_fields | way_fields | recipe_fields}
            self.assertEqual(phantora.simulate_json(json.dumps(request)), told)
            return told

        experts, slices = shape | {"experts": 4}, way | {"context": 2}
        seen = [report(shape, way, {}), report(experts, way, {}), report(shape, slices, {})]
        seen += [report(shape | fields, way, {}) for fields in (
            {"gated": False}, {"rotary": False}, {"biases": True})]
        # Stages have a table each, so that only one that is first and last gains.
        seen += [report(shape | {"tied": tied}, way | {"pipeline": 1}, {}) for tied in (False, True)]
        seen.append(report(experts | {"experts_of_token": 1}, way, {}))
        seen.append(report(experts, way | {"expert": 2}, {}))
        seen += [report(shape, way | fields, {}) for fields in (
            {"chunks": 2}, {"schedule": "gpipe"}, {"schedule": "zero_bubble"}, {"sharding": "none"},
            {"sharding": "gradients"}, {"sharding": "parameters"}, {"bucket": 1 << 20}, {"recompute": "selective"},
            {"recompute": "full"}, {"recompute": "full", "recompute_every": 2}, {"sequence_parallel": False}, {"keep_gathered": False},
            {"overlap_tensor": True})]
        seen.append(report(shape, slices | {"exchange": "all_gather"}, {}))
        seen += [report(shape, way, fields) for fields in ({"gradient": 2.0}, {"optimizer": 6.0}, {"fused": False}, {"fp8": True},
                                                          {"attention": "flash_attention_2"}, {"fused_norms": False})]
        self.assertEqual(len(set(seen)), len(seen))
        # The defaults by name.
        self.assertEqual(report(shape, way | {"schedule": "1f1b", "sharding": "optimizer", "recompute": "none"}, {}), seen[0])
        self.assertEqual(report(shape, way, {"attention": "pytorch"}), seen[0])
        on_an_h200 = report(shape, way, {"attention": "cudnn"})
        self.assertEqual(on_an_h200.replace('"sdpa_', '"pytorch_sdpa_'), seen[0])
        with self.assertRaisesRegex(phantora.ArgumentError, "sharding is all, not one of none, optimizer"):
            phantora.Parallelism(sharding="all")
        for fields, expected in (({"layres": 4}, "layres"), ({"layers": "4"}, "layers: expected a whole number"),
                                 ({"gated": 1}, "gated: expected True or False")):
            with self.assertRaisesRegex(TypeError, expected):
                phantora.TransformerShape(**fields)


class Tables(unittest.TestCase):
    def test_pandas(self):
        report = phantora.Simulation("h200:1x2").run(two_ranks())
        frame = report.to_pandas()
        self.assertEqual(frame.index.name, "rank")
        self.assertEqual(frame["computing"].tolist(), [1 * MS, 1 * MS])

    def test_plot(self):
        report = phantora.Simulation("h200:1x2").run(two_ranks())
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "report.png"
            report.plot().savefig(path)
            self.assertTrue(path.read_bytes().startswith(b"\x89PNG"))


class Runs(unittest.TestCase):
    """Real programs. This one uses no GPU, so that it needs no torch."""

    def test_runs_a_program_per_gpu(self):
        with tempfile.TemporaryDirectory() as folder:
            code = f"import os, pathlib; pathlib.Path({folder!r}, os.environ['RANK']).touch()"
            kept = pathlib.Path(folder) / "report.json"
            report = phantora.run([sys.executable, "-c", code], "h200:1x2", host_time="off", report=kept)
            self.assertEqual(json.loads(kept.read_text()), report)
            self.assertEqual(sorted(path.name for path in pathlib.Path(folder).iterdir()), ["0", "1", "report.json"])
        self.assertEqual((report["cluster"], len(report["ranks"])), ("h200:1x2", 2))

    def test_a_record_runs_anywhere(self):
        code = """if True:
            import ctypes, os
            cudart = ctypes.CDLL("libcudart.so.13")
            assert cudart.cudaSetDevice(int(os.environ["LOCAL_RANK"])) == 0
            place = ctypes.c_void_p()
            assert cudart.cudaMalloc(ctypes.byref(place), ctypes.c_size_t(1 << 30)) == 0
            assert cudart.cudaMemset(place, 0, ctypes.c_size_t(1 << 30)) == 0
            assert cudart.cudaDeviceSynchronize() == 0"""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "job.rec"
            live = phantora.run([sys.executable, "-c", code], "h200:1x2", host_time="off", record=path)
            job = phantora.Workload.load(path)
            before = path.read_bytes()
            # A run that ends badly leaves a record of what was simulated until then.
            with self.assertRaises(phantora.RunError):
                phantora.run([sys.executable, "-c", code + "\n            raise SystemExit(3)"], "h200:1x2", record=path)
            self.assertEqual(phantora.Workload.load(path).rank_count, 2)
        self.assertEqual(job.rank_count, 2)
        self.assertEqual(phantora.Workload.from_bytes(before), job)
        there = phantora.Simulation("h200:1x2").run(job)
        self.assertAlmostEqual(there.makespan, live["simulated_s"], 8)
        self.assertGreaterEqual(there.peak_memory, 2**30)
        self.assertGreater(phantora.Simulation("a100:2x1").run(job).makespan, there.makespan)

    def test_tells_of_failure(self):
        with self.assertRaises(phantora.RunError) as raised:
            phantora.run([sys.executable, "-c", "raise SystemExit(3)"], "h200:1x1")
        self.assertEqual(raised.exception.status, 3)
        with self.assertRaises(phantora.RunError):
            phantora.run(["true"], "h200:1x1", no_such_option=1)


if __name__ == "__main__":
    unittest.main()
