"""Every routine of torch.linalg, torch.fft and sparse matrices runs on a simulated GPU, for single matrices and batches,
real and complex, and gives what has the CPU's shapes and types; none is executed, so that values are not compared.

Products of two sparse matrices are refused, since their result decides its size. Prints a summary; the exit status is 1
if anything else fails or has other shapes.
"""
import sys
import warnings

import torch

warnings.simplefilter("ignore")
linalg, fft = torch.linalg, torch.fft
done, wrong = 0, []


def form(result):
    """Shape and type of each tensor of a result."""
    if isinstance(result, torch.Tensor):
        return [(tuple(result.shape), result.dtype)]
    return [one for part in result for one in form(part)]


def check(name, operation, *operands):
    global done
    try:
        got = form(operation(*(x.cuda() for x in operands)))
        torch.cuda.synchronize()
        expected = form(operation(*operands))
        if got != expected:
            wrong.append(f"{name}: {got} for {expected}")
        done += 1
    except Exception as error:
        wrong.append(f"{name}: {str(error).splitlines()[0][:200]}")


def dense(dtype, batch, n):
    x, tall, b = torch.randn(*batch, n, n, dtype=dtype), torch.randn(*batch, 2 * n, n, dtype=dtype), torch.randn(*batch, n, 5, dtype=dtype)
    h = x @ x.mH + n * torch.eye(n, dtype=dtype)
    lower = linalg.cholesky(h)
    one = {
        "cholesky": linalg.cholesky, "cholesky_ex": linalg.cholesky_ex, "eigh": linalg.eigh, "eigvalsh": linalg.eigvalsh, "inv": linalg.inv, "inv_ex": linalg.inv_ex,
        "det": linalg.det, "slogdet": linalg.slogdet, "lu_factor": linalg.lu_factor, "lu": linalg.lu, "eig": linalg.eig, "eigvals": linalg.eigvals,
        "rank": linalg.matrix_rank, "cond": linalg.cond, "pinv of a Hermitian": lambda a: linalg.pinv(a, hermitian=True), "power": lambda a: linalg.matrix_power(a, -2),
        "norm 2": lambda a: linalg.matrix_norm(a, 2), "nuclear": lambda a: linalg.matrix_norm(a, "nuc")}
    for name, operation in one.items():
        check(f"{name} {dtype} {batch} {n}", operation, h)
    for shape, a in (("tall", tall), ("wide", tall.mT.contiguous()), ("square", x)):
        some = {"svd": linalg.svd, "thin svd": lambda a: linalg.svd(a, full_matrices=False), "svdvals": linalg.svdvals, "qr": linalg.qr,
                "complete qr": lambda a: linalg.qr(a, "complete"), "lu": linalg.lu, "pinv": linalg.pinv}
        for name, operation in some.items():
            check(f"{name} {shape} {dtype} {batch} {n}", operation, a)
    reflectors, tau = torch.geqrf(tall)
    check(f"householder_product {dtype} {batch} {n}", linalg.householder_product, reflectors, tau)
    check(f"ormqr {dtype} {batch} {n}", torch.ormqr, reflectors, tau, tall)
    factors, pivots = linalg.lu_factor(x)
    two = {"cholesky_solve": (torch.cholesky_solve, b, lower), "solve": (linalg.solve, x, b), "lstsq": (lambda a, c: linalg.lstsq(a, c).solution, tall, torch.randn(*batch, 2 * n, 2, dtype=dtype)),
           "triangular": (lambda a, c: linalg.solve_triangular(a, c, upper=False), lower, b),
           "triangular from the right": (lambda a, c: linalg.solve_triangular(a, c, upper=False, left=False), lower, b.mT.contiguous()),
           "lu_solve": (linalg.lu_solve, factors, pivots, b), "cholesky_inverse": (torch.cholesky_inverse, lower), "lu_unpack": (torch.lu_unpack, factors, pivots)}
    for name, (operation, *operands) in two.items():
        check(f"{name} {dtype} {batch} {n}", operation, *operands)
    if not dtype.is_complex:
        check(f"ldl {dtype} {batch} {n}", linalg.ldl_factor, h)


def transforms(dtype):
    x = torch.randn(4, 16, 32, dtype=dtype)
    of_any = {"fft": fft.fft, "ifft": fft.ifft, "irfft": fft.irfft, "hfft": fft.hfft, "fft2": fft.fft2, "irfft2": fft.irfft2, "fftn": fft.fftn, "irfftn": fft.irfftn,
              "columns": lambda a: fft.fft(a, dim=0), "apart": lambda a: fft.fftn(a, dim=(0, 2)), "padded": lambda a: fft.fft(a, n=64), "odd": lambda a: fft.fft(a[..., :31]),
              "four": lambda a: fft.fftn(a.view(2, 2, 16, 32))}
    of_real = {"rfft": fft.rfft, "ihfft": fft.ihfft, "rfft2": fft.rfft2, "rfftn": fft.rfftn,
               "stft": lambda a: torch.stft(a.flatten(1), 64, 16, window=torch.ones(64, device=a.device, dtype=a.dtype), return_complex=True)}
    for name, operation in (of_any | ({} if dtype.is_complex else of_real)).items():
        check(f"{name} {dtype}", operation, x)


def sparse(dtype):
    places = torch.randint(0, 48, (2, 200))
    values, b, a = torch.randn(200, dtype=dtype), torch.randn(48, 8, dtype=dtype), torch.randn(64, 8, dtype=dtype)
    listed = lambda places, values: torch.sparse_coo_tensor(places, values, (64, 48)).coalesce()
    rows = lambda places, values: listed(places, values).to_sparse_csr()
    for name, operation in {
            "list by matrix": lambda p, v, b, a: torch.sparse.mm(listed(p, v), b), "rows by matrix": lambda p, v, b, a: rows(p, v) @ b,
            "by vector": lambda p, v, b, a: rows(p, v) @ b[:, 0], "addmm": lambda p, v, b, a: torch.addmm(a, rows(p, v), b),
            "sampled": lambda p, v, b, a: torch.sparse.sampled_addmm(rows(p, v), a, b.t()).to_dense(), "dense": lambda p, v, b, a: rows(p, v).to_dense(),
            "sum": lambda p, v, b, a: torch.sparse.sum(listed(p, v), 1).to_dense()}.items():
        check(f"{name} {dtype}", operation, places, values, b, a)


for dtype in (torch.float32, torch.float64, torch.complex64):
    for batch in ((), (3,)):
        for n in (4, 33):
            dense(dtype, batch, n)
    transforms(dtype)
    sparse(dtype)
print(f"{done} routines, {len(wrong)} wrong")
print("\n".join(wrong[:20]), file=sys.stderr)
sys.exit(1 if wrong or done < 500 else 0)
