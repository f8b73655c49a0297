"""What `make lab` needs: JupyterLab, the reader's own copy of the course, and `make doctor`."""
