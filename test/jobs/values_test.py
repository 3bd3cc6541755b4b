"""Small values that a program reads back are the real ones (design section 4, rule 7)."""
import json
import math

from job import PROGRAMS, TESTS, JobTest, main


class SmallValues(JobTest):
    def test_small_data_prints_what_the_gpu_printed(self):
        real = json.loads((TESTS / "data/small_data.json").read_text())
        job = self.run_job([PROGRAMS / "small_data.py"], torch=True, cluster="h200:1x1")
        ours = json.loads(job.out.splitlines()[0])
        self.assertEqual(sorted(ours), sorted(real))
        for name, value in real.items():
            if name.startswith("mem_"):
                self.assertAlmostEqual(ours[name], value, delta=0.01 * value, msg=name)
            else:
                self.assertEqual(ours[name], value, name)

    def test_lengths_are_added_up(self):
        # As TorchRec checks its first batch: 26 features of 8192 bags are 852 KB, and 1.7 MB in the 64 bits of their sum.
        job = self.run_python("""
            import torch
            lengths = torch.arange(26 * 8192, dtype=torch.int32) % 37
            here = lengths.to("cuda")
            print(here.sum().item() == lengths.sum().item(), here.view(26, -1).sum(1).tolist() == lengths.view(26, -1).sum(1).tolist(),
                  here.max().item(), (here > 30).sum().item() == (lengths > 30).sum().item())
            """, torch=True, cluster="h200:1x1")
        self.assertIn("True True 36 True", job.out)

    def test_copies_of_fsdp2(self):
        job = self.run_job([PROGRAMS / "packed_copies.py"], torch=True, cluster="h200:1x1")
        self.assertIn("all as on the CPU", job.out)
        self.assertNotIn("unread kernels", job.out)


