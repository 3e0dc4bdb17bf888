"""What scenes see with: a witness of what changed, models, failures, hooks of the caller."""
