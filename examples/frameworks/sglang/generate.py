"""Offline generation by SGLang with random weights: generate.py [--graphs] [--tp N] [--requests N]"""
import argparse
import pathlib
import time

import sglang

NEW, ATTEMPTS = 32, 3


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--graphs", action="store_true", help="prompts and decoding by CUDA graphs")
    arguments.add_argument("--tp", type=int, default=1, help="GPUs that share each layer")
    arguments.add_argument("--requests", type=int, default=8, help="in each turn, at once")
    options = arguments.parse_args()
    model = pathlib.Path(__file__).resolve().parent.parent / "vllm" / "model"
    graphs = ({"cuda_graph_config": {"decode": {"backend": "full", "max_bs": options.requests}}}
              if options.graphs else {"disable_cuda_graph": True})
    engine = sglang.Engine(model_path=str(model), load_format="dummy", skip_tokenizer_init=True,
                           attention_backend="triton", tp_size=options.tp, log_level="info",
                           decode_log_interval=8, **graphs)
    how = {"temperature": 0.8, "max_new_tokens": NEW, "ignore_eos": True}
    for attempt in range(ATTEMPTS):
        # Other prompts each time, so that none is found in the cache of prefixes.
        prompts = [[5 + (997 * attempt + 31 * request + place) % 30000
                    for place in range(64 + request % 64)]
                   for request in range(options.requests)]
        start = time.perf_counter()
        answers = engine.generate(input_ids=prompts, sampling_params=how)
        seconds = time.perf_counter() - start
        assert all(len(answer["output_ids"]) == NEW for answer in answers)
        print(f"turn {attempt}: {len(answers) * NEW / seconds:.0f} tokens per second", flush=True)
    engine.shutdown()
    print("generation completed", flush=True)


if __name__ == "__main__":
    main()
