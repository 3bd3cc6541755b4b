"""Stock framework code at scale, run to its end: parallelisms of test/programs/train.py and every
collective, with the memory and the values that only a run to the end shows."""
import json
import re
import unittest

from job import PROGRAMS, JobTest


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


if __name__ == "__main__":
    unittest.main()
