"""The place to work in: JupyterLab with the course, and a look at the machine beforehand."""
