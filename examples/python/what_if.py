"""What would a training step gain from other hardware, and what does it lose if a link fails?"""

import phantora

STEP = phantora.training_steps(
    phantora.TransformerShape(layers=32), phantora.Parallelism(tensor=4, data=8, batch=32))

FABRIC = """
[[hosts]]
gpu = "{gpu}"
count = 4
{hosts}
[fabric]
kind = "leaf_spine"
hosts_per_leaf = 1
{fabric}
"""
FAILED = '[[failures]]\nat = "0s"\nbetween = ["leaf0", "spine0"]'


def cluster(
    gpu: str = "h100", hosts: str = "", fabric: str = "oversubscription = 4"
) -> phantora.Cluster:
    return phantora.Cluster.from_toml(FABRIC.format(gpu=gpu, hosts=hosts, fabric=fabric))


CASES = {
    "as it is": cluster(),
    "2x NICs": cluster(hosts='nic = "800Gbps"', fabric='oversubscription = 4\nlink = "800Gbps"'),
    "half the oversubscription": cluster(fabric="oversubscription = 2"),
    "H200": cluster(gpu="h200"),
    "A100": cluster(gpu="a100"),
    "a link fails": cluster(fabric="oversubscription = 4\n" + FAILED),
}

if __name__ == "__main__":
    base = phantora.Simulation(CASES["as it is"]).run(STEP)
    for name, hardware in CASES.items():
        simulation = phantora.Simulation(hardware)
        report = simulation.run(STEP)
        first = report.critical_path[0]
        link = simulation.link_loads(STEP)["link"][0]
        print(f"{name:26} {1e3 * report.step:8.2f} ms ({report.step / base.step - 1:+7.1%}), "
              f"exposed {report.exposed / report.makespan:5.1%}, busiest link {link}, "
              f"longest {first.name} ({first.time / report.makespan:.0%})")
