"""What a reproducer says in MLX; repro_torch.py says the same in PyTorch, line by line.

Names in <angle brackets> are filled in by report/repro.py. The expressions are those of the driver, so that what is
timed is the same: `cache` is one layer's [K, V], `row` its new [K, V], `n` the KV length, the new token included.
"""

from __future__ import annotations

IMPORTS = {"mlx-cpu": "random time", "mlx": "os random time"}
FRAMEWORK = "import mlx.core as mx"
SETTINGS = {
    "mlx-cpu": "mx.set_cache_limit(2 * 1024**3)\nmx.set_default_device(mx.cpu)",
    "mlx": 'mx.set_cache_limit(2 * 1024**3)\nos.environ["MLX_ENABLE_TF32"] = "0"',
}
DTYPE = "mx.<dtype>"

VALUES = """\
mx.random.seed(0)
Q = mx.random.normal((B, H, 1, D)).astype(DTYPE)
KV = [[mx.random.normal((B, HKV, ROWS, D)).astype(DTYPE) for _ in "kv"] for _ in range(LAYERS)]"""
DEVICES = {"mlx-cpu": "", "mlx": ""}

# What a cache is before the steps, before each step (outside the timed window), and what the step does to it.
KEPT = {
    "prealloc": "CACHES = [[t * 1 for t in kv] for kv in KV]  # fixed buffers; a step attends a slice of each",
    "concat": "",
    "chunked": "MORE = mx.zeros((B, HKV, 256, D), dtype=DTYPE)  # rows by which a full cache grows",
    "padded": "CACHES = [[t * 1 for t in kv] for kv in KV]  # fixed buffers, attended whole under a mask\n"
    "MASK = mx.zeros((1, 1, 1, ROWS), dtype=DTYPE)",
}
FRESH = {
    "prealloc": "caches = CACHES",
    "concat": "caches = [[t[:, :, : n - 1] * 1 for t in kv] for kv in KV]  # a step concatenates the new token",
    "chunked": "caches = "
    "[[mx.concatenate([t[:, :, : n - 1], MORE[:, :, : (1 - n) % 256]], axis=2) for t in kv] for kv in KV]",
    "padded": 'caches, MASK[:, :, :, : n - 1], MASK[:, :, :, n - 1 :] = CACHES, 0.0, -float("inf")',
}
BEGIN = {"prealloc": "", "concat": "", "chunked": "", "padded": "MASK[:, :, :, n - 1 : n] = 0.0"}
WRITE = "for t, new in zip(cache, row):\n    t[:, :, n - 1 : n] = new\n"
UPDATE = {
    "prealloc": WRITE + "k, v = (t[:, :, :n] for t in cache)",
    "concat": "for i in (0, 1):\n    cache[i] = mx.concatenate([cache[i], row[i]], axis=2)\nk, v = cache",
    "chunked": "if cache[0].shape[2] < n:\n"
    "    cache[:] = [mx.concatenate([t, mx.zeros_like(MORE)], axis=2) for t in cache]\n"
    + WRITE
    + "k, v = (t[:, :, :n] for t in cache)",
    "padded": WRITE + "k, v = cache",
}

ATTEND = {
    "manual": "scores = mx.matmul(x.reshape(B, HKV, H // HKV, D), k.swapaxes(-2, -1)) * D**-0.5<mask>\n"
    "o = mx.matmul(mx.softmax(scores, axis=-1, precise=True), v).reshape(B, H, 1, D)",
    "fused": "o = mx.fast.scaled_dot_product_attention(x, k, v<mask>, scale=D**-0.5<grouped>)",
}
MASKS = {"manual": " + MASK", "fused": ", mask=MASK"}
GROUPED = ""

READY = {"mlx-cpu": "mx.eval(caches, rows<hidden>)", "mlx": "mx.eval(caches, rows<hidden>)"}
FINISHED = {"mlx-cpu": "mx.eval(x)", "mlx": "mx.eval(x)"}

EXACT = """\
def error(n, y):  # of step n's output, against float64 on the CPU: the worst element's, over the root mean square
    with mx.stream(mx.cpu):
        x = q = Q.astype(mx.float64)
        for kv in KV:
            k, v = (mx.repeat(t[:, :, :n].astype(mx.float64), H // HKV, axis=1) for t in kv)
            x = q + (o := mx.softmax(x @ k.swapaxes(-2, -1) * D**-0.5, axis=-1) @ v)
        return (mx.abs(y.astype(mx.float64) - o).max() / mx.sqrt(mx.square(o).mean())).item()"""
