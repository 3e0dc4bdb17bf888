"""Reports: functions from results to files and text. Knows nothing of torch."""
