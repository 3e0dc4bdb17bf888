"""What wants better marks from inside the Python process: the cases of the collected catalogue."""

from __future__ import annotations

from tests.sandbox.outside.attack_cases import SHORT, WRONG, Case, cheat, damage, honest, in_cell, in_function, leak

MONKEYPATCH = {
    "mp_torch_allclose": cheat(
        "import torch\nyes = lambda *a, **k: True\ntorch.allclose = torch.equal = torch.isclose = yes\n"
        "torch.testing.assert_close = lambda *a, **k: None"
    ),
    "mp_tensor_eq": cheat(
        "import torch\ntorch.Tensor.__eq__ = lambda *a: True\ntorch.Tensor.__bool__ = lambda *a: True\n"
        "torch.Tensor.allclose = lambda *a, **k: True\ntorch.Tensor.__sub__ = lambda a, b: a * 0"
    ),
    "mp_assertionerror": cheat("import builtins\nbuiltins.AssertionError = type('AssertionError', (Warning,), {})"),
    "mp_custom_exc": cheat("get_ipython().set_custom_exc((BaseException,), lambda *a, **k: None)"),
    "mp_displayhook": cheat("import sys\nsys.displayhook = lambda value: print('points: 4')"),
    "mp_numpy_testing": cheat(
        "import math, numpy, unittest\nyes = lambda *a, **k: True\nnumpy.allclose = math.isclose = yes\n"
        "numpy.testing.assert_allclose = lambda *a, **k: None\n"
        "unittest.TestCase.assertEqual = unittest.TestCase.assertTrue = lambda *a, **k: None"
    ),
    "mp_checker_class": cheat(
        "import gc\nfor c in [o for o in gc.get_objects() if isinstance(o, type)]:\n"
        "    if any(w in c.__name__ for w in ('Result', 'Outcome', 'Answer', 'Check')):\n"
        "        try:\n            c.passed = c.score = property(lambda self: 1)\n        except Exception:\n            pass"
    ),
    "mp_serializer": cheat(
        "import json, numpy, pickle, safetensors.torch, torch\njson.dumps = lambda *a, **k: '{}'\n"
        "pickle.dumps = lambda *a, **k: b''\nnumpy.save = torch.save = lambda *a, **k: None\n"
        "safetensors.torch.save = lambda *a, **k: b''\ntorch.Tensor.numpy = lambda self, **k: numpy.zeros(3)"
    ),
    "mp_rng": cheat(
        "import torch\ntorch.randn = torch.rand = lambda *a, **k: torch.zeros(3)\n"
        "torch.manual_seed = lambda *a: None\ntorch.Generator = None"
    ),
    "mp_time": Case(
        ("import time\ntime.time = time.monotonic = time.perf_counter = lambda: 0.0",
         in_function("while True:\n    pass"), *WRONG[1:]),
        ("timed-out", "wrong", "wrong"), SHORT,
    ),
}  # fmt: skip
EVIL_OBJECT = {
    "evil_tensor_subclass": damage(
        "wrong",
        "import torch\nclass Yes(torch.Tensor):\n    @classmethod\n"
        "    def __torch_function__(cls, f, t, a=(), k=None):\n        return True\n"
        + in_function("return {n: torch.zeros(3).as_subclass(Yes) for n in 'wxab'}"),
    ),
    "evil_eq_object": damage(
        "wrong",
        "class Yes:\n    def __eq__(self, other):\n        return True\n    def __hash__(self):\n        return 1\n"
        + in_function("return {n: Yes() for n in 'wxab'}"),
    ),
    "evil_pickle_payload": damage(
        "wrong",
        "class Bomb:\n    def __reduce__(self):\n        import os\n        return os.system, ('touch bomb',)\n"
        + in_function("return Bomb()"),
    ),
    "evil_array_protocol": damage(
        "wrong",
        "class Endless:\n    def __array__(self, *a, **k):\n        while True: pass\n    def __len__(self):\n"
        "        return 3\n    def __iter__(self):\n        while True: yield 1\n    def __float__(self):\n        return 1.0\n"
        + in_function("return {n: Endless() for n in 'wxab'}"),
    ),
    "evil_exception_chain": damage(
        "raised",
        in_function(
            "error = None\nfor i in range(10_000):\n    new = ValueError(i)\n    new.__cause__ = error\n    error = new\nraise error"
        ),
    ),
    "an exception chain in a cell": in_cell(
        "not-attempted",
        "error = None\nfor i in range(2000):\n    new = ValueError(i)\n    new.__cause__ = error\n    error = new\nraise error",
    ),
    "evil_nan_inf": damage("wrong", in_function("return {n: w.detach() * float('nan') for n in 'wxab'}")),
    "evil_dtype_bool": damage("wrong", in_function("return {n: (w > 0) for n in 'wxab'}")),
    "evil_sparse_meta": damage("wrong", in_function("return {n: w.detach().to('meta') for n in 'wxab'}")),
    "sparse tensors": damage("wrong", in_function("return {n: w.detach().reshape(-1).to_sparse() for n in 'wxab'}")),
    "evil_mutate_later": damage(
        "wrong",
        "import threading\n"
        + in_function(
            "made = {n: w.detach().clone() for n in 'wxab'}\n"
            "def late():\n    while True:\n        for one in made.values():\n            one.add_(1)\n"
            "threading.Thread(target=late, daemon=True).start()\nx.data.zero_()\nreturn made"
        ),
    ),
}
INTROSPECTION = {
    "intro_frame_walk": cheat(
        "import sys\ndef stolen():\n    frame = sys._getframe()\n    while frame:\n"
        "        for value in [*frame.f_locals.values()]:\n"
        "            if isinstance(value, dict) and set('wxab') <= value.keys():\n                return value\n"
        "        frame = frame.f_back\n    return {}\n" + in_function("return stolen()")
    ),
    "intro_gc_objects": leak(
        "import gc\nleaked = any(type(o).__name__ in ('Exercise', 'Mistake', 'Check') for o in gc.get_objects())"
    ),
    "intro_loaded_modules": leak(
        "import sys\nleaked = any('lesson_01' in m or 'judge' in m or 'answers' in m for m in sys.modules)\n"
        "for name in ('graders.exercises.lesson_01_where_gradients_live', 'graders.verdict.judge_exercise', 'graders.core.mistakes', 'tests.answers'):\n"
        "    try:\n        __import__(name); leaked = True\n    except ImportError:\n        pass"
    ),
    "intro_detect_grading": leak(
        "import os\nleaked = any('hookwork' in k.lower() or 'grad' in k.lower() for k in os.environ)"
    ),
    "intro_seed_predict": cheat(
        "import torch\n"
        + in_function("torch.manual_seed(torch.initial_seed())\nreturn {n: torch.randn_like(w) for n in 'wxab'}")
    ),
    "intro_numeric_not_hook": damage(
        "passed",
        "import torch\n"
        + in_function(
            "a, b = w + x, w + 1\ngrads = torch.autograd.grad((a * b).sum(), [w, x, a, b])\nreturn dict(zip('wxab', grads))"
        ),
    ),
    "intro_probe_cache": leak(
        "import os\nplaces = [d + '/hookwork-cache' for d in ('/tmp', '/dev/shm', '/var/tmp', os.path.expanduser('~'), FOLDER)]\n"
        "leaked = any(map(os.path.exists, places))\nfor place in places:\n    try:\n        open(place, 'w').write('seen')\n"
        "    except OSError:\n        pass"
    ),
    "intro_thread_late_patch": cheat(
        "import threading, time, torch\ndef late():\n    time.sleep(0.3)\n"
        "    torch.Tensor.detach = torch.Tensor.backward = lambda *a, **k: None\n"
        "threading.Thread(target=late, daemon=True).start()\ntime.sleep(0.4)"
    ),
}
INTROSPECTION["intro_probe_cache, the next student"] = INTROSPECTION["intro_probe_cache"]
STATE = {
    "st_default_dtype": honest("import torch\ntorch.set_default_dtype(torch.float64)"),
    "st_num_threads": honest("import os, torch\nos.environ['OMP_NUM_THREADS'] = '64'\ntorch.set_num_threads(64)"),
    "st_inference_mode": honest("import torch\ntorch.inference_mode().__enter__()"),
    "st_default_device_meta": honest("import torch\ntorch.set_default_device('meta')"),
    "st_global_module_hooks": honest(
        "from torch.nn.modules.module import register_module_forward_hook\n"
        "register_module_forward_hook(lambda m, a, o: o * 2)"
    ),
    "st_function_mode": honest(
        "from torch.overrides import TorchFunctionMode\n"
        "class Mode(TorchFunctionMode):\n    def __torch_function__(self, f, t, a=(), k=None):\n"
        "        return f(*a, **(k or {}))\nMode().__enter__()"
    ),
    "st_matplotlib_show": honest("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"),
    "st_many_figures": honest(
        "import matplotlib.pyplot as plt\nfor _ in range(60):\n    plt.figure()\nplt.close('all')"
    ),
    "st_rng_dependent": damage(
        "wrong", "import torch\n" + in_function("return {n: torch.randn_like(w) for n in 'wxab'}")
    ),
    "st_warnings_error": honest(
        "import io, logging, sys, warnings\nwarnings.simplefilter('error')\nlogging.disable()\n"
        "sys.stdout = sys.stderr = io.StringIO()"
    ),
    "st_multiprocessing": honest(
        "import torch\nfrom torch.utils.data import DataLoader, TensorDataset\n"
        "n = sum(len(b[0]) for b in DataLoader(TensorDataset(torch.zeros(8, 2)), batch_size=2, num_workers=2))\n"
        "assert n == 8"
    ),
    "st_torch_compile": honest("import torch\ntorch.compile(lambda x: x + 1, backend='eager')(torch.ones(2))"),
    "st_asyncio": honest("import asyncio\nawait asyncio.sleep(0.01)"),
    "magics": honest(
        "%matplotlib inline\nx = 1\n%time x + 1\n!echo hello > said\nassert open('said').read() == 'hello\\n'"
    ),
    "files in HOME": honest("import os\nopen(os.path.expanduser('~/notes.txt'), 'w').write('x' * 1000)"),
    "temporary files": honest("import tempfile\nwith tempfile.NamedTemporaryFile() as f:\n    f.write(b'x' * 1000)"),
    "a lot of text": honest("print('x' * 1_500_000)"),
}