class UnknownValues(JobTest):
    """Large tensors are not computed: control flow ends as on a GPU, and the user is told."""

    GENERATE = """
        import torch
        torch.manual_seed(0)
        vocabulary, width, new, end = 32000, 64, 6, 2
        model = torch.nn.Sequential(torch.nn.Embedding(vocabulary, width),
                                    torch.nn.Linear(width, vocabulary)).cuda()
        def generate(sample, with_end):
            tokens = torch.randint(3, vocabulary, (2, 4), device="cuda")
            prompt = tokens.tolist()
            unfinished = torch.ones(2, dtype=torch.long, device="cuda")
            steps = 0
            with torch.no_grad():
                while not unfinished.max() == 0:  # as transformers asks
                    logits = model(tokens)[:, -1]
                    token = (torch.multinomial(logits.softmax(-1), 1).squeeze(1) if sample
                             else logits.argmax(-1))
                    tokens = torch.cat([tokens, token[:, None]], 1)
                    steps += 1
                    done = torch.full((2,), tokens.shape[1] >= 4 + new, device="cuda")
                    if with_end:
                        done = done | torch.isin(token, torch.tensor([end], device="cuda"))
                    unfinished = unfinished & ~done
            print("steps", steps, tokens[:, :4].tolist() == prompt, flush=True)
        for sample in (False, True):
            for with_end in (False, True):
                generate(sample, with_end)
        """

    def test_generation_ends_at_its_length(self):
        job = self.run_python(self.GENERATE, torch=True, cluster="h200:1x1")
        steps = [line for line in job.out.splitlines() if line.startswith("steps")]
        self.assertEqual(steps, ["steps 6 True"] * 4, job.text())
        # With an end token each step asks, and nobody knows; multinomial() checks what it is given. Told once, with
        # the line.
        told = [line for line in job.err.splitlines() if "not computed" in line]
        self.assertEqual(len(told), 2, job.text())
        source = (self.directory / "program.py").read_text().splitlines()
        for text, what in zip(told, ("torch.isin(token", "token = (torch.multinomial")):
            self.assertRegex(text, r"^phantora: program\.py:\d+ tests values that are not computed; the outcome is "
                                   r"assumed$")
            self.assertIn(what, source[int(text.split(":")[2].split()[0]) - 1])

    def test_checks_hold_and_nothing_is_found(self):
        job = self.run_python("""
            import torch
            torch.manual_seed(0)
            # Of 16 MB and of a vector: neither is computed.
            large = torch.randn(2000, 2000, device="cuda") @ torch.randn(2000, 2000, device="cuda")
            small = torch.randn(2000, 2000, device="cuda") @ torch.randn(2000, 8, device="cuda")
            for x in (large, small[0]):
                print("checks", bool((x == x).all()), bool(x.isfinite().all()), bool((x > 0).all()))
                print("found", bool(x.isnan().any()), bool((x > 0).any()))
            token = small.argmax(0)
            ends = token == 7
            print("tokens", bool(ends.any()), bool(ends.all()), bool((token != 7).all()), ends.tolist())
            print("itself", bool((token == token).all()))
            ended = torch.zeros(8, dtype=torch.bool, device="cuda") | (token == 7)
            print("ended", bool(ended.all()))
            # What is known is computed.
            known = torch.tensor([1, 2, 3], device="cuda")
            print("known", bool((known == 2).any()), bool((known == 2).all()), bool((known > 1).all()))
            print(torch.distributions.Normal(small, 1.0).sample().shape)
            """, torch=True, cluster="h200:1x1", options=["--report", "report.json"])
        self.assertEqual([line for line in job.out.splitlines() if line][:9], [
            "checks True True True", "found False False", "checks True True True", "found False False",
            f"tokens False False True {[False] * 8}", "itself True", "ended False", "known True False False",
            "torch.Size([2000, 8])"], job.text())
        self.assertRegex(job.out, r"(?m)^  assumed tests +\d+ of values that are not computed: all\(\) holds")
        self.assertGreater(self.report()["counters"]["assumed_tests"], 10)

    def test_what_a_program_checks_of_a_number_of_its_own(self):
        job = self.run_python("""
            import torch
            torch.manual_seed(0)
            scores = torch.randn(2000, 2000, device="cuda") @ torch.randn(2000, 8, device="cuda")
            loss = scores.mean()
            # A loss is a number, a token is in the vocabulary and not an end, beside a prompt that is known.
            print("loss", bool(loss.isfinite()), bool(loss.isnan()), bool(loss.isinf()), bool(loss != loss))
            token = scores.argmax(0)
            print("token", bool((token[0] >= 0) & (token[0] < 2000)), bool((token < 0).any()), (token % 1).tolist())
            text = torch.cat([torch.arange(8, device="cuda").view(8, 1), token.view(8, 1)], 1)
            written = text[:, 1:]
            ended = torch.isin(written, torch.tensor([7], device="cuda"))
            print("ended", ended.any(dim=1).nonzero().shape[0], (~ended).nonzero().shape[0], (text[:, :1] == 7).sum().item())
            # How many there are of something, nobody knows.
            print("some", (torch.bincount(token, minlength=4)[:4] > 0).nonzero().shape[0])
            policy = torch.distributions.Categorical(logits=scores[:1])
            print("policy", policy.log_prob(policy.sample()).shape)
            """, torch=True, cluster="h200:1x1")
        self.assertEqual([line for line in job.out.splitlines() if line][:5], [
            "loss True False False False", f"token True False {[0] * 8}", "ended 0 8 1", "some 4", "policy torch.Size([1])"], job.text())

    def test_scattered_flags_leave_their_mask(self):
        job = self.run_python("""
            import torch
            # The mask lies behind what is written: flags, with a place of 64 bits beside each.
            memory = torch.zeros(8192, dtype=torch.bool, device="cuda")
            flags, mask = memory[:4096].view(64, 64), memory[4096:].view(64, 64)
            mask[:, ::2] = True
            flags.masked_scatter_(mask, torch.ones(2048, dtype=torch.bool, device="cuda"))
            print(mask.nonzero().shape)
            """, torch=True, cluster="h200:1x1")
        self.assertIn("torch.Size([2048, 2])", job.out, job.text())

    def test_places_are_told_once_and_only_a_few(self):
        job = self.run_python(
            """
            import torch
            loss = torch.randn(1 << 20, device="cuda").mean()
            def read(x):
                return x.item()
            for i in range(30):
                read(loss)
            a = loss.item()
            b = loss.item()
            c = loss.item()
            d = loss.item()
            e = loss.item()
            f = float(torch.zeros(3, device="cuda").sum())  # known
            print(a, f)
            """, torch=True, cluster="h200:1x2")
        told = [line for line in job.err.splitlines() if "not computed" in line]
        places = [int(line.split(":")[2].split()[0]) for line in told]
        source = (self.directory / "program.py").read_text().splitlines()
        first = source.index("    return x.item()") + 1
        self.assertEqual(places[0], first, job.text())
        # By one of two ranks, five in all; the last says that there may be more.
        self.assertEqual(places[1:], [first + 3 + i for i in range(4)], job.text())
        self.assertIn("only counted (unknown_reads)", told[-1])

    def test_a_sum_with_an_unknown_operand_is_unknown(self):
        job = self.run_python(
            """
            import os, torch, torch.distributed as dist
            device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
            torch.cuda.set_device(device)
            dist.init_process_group("nccl", device_id=device)
            total = torch.randn(4, 1 << 18, device="cuda").exp().sum(1)
            dist.all_reduce(total)
            flags = torch.tensor([1.0, 2.0], device="cuda")
            dist.all_reduce(flags)
            print("log", torch.log(total).tolist(), flags.tolist(), flush=True)
            dist.destroy_process_group()
            """, torch=True)
        lines = [line for line in job.out.splitlines() if line.startswith("log")]
        self.assertEqual(lines, ["log [0.0, 0.0, 0.0, 0.0] [2.0, 4.0]"] * 2, job.text())

    def test_what_the_host_reads_instead_can_be_chosen(self):
        program = """
            import torch
            loss = torch.randn(1 << 20, device="cuda")
            count = (loss > 0).sum()
            half = loss.bfloat16().mean()
            mean = loss.mean()
            # Read before Python frees and reuses anything.
            print("values", mean.item(), half.item(), count.item(), mean.item(), flush=True)
            """
        def values(option):
            job = self.run_python(program, torch=True, cluster="h200:1x1",
                                  options=["--unknown", option])
            line = next(line for line in job.out.splitlines() if line.startswith("values"))
            return [float(word) for word in line.split()[1:]]
        self.assertEqual(values("0"), [0, 0, 0, 0])
        self.assertEqual(values("1"), [1, 1, 1, 1])
        first, again = values("normal"), values("normal")
        self.assertEqual(first, again)
        self.assertEqual(first[0], first[3])
        self.assertNotEqual(first[0], 0)
        self.assertNotEqual(first[0], first[1])
        self.assertTrue(all(abs(x) < 6 for x in first), first)
        self.assertEqual(first[2], 0)  # an integer


