"""What a profiler sees the GPU do, the same on a GPU and in a simulation."""
import torch


def times_by_kernel(step, turns):
    """Microseconds of each kernel, copy and fill in `turns` calls of `step`, by name."""
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(turns):
            step()
        torch.cuda.synchronize()
    times = {}
    for event in profile.profiler.kineto_results.events():
        if event.device_type().name == "CUDA":
            times.setdefault(event.name(), []).append(event.duration_ns() / 1000)
    return times
