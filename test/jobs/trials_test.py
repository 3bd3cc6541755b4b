"""Convolutions that a program tries out first (torch.backends.cudnn.benchmark) are those of cuDNN's that it would find."""
import json

from job import TESTS, JobTest, main

DATA = TESTS.parent / "lib/kernels/data"

# Prints what each of these calls takes of the GPU, in us, and allocates beside its result when it is first made.
PROGRAM = f"""
import json, sys
import torch
sys.path.insert(0, {str(DATA)!r})
from measure_architectures import a_convolution
from measure_trials import alone_in_memory
def measured(benchmark, part, *shape, **more):
    run = next(make for case, make in a_convolution(*shape, **more) if case["part"] == part)()
    torch.backends.cudnn.benchmark = benchmark
    bytes, seconds = alone_in_memory(run)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(200_000_000)  # the host gets ahead
    begin.record()
    for _ in range(10):
        run()
    end.record()
    torch.cuda.synchronize()
    print(json.dumps([bytes, seconds, 100 * begin.elapsed_time(end)]), flush=True)
"""


class Trials(JobTest):
    def measured(self, *calls, cluster="h200:1x1"):
        told = self.run_python(PROGRAM + "\n".join(calls), torch=True, cluster=cluster)
        lines = [line for line in told.out.splitlines() if line.startswith("[")]
        self.assertEqual(len(lines), len(calls), told.text())
        return [json.loads(line) for line in lines]

    def test_workspaces_are_those_of_an_h200(self):
        # Of h200_sweep19.jsonl.gz: Fourier transforms forward, of a filter's gradient and of the data's.
        calls = {'"fwd", 64, 960, 128, (7, 7), 1, dtype="tf32"': 425164800,
                 '"bwd_filter", 16, 768, 768, (32, 32), 1, dtype="tf32"': 5184159744,
                 '"bwd_data", 16, 512, 512, (28, 28), 3, dtype="tf32"': 1212153856}
        found = self.measured(*(f"measured(True, {call})" for call in calls))
        self.assertEqual([bytes for bytes, *_ in found], list(calls.values()))
        for bytes, _, _ in self.measured(*(f"measured(False, {call})" for call in calls)):
            self.assertLess(bytes, 2 ** 27)

    def test_the_fastest_kernels_are_found(self):
        # Of an H200 561 and 262 us by the heuristics' choice, 207 and 92 by the fastest; of an H100 590 and 279, 220 and 105.
        calls = ['"fwd", 128, 256, 128, (32, 32), 3, dtype="tf32", last=True',
                 '"bwd_filter", 128, 64, 64, (112, 112), 3, 2, groups=4, dtype="bf16", last=True']
        for gpu in ("h200:1x1", "h100:1x1"):
            first = self.measured(*(f"measured(False, {call})" for call in calls), cluster=gpu)
            tried = self.measured(*(f"measured(True, {call})" for call in calls), cluster=gpu)
            for (_, alone, before), (_, trying, after) in zip(first, tried):
                self.assertLess(after, 0.45 * before)
                self.assertGreater(trying, alone + 0.03)  # 40 ms of the host for all that is tried


main()