class Routing(JobTest):
    """Routers choose by scores that are not computed: what they choose is assumed, and known from then on."""

    EXPERTS = """
        import torch, torch.nn.functional as F
        tokens, width, experts, best = 1536, 768, 8, 2
        x = torch.randn(tokens, width, device="cuda")
        router = torch.nn.Linear(width, experts, bias=False).cuda()
        scores = router(x).softmax(-1, dtype=torch.float32)
        weights, chosen = scores.topk(best)

        # By loops, as Mixtral in Transformers.
        mask = F.one_hot(chosen, experts).permute(2, 1, 0)
        hit = (mask.sum(dim=(-1, -2)) > 0).nonzero().flatten().tolist()
        out = torch.zeros_like(x)
        loops = [0] * experts
        for expert in hit:
            place, token = torch.where(mask[expert])
            loops[expert] = len(token)
            out.index_add_(0, token, x[token] * weights[token, place, None])
        print("loops", loops, torch.where(chosen == 0)[0].shape[0], flush=True)

        # By sorting, with the counts of each expert.
        order = chosen.flatten().argsort(stable=True)
        rows = x[order // best]
        counts = torch.bincount(chosen.flatten(), minlength=experts).tolist()
        print("sorting", counts, [len(part) for part in rows.split(counts)], order[:3].tolist(), flush=True)

        # By the ends of groups, which a grouped product takes.
        ends = torch.histc(chosen.float(), bins=experts, min=0, max=experts - 1).int().cumsum(0)
        print("groups", ends.tolist(), flush=True)

        # Only the best, and more tokens than fit 256 KiB of masks.
        many = router(torch.randn(16384, width, device="cuda")).topk(1).indices
        print("many", F.one_hot(many, experts).sum(0).tolist(), flush=True)
        # What is known is chosen as ever, and a vocabulary is no set of experts.
        print("known", torch.tensor([[1., 3., 2.]], device="cuda").topk(2).indices.tolist(), flush=True)
        print("words", scores.new_empty(4, 4096).normal_().exp().matmul(
            torch.randn(4096, 1000, device="cuda")).topk(5).indices.sum().item(), flush=True)
        """

    def lines(self, routing):
        job = self.run_python(self.EXPERTS, torch=True, cluster="h200:1x1",
                              options=["--report", "report.json"] +
                              (["--routing", routing] if routing else []))
        said = dict(line.split(" ", 1) for line in job.out.splitlines()
                    if line.split(" ", 1)[0] in ("loops", "sorting", "groups", "many", "known", "words"))
        return said, job

    def test_every_expert_has_as_many_tokens(self):
        said, job = self.lines(None)
        each = 1536 * 2 // 8
        self.assertEqual(said, {
            "loops": f"{[each] * 8} {each}",
            "sorting": f"{[each] * 8} {[each] * 8} [0, 8, 16]",
            "groups": str([each * (i + 1) for i in range(8)]),
            "many": str([[2048] * 8]),
            "known": "[[1, 2]]",
            "words": "0"}, job.text())
        self.assertRegex(job.out, r"(?m)^  assumed routing +2 top-k choices .*, balanced\.")
        self.assertEqual(self.report()["counters"]["assumed_routing"], 2)

    def test_more_tokens_than_fit_small_data(self):
        # The first choice of a program, 768 KiB of places, and 4 MiB.
        job = self.run_python("""
            import torch
            for tokens, best in (16384, 6), (65536, 8):
                scores = torch.randn(tokens, 64, device="cuda").mm(torch.randn(64, 64, device="cuda"))
                chosen = scores.topk(best, sorted=False).indices
                counts = torch.histc(chosen.view(-1), bins=64, min=0, max=64)
                print(set(counts.tolist()), chosen.view(-1).argsort(stable=True)[:3].tolist(), flush=True)
            """, torch=True, cluster="h200:1x1")
        self.assertIn("{1536} [0, 64, 128]\n{8192} [0, 64, 128]\n", job.out, job.text())

    def test_groups_of_experts(self):
        # DeepSeek's: the best 4 of 8 groups route, and the others' scores are masked.
        job = self.run_python("""
            import torch
            scores = torch.randn(2048, 7168, device="cuda").mm(torch.randn(7168, 64, device="cuda")).sigmoid()
            groups = scores.view(-1, 8, 8).topk(2, dim=-1).values.sum(-1).topk(4, dim=-1, sorted=False).indices
            mask = torch.zeros(2048, 8, device="cuda").scatter_(1, groups, 1)
            mask = mask.unsqueeze(-1).expand(-1, 8, 8).reshape(-1, 64).bool()
            for masked in 0.0, float("-inf"):
                chosen = scores.masked_fill(~mask, masked).topk(6, sorted=False).indices
                print(chosen[0].tolist(), chosen[1].tolist(), set(torch.bincount(chosen.view(-1), minlength=64).tolist()), flush=True)
            """, torch=True, cluster="h200:1x1")
        # Even rows choose among the first 32 experts, odd ones among the others: 1024 x 6 over 32 are 192 each.
        lines = job.out.splitlines()[:2]
        self.assertEqual(lines[0], lines[1], job.text())
        self.assertEqual(lines[0], "[0, 1, 2, 3, 4, 5] [32, 33, 34, 35, 36, 37] {192}")

    def test_counts_of_what_no_router_is_seen_to_choose(self):
        # By an argmax or a table of hashes.
        job = self.run_python("""
            import torch
            scores = torch.randn(3000, 4096, device="cuda").mm(torch.randn(4096, 16, device="cuda"))
            chosen = scores.argmax(-1)
            print(torch.histc(chosen.int(), bins=16, min=0, max=15).cumsum(0).tolist(), flush=True)
            print(torch.bincount(chosen, minlength=16).sum().item(), torch.bincount(torch.tensor([1, 1, 3]).cuda()).tolist(), flush=True)
            """, torch=True, cluster="h200:1x1", options=["--report", "report.json"])
        # 3000 over 16 are 187 each, and one more for the first 8.
        ends = [188 * min(i, 8) + 187 * max(0, i - 8) for i in range(1, 17)]
        self.assertIn(f"{ends}\n3000 [0, 2, 0, 1]\n", job.out, job.text())
        self.assertEqual(self.report()["counters"]["assumed_routing"], 2)

    def test_what_is_known_of_a_choice_outlasts_a_backward_pass(self):
        # Gradients are added up where an index says, in blocks of one allocation with the offsets.
        job = self.run_python("""
            import torch
            x = torch.randn(2048, 64, device="cuda", requires_grad=True)
            blocks = [torch.zeros(64, device="cuda", dtype=torch.int32) for _ in range(8)]
            scores = torch.randn(2048, 4096, device="cuda").mm(torch.randn(4096, 8, device="cuda"))
            weights, chosen = scores.topk(2)
            del blocks[::2]
            ends = torch.histc(chosen.int(), bins=8, min=0, max=7).cumsum(0)
            table = torch.zeros(40, 4, device="cuda", requires_grad=True)
            order = chosen.view(-1).argsort() // 2
            later = torch.zeros(8, device="cuda", dtype=torch.int64) + 7
            (x[order].sum() + table[(x[:, 0] * 3).long() % 40].sum()).backward()
            print(ends.tolist(), later.tolist(), flush=True)
            """, torch=True, cluster="h200:1x1")
        self.assertIn(f"{[512 * (i + 1) for i in range(8)]} {[7] * 8}\n", job.out, job.text())

    def test_the_first_experts_have_all(self):
        said, job = self.lines("first")
        self.assertEqual(said["loops"], f"{[1536, 1536] + [0] * 6} 1536", job.text())
        self.assertEqual(said["groups"], str([1536] + [3072] * 7))

    def test_random_draws_are_the_same_in_every_run(self):
        said, job = self.lines("random")
        counts = [int(n) for n in said["loops"].split("]")[0][1:].split(",")]
        self.assertEqual(sum(counts), 1536 * 2, job.text())
        self.assertTrue(all(300 < n < 470 and n != 384 for n in counts), counts)
        self.assertEqual(self.lines("random")[0], said)

    def test_nothing_is_assumed_if_nobody_wants_it(self):
        # Sorted, the counts of nothing would not add up.
        loops = self.EXPERTS[:self.EXPERTS.index("# By sorting")]
        job = self.run_python(loops, torch=True, cluster="h200:1x1", options=["--routing", "none"])
        self.assertIn(f"loops {[0] * 8} 0\n", job.out)
        self.assertNotIn("assumed routing", job.out)


