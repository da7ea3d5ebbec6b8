"""Makes the simulation importable for the tests of this folder, which is no package."""

import importlib.util
import pathlib
import sys

HERE = pathlib.Path(__file__).parent


def _load(name: str) -> None:
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


for _name in ("kfp_conditions", "kfp_driver", "kfp_launcher", "kfp_simulation", "kfp_server", "stock_pipeline"):
    if _name not in sys.modules and (HERE / f"{_name}.py").is_file():
        _load(_name)
