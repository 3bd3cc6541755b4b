"""What `phantora topology` says of a cluster."""
import json
import subprocess

from job import PHANTORA, JobTest, main


class Topologies(JobTest):
    RING = """
        [[hosts]]
        count = 4
        gpus = 1
        [fabric]
        kind = "torus"
        dimensions = [4]
        link = "100Gbps"
        [[failures]]
        at = "1ms"
        between = ["switch3", "switch0"]
        """

    def topology(self, *arguments, status=0):
        run = subprocess.run([PHANTORA, "topology", *map(str, arguments)], capture_output=True,
                             text=True, timeout=60)
        self.assertEqual(run.returncode, status, run.stderr)
        return run.stdout if status == 0 else run.stderr

    def analysis(self, *arguments):
        return self.topology(*arguments).rpartition("\n\n")[2].splitlines()

    def ring(self):
        path = self.directory / "ring.toml"
        path.write_text(self.RING)
        return path

    def test_the_table_ends_with_what_the_network_bears(self):
        self.assertEqual(
            self.analysis("h200:8x8/leaf_spine,hosts_per_leaf=4,oversubscription=2"),
            ["bisection             800 GB/s over 16 links, 4 hosts to the other 4",
             "narrowest cut         400 GB/s over 8 links, host0 to host7",
             "longest path          8 links, 1180 ns, host0/gpu0 to host4/gpu0",
             "single points         64 x gpu - pcie_switch: each cuts off 1 GPU",
             "                      64 x pcie_switch: each cuts off 1 GPU",
             "                      2 x switch: each cuts off 32 GPUs"])

    def test_failures_count_from_when_they_happen(self):
        before, after = self.analysis(self.ring()), self.analysis(self.ring(), "--at", "1ms")
        self.assertEqual(before[0], "bisection             25 GB/s over 2 links, 2 hosts to the other 2")
        self.assertEqual(after[0], "bisection             12.5 GB/s over 1 link, 2 hosts to the other 2")
        self.assertFalse([line for line in before if "switch - switch" in line])
        self.assertEqual(
            [line.strip() for line in after if "switch - switch" in line],
            ["2 x switch - switch: each cuts off 1 GPU",
             "1 x switch - switch: each cuts off 2 GPUs"])

    def test_a_cut_is_told_link_by_link(self):
        self.assertEqual(self.topology(self.ring(), "--cut", "host0", "host2").splitlines(),
                         ["12.5 GB/s             switch0->switch1",
                          "12.5 GB/s             switch0->switch3",
                          "host0 to host2: 25 GB/s over 2 links"])
        self.assertIn("expected the name of a host",
                      self.topology(self.ring(), "--cut", "host0", "host9", status=2))
        self.assertIn("--at soon: expected a time",
                      self.topology(self.ring(), "--at", "soon", status=2))

    def test_programs_are_told_the_same(self):
        told = json.loads(self.topology("h200:2x8", "--format", "json"))
        analysis, names = told["analysis"], [node["name"] for node in told["nodes"]]
        self.assertEqual(analysis["bisection"]["bytes_per_second"], 400e9)
        self.assertEqual(len(analysis["bisection"]["links"]), 8)
        self.assertEqual(analysis["longest_path"]["links"], 8)
        self.assertEqual(analysis["longest_path"]["latency_ps"], 1_180_000)
        self.assertEqual({names[point["node"]] for point in analysis["single_points"]
                          if "other_end" not in point},
                         {f"host{h}/pcie{g}" for h in range(2) for g in range(8)})


if __name__ == "__main__":
    main()
