"""The programs that run.py and test/jobs/frameworks_test.py run, and what is expected of each."""
import dataclasses
import re

STEP = r"step [^:\n]*: ([\d.]+) ms"


@dataclasses.dataclass(frozen=True)
class Program:
    name: str
    # {python}, {bin} and {here} are its environment's interpreter, its programs and this folder.
    # The working directory is build/frameworks.
    command: str
    cluster: str = "h200:1x2"
    options: str = ""
    step: str = STEP  # finds the program's own step time, in ms; empty where it has none
    tokens: int = 0  # where `step` finds tokens per second instead: the tokens of a step
    expect: tuple = (r"training completed",)  # what its output has
    seconds: int = 120  # of wall time on 2 quiet cores, after which it counts as hanging
    heavy: bool = False  # left out unless asked for
    needs: str = ""  # a program without which it cannot run
    environment: str = "venv"  # its Python environment in build/frameworks

    def step_ms(self, output):
        """The median of its step times, without the first, which has what happens only once."""
        if not self.step:
            return None
        found = [float(text.replace(",", "")) for text in re.findall(self.step, output)]
        found = sorted(found[1:] or found)
        if not found:
            return None
        middle = found[len(found) // 2]
        return 1e3 * self.tokens / middle if self.tokens else middle


def titan(name, more="", gpus=4, replicas=None, python="{python}", **settings):
    """A run of the debug model; `replicas` is how many batches a step has, one per GPU by default."""
    replicas = replicas or gpus
    return Program(
        f"torchtitan/{name}",
        f"{python} -m torchtitan.train --job.config_file {{here}}/torchtitan/debug.toml {more}",
        **{"cluster": f"h200:1x{gpus}", "step": r"tps: ([\d,]+)",
           "tokens": 8 * 2048 * replicas // gpus,
           "expect": (r"step:  5 ", r"Training completed")} | settings)


def titan_pipeline(name, schedule):
    return titan(name, "--parallelism.pipeline_parallel_degree 2 "
                 f"--parallelism.pipeline_parallel_schedule {schedule}", gpus=2, replicas=1)


TENSOR = "--parallelism.tensor_parallel_degree 2 "
CONTEXT = "--parallelism.context_parallel_degree 2 "
HYBRID = "--parallelism.data_parallel_replicate_degree 2 --parallelism.data_parallel_shard_degree 2 "
FLOAT8 = "--model.converters quantize.linear.float8 "
CHECKPOINT = "--checkpoint.enable --checkpoint.interval 3 --checkpoint.folder {run}"

TORCHTITAN = [
    titan("fsdp2"),
    titan("torchrun", cluster="h200:2x2",
          python="{bin}/torchrun --nnodes 2 --nproc-per-node 2"),
    titan("hsdp", HYBRID, cluster="h200:2x2"),
    titan("tp", TENSOR, replicas=2),
    titan("async-tp", TENSOR + "--parallelism.enable_async_tensor_parallel --compile.enable",
          gpus=2, replicas=1),
    titan("cp", CONTEXT, gpus=2, replicas=1),
    titan("cp-alltoall", CONTEXT + "--parallelism.context_parallel_rotate_method alltoall",
          gpus=2, replicas=1),
    titan_pipeline("pp-1f1b", "1F1B"),
    titan_pipeline("pp-interleaved", "Interleaved1F1B"),
    titan_pipeline("pp-interleaved-zero-bubble", "InterleavedZeroBubble"),
    titan_pipeline("pp-zbv", "ZBVZeroBubble"),
    titan("ac-selective", "--activation_checkpoint.mode selective "
          "--activation_checkpoint.selective_ac_option op", gpus=2),
    titan("ac-full", "--activation_checkpoint.mode full", gpus=2),
    titan("compile", "--compile.enable", gpus=2, seconds=240),
    titan("float8", FLOAT8 + "--quantize.linear.float8.recipe_name rowwise", gpus=2),
    titan("float8-compile", FLOAT8 + "--compile.enable", gpus=2, seconds=240),
    titan("checkpoint", CHECKPOINT, gpus=2),
    titan("profiler", "--profiling.enable_profiling --profiling.profile_freq 4 "
          "--profiling.profiler_active 1 --profiling.profiler_warmup 1 "
          "--profiling.enable_memory_snapshot", gpus=2),
    titan("8b", "--model.flavor 8B --training.local_batch_size 1 --training.seq_len 8192 "
          "--activation_checkpoint.mode selective --activation_checkpoint.selective_ac_option op",
          gpus=8, cluster="h200:2x8", tokens=8192, seconds=1800, heavy=True),
]


def megatron(name, more="", gpus=2, **settings):
    return Program(f"megatron/{name}", f"{{python}} {{here}}/megatron/train_gpt.py {more}",
                   **{"cluster": f"h200:1x{gpus}", "seconds": 180} | settings)


MEGATRON = [
    megatron("one-gpu", gpus=1),
    megatron("dp", "--distributed-optimizer"),
    megatron("tp-sp", "--tp 2 --sequence-parallel"),
    megatron("pp", "--pp 2"),
    megatron("3d", "--tp 2 --pp 2 --vp 2 --layers 8 --sequence-parallel --distributed-optimizer",
             gpus=8, seconds=300),
    megatron("moe", "--ep 4 --experts 8 --distributed-optimizer", gpus=4, seconds=240),
    megatron("llama2-7b", "--tp 4 --sequence-parallel --layers 32 --hidden 4096 --ffn 11008 "
             "--heads 32 --length 4096 --words 32000 --micro-batch 1 --swiglu "
             "--distributed-optimizer", cluster="h200:4x4", options="--gpu-memory 143771MiB",
             seconds=1800, heavy=True),
]


def deepspeed(name, more, gpus=2, **settings):
    return Program(f"deepspeed/{name}", f"{{python}} {{here}}/deepspeed/train.py {more}",
                   **{"cluster": f"h200:1x{gpus}"} | settings)


DEEPSPEED = [
    deepspeed("zero1", "1"),
    deepspeed("zero2", "2 --checkpoint"),
    deepspeed("zero3", "3"),
    deepspeed("offload", "2 --offload"),
    deepspeed("flops-profiler", "1 --profile",
              expect=(r"Flops Profiler", r"training completed")),
    deepspeed("fused-adam", "1 --fused", seconds=900, needs="nvcc"),
    Program("deepspeed/pipeline", "{python} {here}/deepspeed/pipeline.py", "h200:1x4"),
    Program("deepspeed/launcher", "{bin}/deepspeed --num_gpus 2 {here}/deepspeed/train.py 2"),
    Program("deepspeed/launcher-hostfile", "sh {here}/deepspeed/launch.sh {bin}/deepspeed "
            "{here}/deepspeed/train.py 1", "h200:2x2", "--per host"),
]


def accelerate(name, more):
    return Program(f"huggingface/accelerate-{name}",
                   f"{{bin}}/accelerate launch --num_processes 2 --mixed_precision bf16 {more} "
                   "{here}/huggingface/accelerate_train.py")


def generate(name, more=""):
    return Program(f"huggingface/generate-{name}", "{python} {here}/huggingface/generate.py "
                   + more, "h200:1x1", step=r"step \d+: ([\d.]+) ms per token",
                   expect=(r"generation completed",))


SHARDED = ("--use_fsdp --fsdp_auto_wrap_policy TRANSFORMER_BASED_WRAP "
           "--fsdp_transformer_layer_cls_to_wrap GPT2Block ")

HUGGINGFACE = [
    *(Program(f"huggingface/trainer-{kind}", f"{{python}} {{here}}/huggingface/trainer.py {more}",
              step=r"step of ([\d.]+) ms")
      for kind, more in (("ddp", "ddp --save"), ("fsdp1", "fsdp1"), ("fsdp2", "fsdp2"))),
    accelerate("ddp", "--multi_gpu"),
    accelerate("fsdp1", SHARDED + "--fsdp_version 1"),
    accelerate("fsdp2", SHARDED + "--fsdp_version 2"),
    generate("greedy"),
    generate("no-eos", "--no-eos"),
    generate("sample", "--sample"),
    generate("static", "--static"),
]


def pytorch(name, command, gpus=2, **settings):
    return Program(f"pytorch/{name}", f"{{python}} {{here}}/pytorch/{command}",
                   **{"cluster": f"h200:1x{gpus}"} | settings)


def parallel(kind, more="", name=None, gpus=2, **settings):
    return pytorch(name or kind, f"parallel.py {kind} {more}", gpus, **settings)


SCHEDULES = ["GPipe", "1F1B", "Interleaved1F1B", "LoopedBFS", "InterleavedZeroBubble",
             "ZBVZeroBubble", "DualPipeV"]

PYTORCH = [
    pytorch("ddp-tutorial", "ddp.py"),
    parallel("single", gpus=1),
    parallel("ddp"),
    parallel("fsdp1"),
    parallel("fsdp2"),
    parallel("hsdp", gpus=4),
    parallel("tp"),
    parallel("sp"),
    parallel("tp_fsdp", gpus=4),
    parallel("fsdp2", "--ac", name="fsdp2-ac"),
    parallel("single", "--compile", name="compile", gpus=1, seconds=240),
    parallel("single", "--compile max-autotune-no-cudagraphs", name="compile-max-autotune", gpus=1,
             seconds=400),
    *(pytorch(f"graphs-{way}", f"graphs.py {way}", gpus=2 if way == "ddp" else 1, seconds=240)
      for way in ("raw", "callables", "reduce-overhead", "ddp")),
    parallel("ddp", "--compile", name="compile-ddp", seconds=240),
    parallel("fsdp2", "--compile", name="compile-fsdp2", seconds=240),
    parallel("sp", "--compile", name="compile-tp", seconds=240),
    parallel("async_tp", "--compile", seconds=240),
    pytorch("compiled-kernels", "compiled_kernels.py", gpus=1, step=r"step triton: ([\d.]+) ms",
            expect=(r"step erfinv", r"step jiterator", r"all compiled")),
    *(pytorch(f"pipelining-{schedule}", f"pipelining.py Schedule{schedule}")
      for schedule in SCHEDULES),
    pytorch("spawn-per-run", "imagenet.py", options="--per run"),
    pytorch("spawn-per-host", "imagenet.py --hosts 2 --url tcp://host0:23456", cluster="h200:2x2",
            options="--per host", seconds=240),
    pytorch("one-process", "one_process.py", options="--per run"),
    *(pytorch(f"destroy-{when}", f"destroy.py {when}", step=r"ended in ([\d.]+) ms",
              expect=(r"ended in",))
      for when in ("idle", "queued", "async", "twice", "never")),
    pytorch("symmetric-memory", "symmetric_memory.py"),
    Program("pytorch/torchrun-static", "{bin}/torchrun --nnodes 2 --nproc-per-node 2 "
            "{here}/pytorch/ddp.py", "h200:2x2"),
    Program("pytorch/torchrun-c10d", "{bin}/torchrun --nnodes 2 --nproc-per-node 2 "
            "--rdzv-backend c10d --rdzv-endpoint host0:29400 --rdzv-id 1 {here}/pytorch/ddp.py",
            "h200:2x2"),
    # Without that variable torchrun keeps its store over restarts: a worker that comes before the new
    # rank 0 reads the unique id of the old one there, fails as on a real machine, and is restarted again.
    Program("pytorch/torchrun-restart", "env TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 {bin}/torchrun "
            "--standalone --nproc-per-node 2 --max-restarts 2 {here}/pytorch/elastic.py", step="",
            expect=(r"attempt 0: sum 2", r"attempt 1: sum 2", r"training completed")),
    Program("pytorch/mpirun", "mpirun --allow-run-as-root --oversubscribe -n 2 "
            "{python} {here}/pytorch/mpi.py", needs="mpirun"),
    Program("lightning/ddp", "{python} {here}/lightning/train.py ddp {run}"),
    Program("lightning/fsdp", "{python} {here}/lightning/train.py fsdp {run}"),
]


def vllm(name, command, gpus=1, **settings):
    return Program(f"vllm/{name}", command,
                   **{"cluster": f"h200:1x{gpus}", "options": "--per run", "heavy": True,
                      "environment": "venv-vllm", "seconds": 900,
                      "step": r"step \d+: ([\d.]+) ms per token",
                      "expect": (r"GPU KV cache size: [\d,]+ tokens", r"generation completed")}
                   | settings)


# With FlashInfer's kernels for sampling vLLM compiles for minutes where there is an nvcc.
SAMPLER = "env VLLM_USE_FLASHINFER_SAMPLER=0 "
VLLM = [
    vllm("in-process", SAMPLER + "VLLM_USE_V2_MODEL_RUNNER=0 VLLM_ENABLE_V1_MULTIPROCESSING=0 "
         "{python} {here}/vllm/generate.py"),
    vllm("first-runner", SAMPLER + "VLLM_USE_V2_MODEL_RUNNER=0 {python} {here}/vllm/generate.py"),
    vllm("eager", SAMPLER + "{python} {here}/vllm/generate.py"),
    vllm("graphs", SAMPLER + "{python} {here}/vllm/generate.py --graphs"),
    vllm("requests", SAMPLER + "{python} {here}/vllm/generate.py --graphs --requests 256"),
    vllm("tensor-parallel", SAMPLER + "{python} {here}/vllm/generate.py --tp 2", gpus=2),
    vllm("tensor-parallel-4", SAMPLER + "{python} {here}/vllm/generate.py --tp 4", gpus=4),
    vllm("benchmark", SAMPLER + "HF_HUB_OFFLINE=1 {bin}/vllm bench throughput --model {here}/vllm/model --load-format dummy "
         "--dataset-name random --random-input-len 64 --random-output-len 8 --num-prompts 8",
         step=None, expect=(r"Throughput: [\d.]+ requests/s",)),
]

# Norms are PyTorch's: the launcher of FlashInfer's in CuTe has a CUDA runtime linked into it.
def sglang(name, options="", gpus=1):
    return Program(f"sglang/{name}", "env SGLANG_FORCE_FUSED_OP_BACKEND=torch HF_HUB_OFFLINE=1 "
                   f"{{python}} {{here}}/sglang/generate.py {options}", f"h200:1x{gpus}", "--per run",
                   step=r"gen throughput \(token/s\): ([\d.]+)", tokens=8,
                   expect=(r"KV Cache is allocated", r"generation completed"), seconds=900, heavy=True,
                   environment="venv-sglang")


SGLANG = [sglang("eager"), sglang("graphs", "--graphs"), sglang("tensor-parallel", "--tp 2", gpus=2),
          sglang("tensor-parallel-graphs", "--tp 2 --graphs", gpus=2)]


def jax(name, cluster, options=""):
    return Program(f"jax/{name}", "{python} {here}/jax/train.py", cluster, options, seconds=900, heavy=True,
                   expect=(r"step 7: .*tokens/s on 4 GPUs",), environment="venv-jax")


JAX = [jax("one-host", "h100:1x4", "--per run"), jax("two-hosts", "h100:2x2")]


def tensorflow(name, options="", gpus=1):
    return Program(f"tensorflow/{name}", f"{{python}} {{here}}/tensorflow/train.py {options}", f"h200:1x{gpus}", "--per run",
                   seconds=900, heavy=True, expect=(rf"step 7: .* examples/s on {gpus} GPUs",), environment="venv-tensorflow")


TENSORFLOW = [tensorflow("transformer"), tensorflow("mirrored", gpus=4), tensorflow("xla", "--compile --bf16"),
              tensorflow("resnet50", "--model resnet50 --batch 64 --bf16")]

RAY = [Program("ray/train", "{python} {here}/ray/train.py --workers 2", "h200:1x2", "--per run", seconds=600, heavy=True,
               step=r"step \d+: ([\d.]+) ms", expect=(r"Ray has 2 GPUs", r"trained without an error: True"), environment="venv-ray")]

PROGRAMS = [*PYTORCH, *HUGGINGFACE, *DEEPSPEED, *TORCHTITAN, *MEGATRON, *VLLM, *SGLANG, *JAX, *TENSORFLOW, *RAY]
