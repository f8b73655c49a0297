"""One submission to one result: its notebook is run, then its models are judged from outside."""
