"""What a reproducer says in PyTorch; repro_mlx.py says the same in MLX, line by line.

Names in <angle brackets> are filled in by report/repro.py. The expressions are those of the driver, so that what is
timed is the same: `cache` is one layer's [K, V], `row` its new [K, V], `n` the KV length, the new token included.
"""

from __future__ import annotations

IMPORTS = {"cpu": "random time", "mps": "random time", "cuda": "random time"}
FRAMEWORK = "import torch"
SETTINGS = {
    "cpu": "torch.inference_mode().__enter__()\ntorch.set_num_threads(<threads>)",
    "mps": "torch.inference_mode().__enter__()",
    "cuda": "torch.inference_mode().__enter__()",
}
DTYPE = "torch.<dtype>"

VALUES = """\
torch.manual_seed(0)
Q = torch.randn(B, H, 1, D, device="<device>").to(DTYPE)
KV = [[torch.randn(B, HKV, ROWS, D, device="<device>").to(DTYPE) for _ in "kv"] for _ in range(LAYERS)]"""
DEVICES = {"cpu": "cpu", "mps": "mps", "cuda": "cuda"}

# What a cache is before the steps, before each step (outside the timed window), and what the step does to it.
KEPT = {
    "prealloc": "CACHES = [[t * 1 for t in kv] for kv in KV]  # fixed buffers; a step attends a slice of each",
    "concat": "",
    "chunked": 'MORE = torch.zeros(B, HKV, 256, D, device="<device>", dtype=DTYPE)  # rows by which a full cache grows',
    "padded": "CACHES = [[t * 1 for t in kv] for kv in KV]  # fixed buffers, attended whole under a mask\n"
    'MASK = torch.zeros(1, 1, 1, ROWS, device="<device>", dtype=DTYPE)',
}
FRESH = {
    "prealloc": "caches = CACHES",
    "concat": "caches = [[t[:, :, : n - 1] * 1 for t in kv] for kv in KV]  # a step concatenates the new token",
    "chunked": "caches = "
    "[[torch.cat((t[:, :, : n - 1], MORE[:, :, : (1 - n) % 256]), dim=2) for t in kv] for kv in KV]",
    "padded": 'caches, MASK[:, :, :, : n - 1], MASK[:, :, :, n - 1 :] = CACHES, 0.0, -float("inf")',
}
BEGIN = {"prealloc": "", "concat": "", "chunked": "", "padded": "MASK[:, :, :, n - 1 : n] = 0.0"}
WRITE = "for t, new in zip(cache, row):\n    t[:, :, n - 1 : n] = new\n"
UPDATE = {
    "prealloc": WRITE + "k, v = (t[:, :, :n] for t in cache)",
    "concat": "for i in (0, 1):\n    cache[i] = torch.cat((cache[i], row[i]), dim=2)\nk, v = cache",
    "chunked": "if cache[0].shape[2] < n:\n"
    "    cache[:] = [torch.cat((t, torch.zeros_like(MORE)), dim=2) for t in cache]\n"
    + WRITE
    + "k, v = (t[:, :, :n] for t in cache)",
    "padded": WRITE + "k, v = cache",
}

ATTEND = {
    "manual": "scores = torch.matmul(x.reshape(B, HKV, H // HKV, D), k.transpose(-2, -1)) * D**-0.5<mask>\n"
    "o = torch.matmul(torch.softmax(scores, dim=-1), v).reshape(B, H, 1, D)",
    "fused": "o = torch.nn.functional.scaled_dot_product_attention(x, k, v<mask>, scale=D**-0.5<grouped>)",
}
MASKS = {"manual": " + MASK", "fused": ", attn_mask=MASK"}
GROUPED = ", enable_gqa=True"

READY = {"cpu": "", "mps": "torch.mps.synchronize()", "cuda": "torch.cuda.synchronize()"}
FINISHED = {"cpu": "", "mps": "torch.mps.synchronize()", "cuda": "torch.cuda.synchronize()"}

EXACT = """\
def error(n, y):  # of step n's output, against float64 on the CPU: the worst element's, over the root mean square
    x = q = Q.double().cpu()
    for kv in KV:
        k, v = (t[:, :, :n].double().cpu().repeat_interleave(H // HKV, dim=1) for t in kv)
        x = q + (o := torch.softmax(x @ k.transpose(-2, -1) * D**-0.5, dim=-1) @ v)
    return ((y.double().cpu() - o).abs().max() / o.square().mean().sqrt()).item()"""
