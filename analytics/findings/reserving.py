"""A server's memory, reserved on purpose: what it is told to reserve, by the kind of server.

Sources of the settings: each project's own documentation of its command line (vLLM engine arguments, SGLang
server arguments, TGI launcher arguments, TensorRT-LLM KvCacheConfig, JAX "GPU memory allocation", llama.cpp
server, Ollama FAQ, LMDeploy TurboMind, TensorFlow Serving, Triton model management).
"""

import re

from collector.model import Holder

_REMEDIES: tuple[tuple[str, "re.Pattern[str]", str], ...] = tuple(
    (name, re.compile(pattern, re.IGNORECASE), remedy)
    for name, pattern, remedy in (
        ("vLLM", r"vllm", "what it is told to reserve (--gpu-memory-utilization)"),
        ("SGLang", r"sglang", "what it is told to reserve (--mem-fraction-static)"),
        ("TGI", r"text-generation", "what it is told to reserve (--cuda-memory-fraction)"),
        ("LMDeploy", r"lmdeploy", "the size of its cache (--cache-max-entry-count)"),
        (
            "TensorRT-LLM",
            r"trtllm|tensorrt[-_]llm",
            "its cache's part of the free memory (free_gpu_memory_fraction)",
        ),
        (
            "Triton",
            r"tritonserver|trtserver|triton inference server",
            "fewer models or instances in its repository (with TensorRT-LLM: kv_cache_free_gpu_mem_fraction)",
        ),
        (
            "TensorFlow Serving",
            r"tensorflow_model_server",
            "its part of the memory (--per_process_gpu_memory_fraction)",
        ),
        ("Ollama", r"\bollama\b", "how long it keeps a model loaded (OLLAMA_KEEP_ALIVE)"),
        (
            "llama.cpp",
            r"llama-server|llama\.cpp",
            "its context and the layers it offloads (--ctx-size, --n-gpu-layers)",
        ),
        ("JAX", r"\bjax\b", "what JAX reserves at its start (XLA_PYTHON_CLIENT_MEM_FRACTION)"),
        ("TensorFlow", r"\btensorflow\b", "what TensorFlow reserves (TF_FORCE_GPU_ALLOW_GROWTH=true)"),
    )
)
_ANY = "what the server is told to reserve"


def kind_of_server(holder: Holder) -> tuple[str | None, str]:
    """The server's name, where its command, else its framework, tells it, and what frees its memory."""
    for told in (holder.command, holder.framework):
        for name, pattern, remedy in _REMEDIES if told else ():
            if pattern.search(told or ""):
                return name, remedy
    return None, _ANY
