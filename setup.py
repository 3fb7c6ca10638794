"""Calls CMake for opabi._core; everything else is in pyproject.toml and CMakeLists.txt."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent.resolve()


class CMakeBuild(build_ext):
    def build_extension(self, ext: Extension) -> None:
        target = Path(self.get_ext_fullpath(ext.name)).resolve().parent
        # Of its own each time: a tree that was configured before names a ninja and a pybind11 that
        # are gone with pip's last build environment.
        with tempfile.TemporaryDirectory(prefix="opabi-build-") as build:
            self.run_cmake(build, target)

    def run_cmake(self, build: str, target: Path) -> None:
        configure = [
            "cmake",
            "-S",
            str(ROOT),
            "-B",
            build,
            "-G",
            "Ninja",
            f"-DPython_EXECUTABLE={sys.executable}",
            f"-DCMAKE_INSTALL_PREFIX={target.parent}",
            f"-Dpybind11_DIR={self.pybind11_dir()}",
        ]
        subprocess.run(configure, check=True)
        subprocess.run(["cmake", "--build", build], check=True)
        if self.editable_mode:  # headers and sources are read from the checkout
            subprocess.run(["cmake", "--install", build, "--component", "module"], check=True)
            return
        for folder in ("_native", "dali/prebuilt"):  # of an earlier build
            shutil.rmtree(target / folder, ignore_errors=True)
        subprocess.run(["cmake", "--install", build], check=True)
        if prebuilt := os.environ.get("OPABI_PREBUILT"):  # see tools/wheel.py
            shutil.copytree(prebuilt, target / "dali" / "prebuilt")

    @staticmethod
    def pybind11_dir() -> str:
        import pybind11

        return pybind11.get_cmake_dir()


setup(ext_modules=[Extension("opabi._core", [])], cmdclass={"build_ext": CMakeBuild})
