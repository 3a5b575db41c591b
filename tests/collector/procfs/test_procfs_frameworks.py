"""Frameworks by mapped libraries: names as they stand in the projects' wheels."""

import pytest

from collector.procfs.job_root import MOST_LIBRARIES, MOST_LINES, Mapped, mapped

SITE = "/opt/env/lib/python3.11/site-packages"


def maps(*paths: str) -> bytes:
    rows = [f"7f{i:010x}-7f{i + 1:010x} r-xp 00000000 08:02 135522 {p}\n" for i, p in enumerate(paths)]
    return "".join([*rows, "7ffd0000-7ffd1000 rw-p 00000000 00:00 0 [stack]\n"]).encode()


@pytest.mark.parametrize(
    ("library", "framework"),
    [
        ("/tensorflow/libtensorflow_framework.so.2", "TensorFlow"),
        ("/tensorflow/libtensorflow_cc.so.2", "TensorFlow"),
        ("/usr/lib/libtensorflow.so.2.16.1", "TensorFlow"),
        ("/torch/lib/libtorch_cuda.so", "PyTorch"),
        ("/torch/lib/libtorch_cpu.so", "PyTorch"),
        ("/torch/lib/libc10.so", "PyTorch"),
        ("/jaxlib/libjax_common.so", "JAX"),
        ("/jaxlib/xla_extension.so", "JAX"),
        ("/jax_plugins/xla_cuda12/xla_cuda_plugin.so", "JAX"),
        ("/cupy/_core/core.cpython-311-x86_64-linux-gnu.so", "CuPy"),
        ("/libcudf/lib64/libcudf.so", "RAPIDS"),
        ("/usr/lib/libcuml++.so", "RAPIDS"),
        ("/librmm/lib64/librmm.so", "RAPIDS"),
        ("/onnxruntime/capi/libonnxruntime_providers_cuda.so", "ONNX Runtime"),
        ("/usr/lib/x86_64-linux-gnu/libnvinfer.so.10.3.0", "TensorRT"),
        ("/nvidia/nccl/lib/libnccl.so.2", "NCCL"),
        ("/opt/tritonserver/lib/libtritonserver.so", "Triton Inference Server"),
    ],
)
def test_a_library_names_its_framework(library: str, framework: str) -> None:
    assert mapped(maps(SITE + library)).frameworks == (framework,)


def test_tensorflow_comes_before_the_jaxlib_that_it_maps() -> None:
    seen = mapped(maps(f"{SITE}/jaxlib/libjax_common.so", f"{SITE}/tensorflow/libtensorflow_cc.so.2"))
    assert seen.frameworks == ("TensorFlow", "JAX")


def test_tensorflow_comes_first_though_it_maps_the_helpers_of_jax_s_gpu_plugin_too() -> None:
    seen = mapped(
        maps(
            f"{SITE}/jax_cuda12_plugin/cuda_plugin_extension.so",
            f"{SITE}/jax_cuda12_plugin/_solver.so",
            f"{SITE}/jaxlib/_jax.so",
            f"{SITE}/tensorflow/libtensorflow_framework.so.2",
        )
    )
    assert seen.frameworks == ("TensorFlow", "JAX")


def test_jax_comes_first_when_its_own_gpu_plugin_runs_beside_tensorflow_s_input_pipeline() -> None:
    seen = mapped(
        maps(
            f"{SITE}/tensorflow/libtensorflow_framework.so.2",
            f"{SITE}/jaxlib/libjax_common.so",
            f"{SITE}/jax_plugins/xla_cuda12/xla_cuda_plugin.so",
        )
    )
    assert seen.frameworks == ("JAX", "TensorFlow")


def test_nccl_comes_after_the_framework_that_brings_it() -> None:
    seen = mapped(maps(f"{SITE}/nvidia/nccl/lib/libnccl.so.2", f"{SITE}/torch/lib/libtorch_cuda.so"))
    assert seen.frameworks == ("PyTorch", "NCCL")


@pytest.mark.parametrize("name", ["libcuda.so.1", "libcuda.so.550.54.15", "libcuda.so"])
def test_the_driver_s_library_is_seen(name: str) -> None:
    assert mapped(maps(f"/usr/lib/x86_64-linux-gnu/{name}")) == Mapped(frameworks=(), cuda=True)


@pytest.mark.parametrize("name", ["libcudart.so.12", "libcudnn.so.9", "libcublas.so.12", "libcuda_shim.so"])
def test_a_cuda_library_alone_is_not_the_driver(name: str) -> None:
    assert not mapped(maps(f"{SITE}/nvidia/lib/{name}")).cuda


@pytest.mark.parametrize(
    "path",
    [
        "/home/ann/jaxlib/train.bin",
        "/home/ann/libtorch_notes.txt",
        "/srv/cupy/batch-0.npy",
        "/tmp/libnccl.so.log",
    ],
)
def test_mapped_data_is_not_a_framework(path: str) -> None:
    assert mapped(maps(path)).frameworks == ()


def test_a_library_replaced_on_disk_still_counts() -> None:
    seen = mapped(maps(f"{SITE}/torch/lib/libtorch_cuda.so (deleted)"))
    assert seen.frameworks == ("PyTorch",)


def test_a_process_with_nothing_mapped_has_no_framework() -> None:
    assert mapped(b"") == Mapped(frameworks=(), cuda=False)


@pytest.mark.parametrize("name", ["libtorch.so2", "libtorch.sox", "libtorch.so.x"])
def test_what_only_begins_like_a_library_is_none(name: str) -> None:
    assert mapped(maps(f"/opt/{name}")).frameworks == ()


def test_a_path_of_thousands_of_folders_is_read_for_its_end_alone() -> None:
    """Once for each of its folders took 50 ms a mapping: this test, minutes of processor time."""
    deep = "/d" * 1_950
    seen = mapped(maps(*[f"{deep}/{i}.bin" for i in range(2_000)], f"{deep}/torch/lib/libtorch.so"))
    assert seen == Mapped(frameworks=("PyTorch",), cuda=False)


def test_what_lies_beyond_the_mappings_looked_at_is_unknown() -> None:
    seen = mapped(maps(*["/srv/data.bin"] * MOST_LINES, "/usr/lib/libcuda.so.1"))
    assert seen == Mapped(frameworks=(), cuda=None, is_whole=False)


def test_what_lies_beyond_the_libraries_looked_at_is_unknown() -> None:
    names = [f"/opt/lib{i}.so" for i in range(MOST_LIBRARIES)]
    seen = mapped(maps("/usr/lib/libcuda.so.1", f"{SITE}/torch/lib/libtorch.so", *names))
    assert seen == Mapped(frameworks=("PyTorch",), cuda=True, is_whole=False)


def test_as_many_mappings_as_are_looked_at_are_all_of_them() -> None:
    assert mapped(maps(*["/srv/data.bin"] * (MOST_LINES - 1))) == Mapped(frameworks=(), cuda=False)
