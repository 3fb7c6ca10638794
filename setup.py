"""Calls CMake for opabi._core; everything else is in pyproject.toml and CMakeLists.txt."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent.resolve()


class CMakeBuild(build_ext):
    def build_extension(self, ext: Extension) -> None:
        build = Path(self.build_temp).resolve() / "cmake"
        target = Path(self.get_ext_fullpath(ext.name)).resolve().parent
        configure = [
            "cmake",
            "-S",
            str(ROOT),
            "-B",
            str(build),
            "-G",
            "Ninja",
            f"-DPython_EXECUTABLE={sys.executable}",
            f"-DCMAKE_INSTALL_PREFIX={target.parent}",
            f"-Dpybind11_DIR={self.pybind11_dir()}",
        ]
        subprocess.run(configure, check=True)
        subprocess.run(["cmake", "--build", str(build)], check=True)
        # An editable install reads headers and sources from the checkout: it takes the module alone.
        what = ["--component", "module"] if self.editable_mode else []
        subprocess.run(["cmake", "--install", str(build), *what], check=True)
        if prebuilt := os.environ.get("OPABI_PREBUILT"):  # see tools/wheel.py
            shutil.copytree(prebuilt, target / "dali" / "prebuilt", dirs_exist_ok=True)

    @staticmethod
    def pybind11_dir() -> str:
        import pybind11

        return pybind11.get_cmake_dir()


setup(ext_modules=[Extension("opabi._core", [])], cmdclass={"build_ext": CMakeBuild})
