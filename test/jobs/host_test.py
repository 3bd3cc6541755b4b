"""On which host a job is simulated, and what its step would take on others."""
import json
import pathlib
import subprocess

from job import PHANTORA, JobTest, main

# Deterministic: a thread, a stream, steps that wait for their end.
STEPS = """
    import ctypes
    import gpu
    from gpu import cuda
    gpu.set_device()
    data = gpu.allocate(64 << 20)
    for step in range(12):
        for i in range(20):
            cuda("cudaMemsetAsync", data, 0, ctypes.c_size_t((1 + i % 3) << 10), None)
        cuda("cudaMemsetAsync", data, 0, ctypes.c_size_t(48 << 20), None)
        gpu.synchronize()
    """


class Host(JobTest):
    def phantora(self, *arguments, status=0):
        done = subprocess.run([PHANTORA, *arguments], cwd=self.directory, capture_output=True, text=True,
                              timeout=120)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def profile(self):
        """This machine's, as measured."""
        said = self.phantora("host", "--output", "here.json", "--name", "here")
        self.assertIn("phantora: here as a host, measured in", said)
        return json.loads((self.directory / "here.json").read_text())

    def test_measures_this_machine(self):
        host = self.profile()
        self.assertEqual((host["phantora_host"], host["name"]), (1, "here"))
        for kind in ("interpreter", "allocation", "memory"):
            self.assertGreater(host["work_ns"][kind], 0)
        self.run_python("import gpu; gpu.set_device()",
                        options=["--host", "here.json", "--report", "report.json"])
        self.assertEqual(self.report()["host"], {"name": "here"})

    def test_lists_what_is_built_in(self):
        said = self.phantora("host", "--list")
        self.assertTrue(said.startswith("h200 (default)\n  processor"), said)

    def test_an_unknown_host_is_refused(self):
        said = self.phantora("run", "--cluster", "h200:1x1", "--host", "abacus", "--", "true", status=2)
        self.assertIn('host "abacus": expected one of h200, ', said)
        (self.directory / "bad.json").write_text('{"phantora_host": 1, "name": 5}')
        said = self.phantora("run", "--cluster", "h200:1x1", "--host", "bad.json", "--", "true", status=2)
        self.assertIn("bad.json: name: expected text, got 5", said)

    def steps(self, *options):
        job = self.run_python(STEPS, options=["--report", "report.json", *options], cluster="h200:1x1")
        report = self.report()
        self.assertGreater(report["ranks"][0]["steps"], 5, job.text())
        return report

    def test_what_other_hosts_would_do_is_what_they_do(self):
        here = self.steps("--host-time", "fixed:12000")
        self.assertEqual(here["host"]["name"], "h200")
        self.assertGreater(here["host"]["share_of_step"], 0.1)
        for ns, what in ((10000, "faster"), (15000, "slower")):
            other = self.steps("--host-time", f"fixed:{ns}")
            self.assertAlmostEqual(here["host"][f"step_s_if_20_percent_{what}"],
                                   other["ranks"][0]["step_s"], delta=1e-11)
        free = self.steps("--host-time", "fixed:0")
        self.assertAlmostEqual(here["host"]["step_s_if_free"], free["ranks"][0]["step_s"], delta=1e-11)
        self.assertAlmostEqual(free["host"]["share_of_step"], 0)

    def test_nothing_is_said_of_a_host_that_takes_no_time(self):
        self.assertNotIn("host", self.steps("--host-time", "off"))

    def write_hosts(self):
        """a.json, and b.json that takes twice as long for everything."""
        host = {"phantora_host": 1, "name": "slow", "processor": "", "sockets": 1, "cores": 1, "threads": 1,
                "work_ns": {"interpreter": 9e4, "allocation": 5e4, "memory": 7e4}, "calls_ns": 4e4}
        (self.directory / "a.json").write_text(json.dumps(host))
        host["work_ns"] = {kind: 2 * ns for kind, ns in host["work_ns"].items()}
        (self.directory / "b.json").write_text(json.dumps(host))

    def test_a_record_runs_on_other_hosts(self):
        self.write_hosts()
        self.steps("--host-time", "fixed:12000", "--record", "job.rec")
        scales = {}
        for host in ("h200", "a.json", "b.json"):
            self.phantora("replay", "job.rec", "--cluster", "h200:1x1", "--host", host, "--report", "again.json")
            scales[host] = json.loads((self.directory / "again.json").read_text())["host_scale"]
        self.assertEqual(scales["h200"], 1)
        self.assertAlmostEqual(scales["b.json"], 2 * scales["a.json"])
        said = self.phantora("replay", "job.rec", "--cluster", "h200:1x1", "--host", "h200", "--host-scale", "2",
                             status=108)  # CLI11's status of excluded options
        self.assertIn("excludes --host", said)

    def test_a_host_half_as_fast_takes_twice_as_long(self):
        self.write_hosts()

        def thousand_calls(*options):
            job = self.run_python("""
                import time
                import gpu
                gpu.set_device()
                before = time.perf_counter_ns()
                for i in range(1000):
                    gpu.set_device()
                print("took", time.perf_counter_ns() - before)
                """, options=["--host-time", "fixed:1000", *options], cluster="h200:1x1")
            return int(job.out.split("took ")[1].split()[0])

        self.assertEqual(thousand_calls(), 1_000_000)
        self.assertEqual(thousand_calls("--host", "h200"), 1_000_000)
        once = thousand_calls("--host", "a.json")
        self.assertNotEqual(once, 1_000_000)
        # Calls cost whole picoseconds.
        self.assertAlmostEqual(thousand_calls("--host", "b.json"), 2 * once, delta=3)


if __name__ == "__main__":
    main()
