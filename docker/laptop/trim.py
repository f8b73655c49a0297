"""Make the installed packages smaller: take out what a machine without an NVIDIA GPU never uses.

    python docker/laptop/trim.py .venv/lib/python3.11/site-packages

The Dockerfile runs this once, in the stage that installs the packages, and prints what each step
saved. Nothing is removed that the course cannot do without. What is removed:

- libraries that need an NVIDIA GPU, an Intel GPU or NPU, and headers that only a compiler of
  TensorFlow's or DALI's own extensions reads
- TensorRT for RTX, which NVIDIA's licence terms do not let others pass on
- libraries for other versions of Python than this one
- tests of packages, static libraries, programs for developers of the course (ruff, mypy)
- symbol tables of libraries, which only a debugger reads (`strip --strip-unneeded`)
- machine code for NVIDIA GPUs inside libraries that are also used on the CPU (`without_gpu_code`)
- OpenVINO's libraries in the plug-in for ONNX Runtime, which the package openvino has as well

Only the standard library is imported: this runs before the course is in the image.
"""

from __future__ import annotations

import dataclasses
import filecmp
import shutil
import struct
import subprocess
import sys
from pathlib import Path

#: Folders and files to remove, relative to site-packages.
REMOVED = (
    # For an NVIDIA GPU.
    "nvidia/nccl",
    "nvidia/libnvcomp",
    "nvidia/nvjpeg",
    "nvidia/nvjpeg2k",
    "nvidia/nvtiff",
    "cuda",
    "nvtx",
    "onnxruntime/capi/libonnxruntime_providers_cuda.so",
    "onnxruntime/capi/libonnxruntime_providers_tensorrt.so",
    # An image may be passed on. NVIDIA allows that for libnvinfer, but not for these libraries.
    "tensorrt_rtx*",
    # For Intel's GPU and NPU.
    "openvino/libs/libopenvino_intel_gpu_plugin.so",
    "openvino/libs/libopenvino_intel_npu*.so",
    "openvino/libs/cache.json",
    "onnxruntime_ep_openvino/libopenvino_intel_gpu_plugin.so",
    "onnxruntime_ep_openvino/libopenvino_intel_npu*.so",
    "onnxruntime_ep_openvino/cache.json",
    # Copies of the plug-in under names that nothing asks for.
    "onnxruntime_ep_openvino/libonnxruntime_providers_openvino_plugin.so.*",
    # Headers. PyTorch's stay: torch.compile reads them.
    "tensorflow/include",
    "nvidia/dali/include",
    # Extensions of TensorFlow for compilers that the course does not use.
    "tensorflow/compiler/mlir/stablehlo",
    "tensorflow/compiler/tf2xla/ops/_xla_ops.so",
    # Programs and packages of developers. Sphinx makes the course's site.
    "sphinx",
    "sphinx_book_theme",
    "pydata_sphinx_theme",
    "torch/bin/*StoreTest",
    "torch/bin/protoc*",
    "clang",
    "mypy",
    "mypyc",
    "*__mypyc*.so",
    "torch/bin/test_*",
    "torch/test",
    "../../../bin/ruff",
    "../../../bin/hadolint",
    "../../../bin/uv",
    # Tests, and libraries that only a linker reads.
    "**/tests",
    "onnx/backend/test",
    "**/*.a",
    # Files that only a browser's debugger reads.
    "**/*.js.map",
    "../../../share/**/*.js.map",
)
#: Two folders that may hold the same libraries: a link in the first takes the place of a copy.
SHARED = ("onnxruntime_ep_openvino", "openvino/libs")
#: Tests that stay, because other programs import them.
KEPT = ("numpy/testing/tests", "torch/testing")
#: Smaller libraries are left as they are.
STRIPPED_FROM = 200_000
#: The server itself is not stripped: the course's helpers look symbols up in it.
UNSTRIPPED = ("nvidia_pytriton.libs/libtritonserver", "pytriton/", "numpy.libs/", "scipy.libs/")

_PAGE = 4096
_LOAD, _NOTE = 1, 4
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")


@dataclasses.dataclass
class Segment:
    """A program header of an ELF file: a part of the file, and where it goes in memory."""

    type: int
    flags: int
    offset: int
    address: int
    physical: int
    file_size: int
    memory_size: int
    alignment: int


