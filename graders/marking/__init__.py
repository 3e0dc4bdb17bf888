"""Marking a batch: each notebook is run and judged once, and a class is accompanied by a control exercise."""
