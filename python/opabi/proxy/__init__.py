"""A pipeline in the main process as a transform in the workers of a data loader.

::

    augment = opabi.proxy.pipeline(pipe, batch_size=32, num_threads=4, device_id=0)
    dataset = ImageFolder(root, loader=read_bytes, transform=augment)      # called in the workers
    loader = DataLoader(dataset, batch_size=32, num_workers=8)

    for images, labels in opabi.proxy.stage(loader):     # run here, in loader order
        ...

Three names: :func:`pipeline` (or :func:`kernel`, for an opabi kernel without DALI) makes the
transform, a
:class:`Proxy`; :func:`stage` puts the results into the batches of any iterable. A call of the proxy
checks its inputs and notes them down; they travel inside the loader's own batch. So there are no
numbers to match, no order to keep, and no thread or queue beside the loader's. Workers use neither
DALI nor CUDA.
"""

from __future__ import annotations

from opabi.proxy._call import Output
from opabi.proxy._proxy import Proxy, kernel, pipeline
from opabi.proxy._stage import Stage, stage

__all__ = ["Output", "Proxy", "Stage", "kernel", "pipeline", "stage"]
