"""What `phantora report` makes of what a run has written: text, a page, a comparison."""
import copy
import html.parser
import json
import subprocess

from job import PHANTORA, JobTest, main

# Steps of fills, and a collective in each; two ranks that differ in memory.
STEPS = """
    import ctypes
    import gpu
    from gpu import cuda
    gpu.set_device()
    world = gpu.Communicator()
    data = gpu.allocate((64 + 64 * gpu.rank) << 20)
    for step in range(8):
        for i in range(20):
            cuda("cudaMemsetAsync", data, 0, ctypes.c_size_t((1 + i % 3) << 10), None)
        world._check(gpu.nccl.ncclAllReduce(data, data, ctypes.c_size_t(1 << 22), 7, 0, world.handle, None))
        cuda("cudaMemsetAsync", data, 0, ctypes.c_size_t(48 << 20), None)
        gpu.synchronize()
    """

GIB = 1 << 30
RANK = {"rank": 0, "host": "host0", "step_s": 0.25, "steps": 3, "kernels_per_step": 40,
        "step_starts_s": [1.0, 1.5, 1.75, 2.0], "typical_steps": [False, True, True],
        "step_parts_s": {"computing": 0.125, "exposed_communication": 0.0625, "idle": 0.0625},
        "busy_s": 0.75, "communication_s": 0.25, "exposed_communication_s": 0.1875, "kernels": 120,
        "kernel_s_by_source": {"measured": 0.4375, "fitted": 0.0625, "roofline": 0.0, "unknown": 0.0},
        "peak_memory_bytes": 3 * GIB}
REPORT = {"phantora": "", "cluster": "h200:1x2", "gpu": "NVIDIA H200", "command": ["python", "train.py"],
          "status": 0, "partial": None, "host_time": "measured", "host_scale": "auto",
          "host": {"name": "h200", "share_of_step": 0.2, "step_s_if_free": 0.2,
                   "step_s_if_20_percent_faster": 0.24, "step_s_if_20_percent_slower": 0.27},
          "routing": "balanced", "sync": "conservative", "simulated_s": 2.0, "gpu_memory_bytes": 128 * GIB,
          "ranks": [RANK, {**RANK, "rank": 1, "busy_s": 0.875, "peak_memory_bytes": 4 * GIB}],
          "kernels": [{"name": "gemm", "count": 200, "total_s": 0.875, "source": "measured", "deviation_s": 0.0625},
                      {"name": "void f<(int)1>(float const*)", "count": 40, "total_s": 0.125, "source": "fitted",
                       "deviation_s": 0.0}],
          "forced_answers": 0, "late_operations": 0, "counters": {"assumed_routing": 5}, "wall_s": 4.2,
          "answers_at_rest": 0}

TEXT = """\
phantora: h200:1x2 on NVIDIA H200, 2 GPUs
  step time               250.000 ms, 2 steps of 40 kernels and copies; 1 more warm up or hold other work
  host                    h200; 20.0 % of the step waits for it. 20 % faster: 240.000 ms, 20 % slower: 270.000 ms
  simulated time          2.000 s
  GPU busy                875.000 ms (43.8 %) (750.000 ms (37.5 %) .. 875.000 ms (43.8 %))
  exposed communication   187.500 ms (9.4 %)
  peak memory             4.00 GiB (3.00 GiB .. 4.00 GiB) of 128.00 GiB
  kernel time by source   measured 87.5 %, fitted 12.5 %, roofline 0.0 %
  forced answers          0
  assumed routing         5 top-k choices by scores that are not computed, balanced. What experts compute \
hangs on it: --routing first and random bound how much
  simulation took         4.2 s

  rank  host   steps   step time        busy     exposed      memory    capacity     kernels
     0  host0      3  250.000 ms  750.000 ms  187.500 ms    3.00 GiB  128.00 GiB         120
     1  host0      3  250.000 ms  875.000 ms  187.500 ms    4.00 GiB  128.00 GiB         120

a typical step, on average
  rank    computing     exposed        idle
     0   125.000 ms   62.500 ms   62.500 ms
     1   125.000 ms   62.500 ms   62.500 ms

kernels and copies of all ranks, longest first
      total  share    count        each        +-    source  kernel
 875.000 ms  87.5%      200    4.375 ms      7.1%  measured  gemm
 125.000 ms  12.5%       40    3.125 ms         -    fitted  void f<(int)1>(float const*)
"""


