"""What would a real training job gain from other hardware, and what does it lose if a link fails? The job
runs once, as it is, on simulated GPUs that are recorded:

    phantora run --cluster h200:2x2 --host-time off --record gpt.rec -- python examples/pytorch/train_gpt.py --steps 4
    python examples/python/what_if_recorded.py gpt.rec

Host time that was measured would be replayed too; Workload.scale_host_time() makes it that of another host."""

import sys

import phantora

GPUS = 2  # of a host


def cluster(hosts: int, gpu: str = "h200", nic: int = 200, more: str = "") -> phantora.Cluster:
    return phantora.Cluster.from_toml(f"""
[[hosts]]
gpu = "{gpu}"
gpus = {GPUS}
count = {hosts}
nic = "{nic}Gbps"
[fabric]
kind = "leaf_spine"
hosts_per_leaf = 1
link = "{nic}Gbps"
[routing]
mode = "spray"
{more}""")


def main(record: str) -> None:
    job = phantora.Workload.load(record)
    hosts = job.rank_count // GPUS
    failed = '[[failures]]\nat = "0s"\nbetween = ["leaf0", "spine0"]'
    cases = {
        "as it is": (job, cluster(hosts)),
        "2x NICs": (job, cluster(hosts, nic=400)),
        "H100": (job, cluster(hosts, gpu="h100")),
        "A100": (job, cluster(hosts, gpu="a100")),
        "a link fails": (job, cluster(hosts, more=failed)),
        "4x the replicas": (phantora.widen(job, 4), cluster(4 * hosts)),
    }
    base = None
    for name, (work, hardware) in cases.items():
        simulation = phantora.Simulation(hardware)
        report, step = simulation.run(work), simulation.step_time(work)
        assert step is not None, "a job whose work repeats"
        base = base or step
        print(f"{name:16} step {1e3 * step:7.2f} ms ({step / base - 1:+6.1%}), "
              f"exposed {report.exposed / report.makespan:5.1%}, "
              f"memory {report.peak_memory / 2**30:.1f} GiB, "
              f"busiest link {simulation.link_loads(work)['link'][0]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