def main(packages: Path) -> None:
    """Trim the packages in this folder, and print what was saved."""
    removed = sum(remove(path) for path in _removed(packages))
    print(f"  {removed >> 20:5} MiB  removed")
    print(f"  {share(packages) >> 20:5} MiB  libraries that two packages have")
    stripped = cut = 0
    for library in _libraries(packages):
        before = library.stat().st_size
        if not library.relative_to(packages).as_posix().startswith(UNSTRIPPED):
            subprocess.run(["strip", "--strip-unneeded", library], check=True)
        between = library.stat().st_size
        shorter = without_gpu_code(library.read_bytes())
        if shorter is not None:
            library.write_bytes(shorter)
            cut += between - len(shorter)
        stripped += before - between
    print(f"  {stripped >> 20:5} MiB  symbol tables")
    print(f"  {cut >> 20:5} MiB  code for NVIDIA GPUs")


def remove(path: Path) -> int:
    """Remove a file or a folder; returns its size in bytes."""
    if path.is_symlink() or path.is_file():
        size = path.lstat().st_size
        path.unlink()
        return size
    size = sum(one.lstat().st_size for one in path.rglob("*"))
    shutil.rmtree(path)
    return size


def share(packages: Path) -> int:
    """Put links in the place of libraries that another package has as well; returns what it saved.

    A library whose copies differ is left alone, for example where the packages' versions do.
    """
    saved = 0
    copies, originals = (packages / folder for folder in SHARED)
    for copy in sorted(copies.glob("*.so*")):
        original = originals / copy.name
        if original.is_file() and filecmp.cmp(copy, original, shallow=False):
            saved += copy.stat().st_size
            copy.unlink()
            copy.symlink_to(Path("..") / original.relative_to(packages))
    return saved


def without_gpu_code(library: bytes) -> bytes | None:
    """A shared library with zeros in place of its code for NVIDIA GPUs; None if it has none.

    nvcc puts this code into the section .nv_fatbin. CUDA reads it when a program has found a GPU
    and calls a kernel; nothing else does. The section lies within a segment. This segment is split:
    in the file its first half ends where the code begins, and in memory it reaches to the start of
    the second half. The loader fills the memory between them with zeros, and no address changes.
    The new segment takes the place of the note with the build's number in the table of segments.
    """
    head = list(_HEADER.unpack_from(library))
    segments = [
        Segment(*_SEGMENT.unpack_from(library, head[5] + n * head[9])) for n in range(head[10])
    ]
    code = _gpu_code(library, head)
    if code is None or not any(segment.type == _NOTE for segment in segments):
        return None
    begin, end = -(-code.start // _PAGE) * _PAGE, code.stop // _PAGE * _PAGE
    around = next(
        s for s in segments if s.type == _LOAD and s.offset <= begin < end < s.offset + s.file_size
    )
    saved = end - begin
    shift = end - around.offset
    second = dataclasses.replace(
        around,
        offset=end,
        address=around.address + shift,
        physical=around.physical + shift,
        file_size=around.file_size - shift,
        memory_size=around.memory_size - shift,
    )
    around.file_size, around.memory_size = begin - around.offset, shift
    segments.insert(segments.index(around) + 1, second)
    segments.remove(next(s for s in segments if s.type == _NOTE))
    for segment in segments:
        if segment.offset >= end:
            segment.offset -= saved
    head[6] = head[12] = head[13] = 0  # the table of sections, which only linkers read
    shorter = bytearray(library[:begin] + library[end:])
    _HEADER.pack_into(shorter, 0, *head)
    for n, segment in enumerate(segments):
        place = head[5] + n * head[9]
        _SEGMENT.pack_into(shorter, place, *dataclasses.astuple(segment))
    return bytes(shorter)


def _gpu_code(library: bytes, head: list[int]) -> range | None:
    """Where the file has its section .nv_fatbin; None if it has none of a megabyte or more."""
    sections = [_SECTION.unpack_from(library, head[6] + n * head[11]) for n in range(head[12])]
    if not sections:
        return None
    names = sections[head[13]][4]
    for section in sections:
        start = names + section[0]
        if library[start : library.index(b"\0", start)] == b".nv_fatbin" and section[5] >= 1 << 20:
            return range(section[4], section[4] + section[5])
    return None


def _removed(packages: Path) -> list[Path]:
    this = f"cpython-{sys.version_info.major}{sys.version_info.minor}-"
    found = {
        path
        for pattern in REMOVED
        for path in packages.glob(pattern)
        if not path.relative_to(packages).as_posix().startswith(KEPT)
    }
    found |= {path for path in packages.glob("nvidia/**/*.cpython-*.so") if this not in path.name}
    # A folder inside another folder that is removed is not listed.
    return sorted(path for path in found if not found & set(path.parents))


def _libraries(packages: Path) -> list[Path]:
    return sorted(
        path
        for path in packages.rglob("*.so*")
        if path.is_file() and not path.is_symlink() and path.stat().st_size >= STRIPPED_FROM
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
