"""Is LLM decoding slow at some KV lengths because of the kernel dispatched there, or because of something else?"""

__version__ = "0.1.0"
