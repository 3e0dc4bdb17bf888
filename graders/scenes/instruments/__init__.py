"""What scenes see with: a witness of what changed, ways to run a pass, failures, hooks of the caller."""
