"""The model registry: every blessed model, where it came from, and which one is `stable`; a folder or an object store.

    registry.py   ModelRegistry: register, resolve, promote, rollback, gc
    entry.py      what is known of one model
    store.py      how a folder of files appears whole or not at all, on a file system and on an object store
    component.py  ModelRegistrar, the pipeline step; executor.py runs it

Nothing but fsspec is needed to read it: no ML Metadata, no TensorFlow.
"""

from components.model_registry.entry import Lineage, ModelEntry
from components.model_registry.registry import ModelRegistry, RegistryError, resolve

__all__ = ["Lineage", "ModelEntry", "ModelRegistry", "RegistryError", "resolve"]
