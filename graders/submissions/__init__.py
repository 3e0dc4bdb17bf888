"""Finds and reads what was handed in: folders, archives, platforms, rosters, groups, attempts."""
