"""Stock framework code at scale, run to its end: parallelisms of test/programs/train.py and every
collective, with the memory and the values that only a run to the end shows."""
import json
import re
import subprocess
import sys
import unittest

from job import PROGRAMS, ROOT, JobTest

EXAMPLES = ROOT / "examples/frameworks"
sys.path.insert(0, str(EXAMPLES))
import programs  # noqa: E402  (the list that examples/frameworks/run.sh runs)
import run  # noqa: E402


class Frameworks(JobTest):
    def train(self, model, parallel, gpus, *more, cluster=None):
        job = self.run_job([PROGRAMS / "train.py", "--model", model, "--parallel", parallel,
                            "--steps", "2", "--warmup", "2", *more],
                           cluster=cluster or f"h200:1x{gpus}", torch=True, timeout=900)
        row = json.loads(re.search(r'^\{"case".*\}$', job.text(), re.M)[0])
        self.assertEqual(row["world"], gpus)
        self.assertGreater(row["median_s"], 0)
        self.assertRegex(job.text(), r"forced answers +0\n")
        return row

    def test_ddp_of_every_model(self):
        for model in ("gpt2", "gpt2-medium", "llama-tiny", "resnet50"):
            with self.subTest(model):
                self.train(model, "ddp", 2)

    def test_fsdp2_splits_the_memory(self):
        for model in ("gpt2", "llama-tiny"):
            two, four = (self.train(model, "fsdp2", n)["peak_alloc"] for n in (2, 4))
            self.assertLess(four, two)

    def test_tensor_parallel(self):
        for gpus in (2, 4):
            self.train("llama-tiny", "tp", gpus)

    def test_activation_checkpointing_saves_memory(self):
        plain = self.train("gpt2", "ddp", 2)["peak_alloc"]
        self.assertLess(self.train("gpt2", "ddp", 2, "--ac")["peak_alloc"], plain)

    def test_sixteen_ranks(self):
        self.train("gpt2", "ddp", 16, cluster="h200:2x8")
        self.train("llama-tiny", "fsdp2", 16, cluster="h200:2x8")

    def test_every_collective_on_sixteen_ranks(self):
        operations = ("all_reduce,all_gather,reduce_scatter,all_to_all,broadcast,reduce,sendrecv")
        job = self.run_job([PROGRAMS / "collectives.py", operations, "65536,67108864"],
                           cluster="h200:2x8", torch=True, timeout=900)
        rows = [json.loads(line) for line in job.text().splitlines() if line.startswith('{"op"')]
        self.assertEqual(len(rows), 14)
        self.assertTrue(all(row["us"] > 0 for row in rows))


class BillionParameters(JobTest):
    """Each rank builds 4.4 GB of weights on the CPU: the limit on runnable ranks keeps it in bounds."""

    def test_llama_fsdp2_and_tensor_parallel(self):
        for parallel in ("fsdp2", "tp"):
            for gpus in (2, 4):
                Frameworks.train(self, "llama1b", parallel, gpus, "--batch", "2", "--seq", "2048")


class Programs(unittest.TestCase):
    """The programs of examples/frameworks, each to its end and as it is expected."""

    PATIENCE = 3.0  # a busy machine is no hang

    def all_of(self, listed):
        subprocess.run([EXAMPLES / "setup.sh"], check=True)
        for program in listed:
            if program.heavy:
                continue
            with self.subTest(program.name):
                outcome = run.run(program, self.PATIENCE)
                self.assertEqual(outcome.wrong, [], outcome.output)

    def test_pytorch(self):
        self.all_of(programs.PYTORCH)

    def test_hugging_face(self):
        self.all_of(programs.HUGGINGFACE)

    def test_deepspeed(self):
        self.all_of(programs.DEEPSPEED)

    def test_torchtitan(self):
        self.all_of(programs.TORCHTITAN)

    def test_megatron(self):
        self.all_of(programs.MEGATRON)


class Judgement(unittest.TestCase):
    """What run.py says of a program's output, without running one."""

    PROGRAM = programs.Program("test", "true")
    GOOD = "step 0: 9.0 ms\nstep 1: 2.0 ms\nstep 2: 4.0 ms\nstep 3: 3.0 ms\ntraining completed\n"

    def wrong(self, status, output, report):
        return run.judge(self.PROGRAM, status, output, report)

    def report(self, **more):
        kernels = [{"name": "a", "count": 1, "total_s": 1.0, "source": "measured"}]
        return {"forced_answers": 0, "counters": {}, "kernels": kernels} | more

    def test_a_good_run(self):
        self.assertEqual(self.wrong(0, self.GOOD, self.report()), [])
        self.assertEqual(self.PROGRAM.step_ms(self.GOOD), 3.0)

    def test_what_is_wrong_is_said(self):
        for part, status, output, report in (
                ("status 3", 3, self.GOOD, self.report()),
                ("did not end", "hang", self.GOOD, {}),
                ("ValueError: no", 1, "[rank0]: ValueError: no\n", {}),
                ("never printed", 0, "step 0: 9.0 ms\n", self.report()),
                ("never printed a step", 0, "training completed\n", self.report()),
                ("2 forced answers", 0, self.GOOD, self.report(forced_answers=2)),
                ("unsupported cuFoo", 0, self.GOOD, self.report(counters={"unsupported cuFoo": 1})),
                ("50.0 % unread", 0, self.GOOD, self.report(unread={"total_s": 0.5})),
                ("100.0 % unread", 0, self.GOOD, self.report(kernels=[
                    {"name": "b", "count": 1, "total_s": 1.0, "source": "unknown"}])),
                ("no report", 0, self.GOOD, {})):
            with self.subTest(part):
                self.assertTrue(any(part in text for text in self.wrong(status, output, report)),
                                self.wrong(status, output, report))

    def test_tokens_per_second_are_a_step(self):
        program = programs.Program("test", "true", step=r"tps: ([\d,]+)", tokens=4096)
        self.assertEqual(program.step_ms("tps: 10 tps: 2,048"), 2000.0)


if __name__ == "__main__":
    unittest.main()
