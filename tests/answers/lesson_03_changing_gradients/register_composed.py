"""Answers to 03-register-composed."""

from graders.author.answers import Wrong

RIGHT = [
    """
import functools

def register_composed(t, fs):
    composed = functools.reduce(lambda outer, inner: lambda g: outer(inner(g)), fs)
    return [t.register_hook(composed)]
""",
    """
def register_composed(t, fs):
    def walk(grad, rest):
        return rest[0](walk(grad, rest[1:])) if rest else grad
    return [t.register_hook(lambda grad: walk(grad, list(fs)))]
""",
    """
def register_composed(t, fs):
    if not fs:
        return []
    inner = register_composed(t, fs[1:])
    return inner + [t.register_hook(fs[0])]
""",
    """
class Composed:
    def __init__(self, fs):
        self.fs = tuple(fs)
    def __call__(self, grad):
        *rest, first = self.fs
        grad = first(grad.clone())
        while rest:
            grad = rest.pop()(grad)
        return grad

def register_composed(t, fs):
    return [t.register_hook(Composed(fs))]
""",
    """
class Handles(list):
    def remove(self):
        while self:
            self.pop().remove()

def register_composed(t, fs):
    return Handles(t.register_hook(f) for f in reversed(fs))
""",
]

WRONG = [
    Wrong(
        "swallows errors of one kind",
        violates="your caller gets the exception",
        check="test_an_exception_of_a_function_comes_through_and_the_next_pass_is_right",
        source="""
def register_composed(t, fs):
    def hook(grad):
        try:
            for f in reversed(fs):
                grad = f(grad)
        except TypeError:
            return None
        return grad
    return [t.register_hook(hook)]
""",
    ),
    Wrong(
        "a generator, which an exception ends for good",
        violates="in every backward pass from now on",
        check="test_an_exception_of_a_function_comes_through_and_the_next_pass_is_right",
        source="""
def register_composed(t, fs):
    def steps():
        grad = yield
        while True:
            for f in reversed(fs):
                grad = f(grad)
            grad = yield grad
    chain = steps()
    next(chain)
    return [t.register_hook(chain.send)]
""",
    ),
    Wrong(
        "calls everything twice",
        violates="Each entry is called once for each pass",
        check="test_each_function_is_called_once_for_each_pass",
        source="""
def register_composed(t, fs):
    def hook(grad):
        for f in reversed(fs):
            f(grad)
            grad = f(grad)
        return grad
    return [t.register_hook(hook)]
""",
    ),
    Wrong(
        "all functions are global: a second call changes those of the first",
        violates="as often as it likes",
        check="test_each_function_is_called_once_for_each_pass",
        source="""
functions = []

def register_composed(t, fs):
    functions[:] = fs
    def hook(grad):
        for f in reversed(functions):
            grad = f(grad)
        return grad
    return [t.register_hook(hook)]
""",
    ),
]

SURVIVORS = {
    "lost copy": "nobody changes the list after the call, and a function makes a new tensor",
}
