"""Takes runs from the cache, and asks another runner for those that are not there."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from graders.marking.cache import RunCache, digest_of_probes, run_key
from graders.sandbox.outside.conversation import Probe
from graders.sandbox.outside.run_options import RunOptions
from graders.sandbox.outside.runner import Runner, Transcript, WrappedRunner


class CachedRunner(WrappedRunner):
    """Takes runs from a cache. If one is not there, it is run by `otherwise` and added to the cache."""

    def __init__(self, cache: RunCache, run_options: RunOptions, otherwise: Runner) -> None:
        """A cached run must have been run with these options, in any of their `accepted_tiers`."""
        super().__init__(otherwise)
        self._cache, self._run_options = cache, run_options
        self._digests: dict[int, tuple[Sequence[Probe], str]] = {}

    def run(self, cells: Sequence[str], probes: Sequence[Probe]) -> Transcript:
        """See `Runner`."""
        options = self._run_options
        key = run_key(cells, self._probes_digest(probes), options.limits, keep_outputs=options.keep_outputs)
        if found := self._cache.find(key, options.accepted_tiers):
            tier, frames = found
            return Transcript(frames, tier)
        transcript = self._runner.run(cells, probes)
        if transcript.ended != "not-started":
            self._cache.keep(key, transcript.tier, transcript.frames)
            # Bind only the key, not the transcript: the runs may live as long as the batch, with 1,000 transcripts.
            transcript.between_controls.when_it_fails(partial(self._cache.forget, key, transcript.tier))
        return transcript

    def _probes_digest(self, probes: Sequence[Probe]) -> str:
        """The digest of the probes, which is remembered: a class shares them, and it takes as long as reading a run."""
        if id(probes) not in self._digests:
            self._digests[id(probes)] = probes, digest_of_probes(probes)
        return self._digests[id(probes)][1]