class Page(html.parser.HTMLParser):
    """Every tag is closed where it should be; figures by the table row that they stand in."""
    VOID = {"meta"}

    def __init__(self, text):
        super().__init__()
        self.open, self.text, self.tables, self.cards, self.urls = [], [], {}, [], []
        self.feed(text)
        self.close()
        assert self.open == [], f"not closed: {self.open}"

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.urls += [attributes[name] for name in ("src", "href", "xlink:href", "action") if name in attributes]
        if tag == "table":
            self.tables[attributes["id"]] = []
        if tag == "tr" and "table" in self.open:
            list(self.tables.values())[-1].append([])
        if tag == "data":
            where = list(self.tables.values())[-1][-1] if "tr" in self.open else self.cards
            where.append(float(attributes["value"]))
        if tag == "svg" and attributes.get("aria-hidden") != "true":
            assert attributes["role"] == "img" and attributes["aria-label"], attributes
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open}"
        self.open.pop()

    def handle_data(self, data):
        if "style" not in self.open:
            self.text.append(data)


class ShownReport(JobTest):
    def phantora(self, *arguments, status=0):
        done = subprocess.run([PHANTORA, *map(str, arguments)], cwd=self.directory, capture_output=True,
                              text=True, timeout=120)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout if status == 0 else done.stderr

    def fixed(self, name="fixed.json", **changes):
        report = {**copy.deepcopy(REPORT), "phantora": self.phantora("--version").split()[1], **changes}
        (self.directory / name).write_text(json.dumps(report))
        return report

    def live(self, *options):
        return self.run_python(STEPS, options=["--report", "report.json", *options])

    def test_a_report_as_text(self):
        self.fixed()
        self.assertEqual(self.phantora("report", "fixed.json"), TEXT)

    def test_begins_with_what_the_run_printed(self):
        job = self.live("--host-time", "off")
        ended = "phantora: " + job.out.rpartition("\nphantora: ")[2]
        shown = self.phantora("report", "report.json")
        self.assertEqual(shown.partition("\n\n")[0],
                         ended[:ended.index("\n  simulation took")])
        self.assertIn("\n     1  host0      7 ", shown)

    def test_what_is_measured_is_told_too(self):
        job = self.live("--host-time", "fixed:12000")
        ended = "phantora: " + job.out.rpartition("\nphantora: ")[2]
        self.assertIn(" of the step waits for it. ", ended)
        self.assertTrue(self.phantora("report", "report.json").startswith(
            ended[:ended.index("\n  simulation took")]))

    def test_steps_consist_of_their_parts(self):
        self.live("--host-time", "fixed:12000")
        for rank in self.report()["ranks"]:
            lengths = [end - begin for begin, end, typical in
                       zip(rank["step_starts_s"], rank["step_starts_s"][1:], rank["typical_steps"]) if typical]
            parts = rank["step_parts_s"]
            self.assertAlmostEqual(sum(parts.values()), sum(lengths) / len(lengths), places=11)
            self.assertGreater(min(parts.values()), 0)

    def page(self, name):
        self.assertEqual(self.phantora("report", name, "--html", "page.html"), "")
        text = (self.directory / "page.html").read_text()
        page = Page(text)
        self.assertEqual(page.urls, [])
        for outside in ("<script", "@import", "url(", "http:", "https:"):
            self.assertNotIn(outside, text)
        return page

    def assert_same_figures(self, page, report):
        """All of the page's figures are the JSON's."""
        ranks = [[rank["rank"], rank["steps"],
                  *([rank["step_s"], *rank["step_parts_s"].values()] if rank["steps"] else []), rank["busy_s"],
                  rank["exposed_communication_s"], rank["kernels"], rank["peak_memory_bytes"],
                  report["gpu_memory_bytes"]] for rank in report["ranks"]]
        self.assertEqual(page.tables["ranks"][1:], ranks)
        self.assertEqual(page.tables["kernels"][1:],
                         [[kernel["total_s"], *([kernel["deviation_s"]] if kernel["deviation_s"] else []),
                           kernel["count"]] for kernel in report["kernels"][:20]])

        def middle(field):
            return sorted(rank[field] for rank in report["ranks"])[len(report["ranks"]) // 2]
        self.assertEqual(page.cards, [middle("step_s"), report["simulated_s"], middle("busy_s"),
                                      middle("exposed_communication_s"),
                                      max(rank["peak_memory_bytes"] for rank in report["ranks"])])

    def test_a_page_has_the_figures_of_the_json(self):
        self.live("--host-time", "fixed:12000")
        self.assert_same_figures(self.page("report.json"), self.report())
        report = self.fixed()
        page = self.page("fixed.json")
        self.assert_same_figures(page, report)
        text = "".join(page.text)
        for expected in ("rank 1: 125.000 ms computing (50.0 %)", "time of a typical step [ms]", "memory [GiB]",
                         "20 % slower: 270.000 ms", "void f<(int)1>(float const*)",
                         "measured: in the built-in data: 875.000 ms (87.5 %)", TEXT.partition("\n\n")[0]):
            self.assertIn(expected, text)

    def test_a_page_escapes_what_others_wrote(self):
        self.fixed(command=["python", "<script>\"&\u0001"], partial="ended & gone")
        text = "".join(self.page("fixed.json").text)
        self.assertIn("python <script>\"&\ufffd", text)
        self.assertIn("This report is partial: ended & gone.", text)

    def test_a_report_of_a_run_without_work(self):
        self.run_python("import gpu", options=["--report", "report.json"])
        self.assertIn("no repeating work found", self.phantora("report", "report.json"))
        self.assertIn("not found", "".join(self.page("report.json").text))

    def test_a_report_of_a_replay(self):
        self.live("--host-time", "off", "--record", "job.rec")
        told = self.phantora("replay", "job.rec", "--cluster", "h100:1x2", "--report", "replay.json")
        shown = self.phantora("report", "replay.json")
        self.assertEqual(shown.partition("\n\n")[0], told[:told.index("\n  replay took")])
        self.assertIn("waiting for ranks", shown)
        self.assert_same_figures(self.page("replay.json"), json.loads((self.directory / "replay.json").read_text()))

    def test_unlike_gpus(self):
        self.run_python(STEPS, options=["--report", "report.json", "--host-time", "off"],
                        cluster="h200:1x1+l40s:1x1")
        text = "".join(self.page("report.json").text)
        self.assertIn("NVIDIA H200 and NVIDIA L40S", text)
        self.assertIn("host1, NVIDIA L40S", text)

    def test_two_reports_are_compared(self):
        first = self.fixed("a.json")
        kernels = copy.deepcopy(first["kernels"])
        kernels[1]["total_s"] = 0.375
        rank = {**RANK, "step_s": 0.5, "step_starts_s": [1.0, 2.0, 2.5, 3.0], "peak_memory_bytes": 2 * GIB}
        self.fixed("b.json", cluster="h100:1x1", ranks=[rank], kernels=kernels, host={"name": "h200"})
        self.assertEqual(self.phantora("report", "a.json", "b.json"), """\
first  a.json: h200:1x2 on NVIDIA H200, 2 GPUs
second b.json: h100:1x1 on NVIDIA H200, 1 GPUs
                                     first         second     change
  step time                     250.000 ms     500.000 ms   +100.0 %
    computing                   125.000 ms     125.000 ms     +0.0 %
    exposed communication        62.500 ms      62.500 ms     +0.0 %
    idle                         62.500 ms      62.500 ms     +0.0 %
  simulated time                   2.000 s        2.000 s     +0.0 %
  GPU busy                      875.000 ms     750.000 ms    -14.3 %
  exposed communication         187.500 ms     187.500 ms     +0.0 %
  greatest peak memory            4.00 GiB       2.00 GiB    -50.0 %
  kernels and copies               1.000 s        1.250 s    +25.0 %
  kernels that differ most, in total over all GPUs
                                125.000 ms     375.000 ms   +200.0 %  void f<(int)1>(float const*)
""")
        self.assertIn("no kernel's total time differs", self.phantora("report", "a.json", "a.json"))

    def test_what_is_no_report_is_refused(self):
        def told(text):
            (self.directory / "bad.json").write_text(text)
            return self.phantora("report", "bad.json", status=2)
        self.assertIn("bad.json: expected JSON, as phantora run and replay --report write it", told("step: 5"))
        self.assertIn('bad.json: phantora: expected text, got nothing', told('{"ranks": []}'))
        self.assertIn("bad.json: expected an object", told('[{"variant": "--cluster h100:1x1"}]'))
        self.assertIn('bad.json: phantora: expected a report of this version, ', told('{"phantora": "0.0.1"}'))
        report = self.fixed()
        del report["ranks"][1]["busy_s"]
        self.assertIn("bad.json: ranks[1].busy_s: expected seconds from 0 to 9e6, got nothing",
                      told(json.dumps(report)))
        self.assertIn("none.json: expected a report", self.phantora("report", "none.json", status=2))
        self.assertIn("--html: expected one report, got two",
                      self.phantora("report", "fixed.json", "fixed.json", "--html", "page.html", status=2))
        self.assertIn("page", self.phantora("report", "fixed.json", "--html", "no/such/page.html", status=2))


if __name__ == "__main__":
    main()