class Selections(JobTest):
    """How many elements pass a mask that is not computed is assumed."""

    MASKS = """
        import torch
        torch.manual_seed(0)
        x = torch.randn(2000, 2000, device="cuda") @ torch.randn(2000, 2000, device="cuda")  # 16 MB: not computed
        for rows in (x, x[:100, :20]):
            positive = rows > 0
            print("passed", rows[positive].numel(), tuple(positive.nonzero().shape), rows.masked_select(rows < 1).numel())
        few = (x[0, :10] > 0).nonzero().flatten()
        print("places", few.tolist())
        # What is known is computed, and a mask of what was chosen keeps nothing: it is one of many.
        print("known", torch.tensor([1, 0, 3, 0], device="cuda").nonzero().flatten().tolist())
        chosen = torch.zeros(100, 8, device="cuda").scatter(1, x[:100, :8].argmax(1, keepdim=True), 1)
        print("chosen", len(torch.where(chosen[:, 3].bool())[0]))
        many = torch.zeros(10**6, device="cuda")
        print("filled", len(many.nonzero()), len((many + 1).nonzero()), len(torch.ones(10**6, device="cuda").nonzero()))
        halves = torch.arange(9, device="cuda").div(2, rounding_mode="floor")
        print("different", x[:5, :10].long().unique().numel(), x.long().unique().numel(), halves.unique().tolist())
        for numbers in (x[:5, :10].long(), x.long(), torch.arange(9, device="cuda").clamp(max=6)):
            unique, counts = numbers.unique(return_counts=True)
            print("runs", unique.numel(), counts.numel(), counts[-7:].tolist())
        print("exponentials", tuple(torch.linalg.matrix_exp(x[:50, :50].reshape(4, 25, 25)).shape))
        gradient = torch.sparse_coo_tensor(x[:1, :500].long(), x[0, :500], (10**6,)).coalesce()
        print("sparse", gradient.indices().numel())
        """

    def lines(self, *options):
        job = self.run_python(self.MASKS, torch=True, cluster="h200:1x1", options=["--report", "report.json", *options])
        return [line for line in job.out.splitlines() if line.split(" ", 1)[0] in
                ("passed", "places", "known", "chosen", "filled", "different", "runs", "exponentials", "sparse")], job

    def test_all_pass(self):
        said, job = self.lines()
        self.assertEqual(said, ["passed 4000000 (4000000, 2) 4000000", "passed 2000 (2000, 2) 2000",
                                f"places {list(range(10))}", "known [0, 2]", "chosen 0", "filled 0 1000000 1000000",
                                "different 50 4000000 [0, 1, 2, 3, 4]", f"runs 50 50 {[1] * 7}", f"runs 4000000 4000000 {[1] * 7}",
                                "runs 7 7 [1, 1, 1, 1, 1, 1, 3]", "exponentials (4, 25, 25)",
                                "sparse 500"], job.text())
        self.assertRegex(job.out, r"(?m)^  assumed selections +\d+ by values that are not computed\.")
        self.assertGreater(self.report()["counters"]["assumed_selections"], 6)

    def test_a_share_passes_spread_evenly(self):
        said, job = self.lines("--selected", "0.2")
        self.assertEqual(said, ["passed 800000 (800000, 2) 800000", "passed 400 (400, 2) 400", "places [4, 9]",
                                "known [0, 2]", "chosen 0", "filled 0 200000 1000000",
                                "different 50 4000000 [0, 1, 2, 3, 4]", f"runs 50 50 {[1] * 7}", f"runs 4000000 4000000 {[1] * 7}",
                                "runs 7 7 [1, 1, 1, 1, 1, 1, 3]", "exponentials (4, 25, 25)",
                                "sparse 500"], job.text())


