"""How fast would this job run on a GPU cluster that I do not have, and would it fit?

Tell a Workload (or take training_steps() of a transformer, or read_kineto() a profile), run it on a
Simulation of a cluster, read the Report; or run() a real program of PyTorch on simulated GPUs, whose
record Workload.load() reads. Times are seconds, sizes bytes, rates
bytes per second."""

from phantora import kernels
from phantora._core import VERSION as __version__
from phantora._core import (
    ArgumentError,
    Block,
    Cluster,
    ConfigError,
    Cost,
    CostError,
    Error,
    Event,
    FlowNetwork,
    GpuModel,
    Jobs,
    Kernel,
    Parallelism,
    PathPart,
    Report,
    RouteError,
    Simulation,
    TopologyError,
    TraceWorkload,
    TrainingRecipe,
    TransformerShape,
    Workload,
    gpu_model,
    gpu_model_keys,
    read_chakra,
    read_kineto,
    simulate_json,
    training_steps,
    widen,
    write_chakra,
)
from phantora.launcher import RunError, run

__all__ = [
    "ArgumentError",
    "Block",
    "Cluster",
    "ConfigError",
    "Cost",
    "CostError",
    "Error",
    "Event",
    "FlowNetwork",
    "GpuModel",
    "Jobs",
    "Kernel",
    "Parallelism",
    "PathPart",
    "Report",
    "RouteError",
    "RunError",
    "Simulation",
    "TopologyError",
    "TraceWorkload",
    "TrainingRecipe",
    "TransformerShape",
    "Workload",
    "__version__",
    "gpu_model",
    "gpu_model_keys",
    "kernels",
    "read_chakra",
    "read_kineto",
    "run",
    "simulate_json",
    "training_steps",
    "widen",
    "write_chakra",
]
