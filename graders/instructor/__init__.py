"""The instructor's side: a class marked from start to finish, behind `hookwork grade` and `pytest graders --out`."""