class DistributedValues(JobTest):
    """Two ranks: object collectives, reductions, GradScaler with an infinite gradient, clipping."""

    def test_two_ranks(self):
        job = self.run_python(
            """
            import json, os, torch, torch.distributed as dist
            rank, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
            torch.cuda.set_device(local)
            device = torch.device("cuda", local)
            dist.init_process_group("nccl", device_id=device)
            r = {}
            gathered = [None, None]
            dist.all_gather_object(gathered, {"rank": rank, "text": "x" * (rank + 1)})
            r["all_gather_object"] = gathered
            thing = [("from", 0), 3.5] if rank == 0 else [None, None]
            dist.broadcast_object_list(thing, src=0)
            r["broadcast_object_list"] = thing
            out = [None, None] if rank == 0 else None
            dist.gather_object([rank] * 3, out, dst=0)
            r["gather_object"] = out
            mine = [None]
            dist.scatter_object_list(mine, ["a", "b"] if rank == 0 else None, src=0)
            r["scatter_object_list"] = mine
            x = torch.tensor([1.5, -2.0], device=device) * (rank + 1)
            dist.all_reduce(x)
            r["all_reduce"] = x.tolist()
            y = torch.tensor([rank], dtype=torch.int64, device=device)
            dist.all_reduce(y, op=dist.ReduceOp.MAX)
            r["max"] = y.item()
            z = torch.zeros(4, dtype=torch.int32, device=device)
            dist.all_gather_into_tensor(z, torch.tensor([rank, rank + 10], dtype=torch.int32, device=device))
            r["all_gather"] = z.tolist()
            parts = torch.tensor([rank, rank + 2], device=device)
            taken = torch.zeros(2, dtype=torch.int64, device=device)
            dist.all_to_all_single(taken, parts)
            r["all_to_all"] = taken.tolist()
            m = torch.full((3,), float(rank), device=device)
            if rank == 0:
                dist.send(torch.tensor([7., 8., 9.], device=device), 1)
            else:
                dist.recv(m, 0)
            r["recv"] = m.tolist()

            model = torch.nn.Linear(4, 4, bias=False).to(device)
            with torch.no_grad():
                model.weight.fill_(0.5)
            optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
            scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
            scales = [scaler.get_scale()]
            for bad in (False, True, False):
                model.weight.grad = torch.full_like(model.weight, float("inf") if bad else 1.0)
                scaler.scale(torch.zeros((), device=device))
                scaler.step(optimizer)
                scaler.update()
                scales.append(scaler.get_scale())
            r["scales"] = scales
            # Two good steps of gradient 1 / scale each; the infinite one is left out.
            r["weight"] = model.weight[0, 0].item()
            model.weight.grad = torch.full_like(model.weight, 3.0)
            r["norm"] = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()
            r["clipped"] = model.weight.grad[0, 0].item()
            print(json.dumps({"rank": rank, **r}), flush=True)
            dist.destroy_process_group()
            """, torch=True)
        ranks = {}
        for line in job.out.splitlines():
            if line.startswith("{"):
                values = json.loads(line)
                ranks[values["rank"]] = values
        self.assertEqual(sorted(ranks), [0, 1])
        for rank, r in ranks.items():
            self.assertEqual(r["all_gather_object"],
                             [{"rank": 0, "text": "x"}, {"rank": 1, "text": "xx"}])
            self.assertEqual(r["broadcast_object_list"], [["from", 0], 3.5])
            self.assertEqual(r["gather_object"], [[0, 0, 0], [1, 1, 1]] if rank == 0 else None)
            self.assertEqual(r["scatter_object_list"], ["ab"[rank]])
            self.assertEqual(r["all_reduce"], [4.5, -6.0])
            self.assertEqual(r["max"], 1)
            self.assertEqual(r["all_gather"], [0, 10, 1, 11])
            self.assertEqual(r["all_to_all"], [[0, 1], [2, 3]][rank])
            self.assertEqual(r["recv"], [[0.0] * 3, [7.0, 8.0, 9.0]][rank])
            # The infinite gradient halves the scale (backoff_factor 0.5) and skips the step.
            self.assertEqual(r["scales"], [1024.0, 1024.0, 512.0, 512.0])
            self.assertAlmostEqual(r["weight"], 0.5 - 1 / 1024 - 1 / 512, places=6)
            # 16 gradients of 3: norm 12; clipping scales by 1 / (12 + 1e-6).
            self.assertAlmostEqual(r["norm"], 12.0, places=5)
            self.assertTrue(math.isclose(r["clipped"], 3 / 12, rel_tol=1e-5), r["clipped"])


if __name__ == "__main__":
    main()
