"""A model of the learner's choice to run their functions on: one of another package, or their own.

Nothing is downloaded.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from graders.nets.shapes import draw_shapes, shapes_net

ONLY_OURS = "MODELS_OF_THE_COURSE"
"""The environment variable that is set where lessons must show the same on every machine: when they are built, and
while a notebook is marked. Its name does not say that somebody marks."""

Found = tuple[nn.Module, bool, Tensor]
"""A model, whether its weights were trained, and an input for it."""


def your_model(model: str | nn.Module, x: Tensor | None = None) -> tuple[nn.Module, Tensor]:
    """A model and an input for it; one printed line says which model it is and where its weights are from.

    `model` is the name of a model of torchvision, timm or transformers, such as "resnet18" or "gpt2", or a module of
    your own, which comes with its input `x`. Weights are taken from the cache of these packages. If they are not there,
    they are random; if there is no such model, the course's own net takes its place. Nothing is downloaded.
    """
    if isinstance(model, nn.Module) and isinstance(x, Tensor):
        print(f"Your own model: {type(model).__name__}.")
        return model, x
    if os.environ.get(ONLY_OURS):
        return _ours("")
    if isinstance(model, nn.Module):
        return _ours("A model of your own needs an input, too: your_model(model, x).")
    if not isinstance(model, str):
        return _ours("Name a model, or give one of your own and its input: your_model(model, x).")
    there, trouble = [], []
    for package, find in FINDERS.items():
        if importlib.util.find_spec(package) is None:
            continue
        there.append(package)
        try:
            with _silence(), torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)
                found = find(model)
        except Exception as error:  # whatever is wrong with an installation of somebody else's package
            trouble.append(f"{package} failed with {type(error).__name__}: {_first_line(error)}.")
            continue
        if found:
            net, trained, example = found
            weights = "its trained weights" if trained else "random weights, because its own are not on this machine"
            print(f"{model} of {package}, with {weights}.")
            return net.eval(), example if x is None else x
    if not there:
        return _ours(f"None of these packages is installed: {', '.join(FINDERS)}.")
    return _ours(" ".join(trouble) or f"There is no model {model!r}. Looked in: {', '.join(there)}.")


def your_gpt2() -> tuple[nn.Module, Any] | None:
    """A GPT-2 of transformers in eval mode and its tokenizer; None, after a printed line, without that package.

    If "gpt2" is not in the cache, it is a small one with 3 blocks and random weights, and the tokenizer is None.
    """
    if os.environ.get(ONLY_OURS) or importlib.util.find_spec("transformers") is None:
        print("transformers is not installed.")
        return None
    try:
        with _silence():
            transformers = importlib.import_module("transformers")
    except Exception as error:  # whatever is wrong with an installation of somebody else's package
        print(f"transformers failed with {type(error).__name__}: {_first_line(error)}.")
        return None
    with contextlib.suppress(OSError, ValueError), _silence():
        tokenizer = transformers.AutoTokenizer.from_pretrained("gpt2", local_files_only=True)
        kept = transformers.GPT2LMHeadModel.from_pretrained("gpt2", local_files_only=True, attn_implementation="eager")
        return kept.eval(), tokenizer
    print("gpt2 is not on this machine, so this is a small GPT-2 with random weights.")
    with _silence(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        sizes = {"vocab_size": 50, "n_positions": 32, "n_embd": 64, "n_layer": 3, "n_head": 4}
        config = transformers.GPT2Config(**sizes, attn_implementation="eager", bos_token_id=0, eos_token_id=0)
        return transformers.GPT2LMHeadModel(config).eval(), None


def _ours(why: str) -> tuple[nn.Module, Tensor]:
    print(*([why] if why else []), "This is the course's own net, trained on drawings of shapes.")
    return shapes_net(), draw_shapes(2, seed=0)[0]


def _from_torchvision(name: str) -> Found | None:
    models = importlib.import_module("torchvision.models")
    if name not in models.list_models():
        return None
    net, weights = models.get_model(name, weights=None), models.get_model_weights(name).DEFAULT
    file = Path(torch.hub.get_dir(), "checkpoints", weights.url.rpartition("/")[2])
    size = weights.transforms().crop_size[0] if hasattr(weights.transforms(), "crop_size") else 224
    return net, _load(net, file), _picture(size)


def _from_timm(name: str) -> Found | None:
    timm = importlib.import_module("timm")
    if not timm.is_model(name):
        return None
    net = timm.create_model(name, pretrained=False)
    kept, size = net.pretrained_cfg, net.pretrained_cfg.get("input_size", (3, 224, 224))[-1]
    cache = importlib.import_module("huggingface_hub").try_to_load_from_cache
    file = cache(kept["hf_hub_id"], "model.safetensors") if kept.get("hf_hub_id") else None
    return net, isinstance(file, str) and _load(net, Path(file)), _picture(size)


def _from_transformers(name: str) -> Found | None:
    auto = importlib.import_module("transformers")
    try:
        config, trained = auto.AutoConfig.from_pretrained(name, local_files_only=True), True
    except (OSError, ValueError):
        if name not in (kinds := importlib.import_module("transformers.models.auto.configuration_auto").CONFIG_MAPPING):
            return None
        config, trained = kinds[name](), False
    kinds = (auto.AutoModelForCausalLM, auto.AutoModelForImageClassification, auto.AutoModel)
    chosen = next(kind for kind in kinds if type(config) in kind._model_mapping or kind is auto.AutoModel)
    net = None
    if trained:
        with contextlib.suppress(OSError, ValueError):
            net = chosen.from_pretrained(name, local_files_only=True)
    trained, net = net is not None, net or chosen.from_config(config)
    net.register_forward_hook(lambda module, args, output: output[0])  # a tensor, as other models return
    if net.main_input_name == "pixel_values":
        return net, trained, _picture(getattr(config, "image_size", 224))
    words = torch.randint(config.vocab_size, (1, 12), generator=torch.Generator().manual_seed(0))
    return net, trained, words


FINDERS: dict[str, Callable[[str], Found | None]] = {
    "torchvision": _from_torchvision,
    "timm": _from_timm,
    "transformers": _from_transformers,
}
"""For each package that is looked into, in this order, what finds a model there by name; None if it has none."""


def _load(net: nn.Module, file: Path) -> bool:
    """Load the weights in `file` into `net`; False if there is no such file."""
    if not file.is_file():
        return False
    safe = file.suffix == ".safetensors"
    net.load_state_dict(load_file(file) if safe else torch.load(file, map_location="cpu", weights_only=True))
    return True


def _picture(size: int) -> Tensor:
    """One of the course's drawings at this size, with values around 0 as models of photographs expect them."""
    drawing = draw_shapes(1, seed=0)[0]
    return (nn.functional.interpolate(drawing, (size, size), mode="bilinear") - 0.5) / 0.25


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0][:120].rstrip(".")


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Show no warnings and no prints of packages that are being imported or searched."""
    nowhere = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        warnings.simplefilter("ignore")
        yield
