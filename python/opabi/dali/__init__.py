"""Kernels in DALI pipelines. Nothing here imports DALI before a kernel meets a pipeline."""
