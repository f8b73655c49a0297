"""What a lecture needs before its first experiment: one module per notebook that needs one."""
