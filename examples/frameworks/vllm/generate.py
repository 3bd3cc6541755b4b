"""Offline generation by vLLM with random weights: generate.py [--tp N] [--graphs] [--requests N]"""
import argparse
import pathlib
import time

from vllm import LLM, SamplingParams

NEW, ATTEMPTS = 16, 3


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--tp", type=int, default=1, help="GPUs that share each layer")
    arguments.add_argument("--graphs", action="store_true",
                           help="with torch.compile and CUDA graphs, as by default in vLLM")
    arguments.add_argument("--requests", type=int, default=8, help="in each turn, at once")
    options = arguments.parse_args()
    model = LLM(model=str(pathlib.Path(__file__).resolve().parent / "model"), load_format="dummy",
                skip_tokenizer_init=True, enforce_eager=not options.graphs,
                tensor_parallel_size=options.tp)
    how = SamplingParams(temperature=0.8, max_tokens=NEW, ignore_eos=True, detokenize=False)
    for attempt in range(ATTEMPTS):
        # Other prompts each time, so that none is found in the cache of prefixes.
        prompts = [{"prompt_token_ids": [5 + (997 * attempt + 31 * request + place) % 30000
                                         for place in range(64 + request % 64)]}
                   for request in range(options.requests)]
        before = time.perf_counter()
        answers = model.generate(prompts, how, use_tqdm=False)
        took = time.perf_counter() - before
        assert all(len(answer.outputs[0].token_ids) == NEW for answer in answers)
        print(f"step {attempt}: {1e3 * took / NEW:.3f} ms per token of {options.requests} requests",
              flush=True)
    print("generation completed", flush=True)


if __name__ == "__main__":
    main()
