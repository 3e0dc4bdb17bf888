"""From a transcript to results: plays references and wrong programs in the same scene, compares, and explains."""
