"""How fast would this job run on a GPU cluster that I do not have, and would it fit?

Tell a Workload (or take training_steps() of a transformer), run it on a Simulation of a cluster, read
the Report; or run() a real program of PyTorch on simulated GPUs. Times are seconds, sizes bytes, rates
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
    TrainingRecipe,
    TransformerShape,
    Workload,
    gpu_model,
    gpu_model_keys,
    simulate_json,
    training_steps,
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
    "TrainingRecipe",
    "TransformerShape",
    "Workload",
    "__version__",
    "gpu_model",
    "gpu_model_keys",
    "kernels",
    "run",
    "simulate_json",
    "training_steps",
]
