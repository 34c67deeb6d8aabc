"""llama.cpp as a Runtime: one model, one sequence, driven through the C API; llama_branches.py has more.

Owns native memory. Knows nothing of chats, sampling or processes.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from localchat.engines.llama_binding import load_binding
from localchat.engines.llama_branches import LlamaBranches
from localchat.engines.protocol import LoadOptions
from localchat.engines.runtime import Aborted, LoadFailed, Logits

N_BATCH = 2048
N_UBATCH = 512
FIRST_CONTEXT_TOKENS = 1024
"""The KV cache starts this small and doubles when needed: its memory is touched
when it is made, so a full window would cost every short chat hundreds of MB."""
GGML_TYPES = {"f32": 0, "f16": 1, "q4_0": 2, "q8_0": 8}  # ggml.h, enum ggml_type
ABORTED = 2  # llama_decode's return value, llama.h
LOG_WARN = 3  # ggml.h, enum ggml_log_level
_LOG_CALLBACKS: list[Any] = []  # never freed: the library has one for the process and keeps calling it


class LlamaRuntime:
    """Implements :class:`localchat.engines.runtime.Runtime`."""

    def __init__(self, options: LoadOptions, on_progress: Callable[[float], bool]) -> None:
        """Load the file. ``on_progress`` gets a fraction and says whether to go on.

        Raises LoadFailed with the library's own words; Aborted when told to stop.
        """
        self._c: Any = load_binding()
        self._options = options
        self._log: deque[str] = deque(maxlen=20)
        self._quiet()
        self._model = self._load_model(on_progress)
        self._vocab = self._c.llama_model_get_vocab(self._model)
        self.vocabulary_size = int(self._c.llama_vocab_n_tokens(self._vocab))
        self.trained_tokens = int(self._c.llama_model_n_ctx_train(self._model))
        self._abort_flag = ctypes.create_string_buffer(2)
        self._context: Any = None
        self._length = 0
        self._threads = (options.threads or 1, options.prefill_threads or 1)
        self._lora = self._load_lora()
        self.window_tokens = min(options.ctx or self.trained_tokens, self.trained_tokens)
        self._open_context(min(self.window_tokens, FIRST_CONTEXT_TOKENS))
        self._one = (self._c.llama_token * 1)()
        self._piece_buffer = ctypes.create_string_buffer(512)
        # A prototype of our own: the binding's builds a pointer object at each call.
        self._logits_address = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32)(
            ctypes.cast(self._c._lib.llama_get_logits_ith, ctypes.c_void_p).value or 0
        )
        self._row_address, self._row = 0, np.empty(0, np.float32)
        self._controls: tuple[str, ...] | None = None

    # -- loading

    def _quiet(self) -> None:
        log, decode = self._log, bytes.decode

        def keep(level: int, text: bytes, _: object) -> None:
            if level >= LOG_WARN:
                log.append(decode(text, "utf-8", "replace").strip())

        callback = self._c.llama_log_callback(keep)
        _LOG_CALLBACKS.append(callback)
        self._c.llama_log_set(callback, None)
        self._c.llama_backend_init()

    def _load_model(self, on_progress: Callable[[float], bool]) -> Any:
        params = self._c.llama_model_default_params()
        params.n_gpu_layers = self._options.gpu_layers
        stopped = False

        def progress(fraction: float, _: object) -> bool:
            nonlocal stopped
            stopped = not on_progress(fraction)
            return not stopped

        params.progress_callback = self._c.llama_progress_callback(progress)
        if self._options.gpu_layers and not self._c.llama_supports_gpu_offload():
            raise LoadFailed("This build of llama.cpp has no GPU support: gpu_layers must be 0.")
        model = self._c.llama_model_load_from_file(os.fsencode(self._options.path), params)
        if stopped:
            raise Aborted
        if not model:
            raise LoadFailed(self._last_words("the file could not be loaded"))
        return model

    def _load_lora(self) -> Any:
        if not self._options.lora:
            return None
        adapter = self._c.llama_adapter_lora_init(self._model, os.fsencode(self._options.lora))
        if not adapter:
            raise LoadFailed(f"LoRA adapter {self._options.lora}: {self._last_words('not usable')}")
        return adapter

    def _last_words(self, otherwise: str) -> str:
        return "; ".join(line for line in self._log if line) or otherwise

    def _open_context(self, tokens: int) -> None:
        context = self._new_context(min(self.window_tokens, tokens))
        self._context, self.context_tokens = context, int(self._c.llama_n_ctx(context))
        self._memory = self._c.llama_get_memory(context)

    def _new_context(self, tokens: int, sequences: int = 1) -> Any:
        c = self._c
        params = c.llama_context_default_params()
        params.n_ctx = -(-tokens // 256) * 256
        params.n_batch, params.n_ubatch = N_BATCH, N_UBATCH
        params.n_threads, params.n_threads_batch = self._threads
        params.type_k = params.type_v = GGML_TYPES[self._options.kv_type]
        params.n_seq_max, params.kv_unified = sequences, sequences > 1  # unified: they share a prompt
        params.no_perf = True
        context = c.llama_init_from_model(self._model, params)
        if not context:
            raise LoadFailed(f"a context of {tokens:,} tokens: {self._last_words('not enough memory?')}")
        # A C function as the abort callback: strlen of the flag is 0 or 1. A Python
        # one would take the interpreter lock a thousand times a token.
        strlen = ctypes.cast(ctypes.CDLL(None).strlen, c.ggml_abort_callback)
        c.llama_set_abort_callback(context, strlen, ctypes.cast(self._abort_flag, ctypes.c_void_p))
        if self._lora:
            adapters = (c.llama_adapter_lora_p_ctypes * 1)(self._lora)
            scales = (ctypes.c_float * 1)(self._options.lora_scale)
            c.llama_set_adapters_lora(context, adapters, 1, scales)
        return context

    def close(self) -> None:
        if self._context:
            self._c.llama_free(self._context)
            self._context = None
        if self._model:
            self._c.llama_model_free(self._model)
            self._model = None

    # -- what the model is

    def describe(self) -> dict[str, Any]:
        """Facts of the loaded model for ModelInfo."""
        c = self._c
        return {
            "quantization": (c.llama_ftype_name(c.llama_model_ftype(self._model)) or b"").decode(),
            "parameters": int(c.llama_model_n_params(self._model)),
            "file_bytes": int(c.llama_model_size(self._model)),
            "trained_tokens": self.trained_tokens,
            "window_tokens": self.window_tokens,
        }

    def kv_bytes_per_token(self) -> int:
        """Of full attention in every layer: an upper bound for other kinds."""
        c, m = self._c, self._model
        heads = max(1, int(c.llama_model_n_head(m)))
        architecture = self._meta("general.architecture")
        width = int(self._meta(f"{architecture}.attention.key_length") or c.llama_model_n_embd(m) // heads)
        element = {"f32": 4.0, "f16": 2.0, "q8_0": 34 / 32, "q4_0": 18 / 32}[self._options.kv_type]
        return int(2 * int(c.llama_model_n_layer(m)) * int(c.llama_model_n_head_kv(m)) * width * element)

    def build(self) -> str:
        """Version of llama.cpp and the CPU features it was compiled for."""
        return f"{self._c.llama_version().decode()} {self._c.llama_print_system_info().decode()}"

    def _meta(self, key: str) -> str:
        size = 1 << 17  # the longest templates known are about 20 kB
        buffer = ctypes.create_string_buffer(size)
        length = self._c.llama_model_meta_val_str(self._model, key.encode(), buffer, size)
        return buffer.raw[: min(length, size - 1)].decode("utf-8", "replace") if length > 0 else ""

    def template(self) -> str:
        return self._meta("tokenizer.chat_template")

    def special_text(self, which: str) -> str:
        token = {"bos": self._c.llama_vocab_bos, "eos": self._c.llama_vocab_eos}[which](self._vocab)
        return (self._c.llama_vocab_get_text(self._vocab, token) or b"").decode() if token >= 0 else ""

    # -- text and tokens

    def tokenize(self, text: str, *, special: bool, start: bool) -> list[int]:
        tokens = self._tokenize(text, special, start)
        if special or not any(map(self._is_mark, tokens)):
            return tokens
        # llama.cpp reads user-defined tokens always: cut their texts in two.
        marks = "|".join(map(re.escape, self.control_texts()))
        pieces: list[str] = []
        for number, piece in enumerate(re.split(f"({marks})", text)):
            pieces += [piece[:1], piece[1:]] if number % 2 else [piece]
        cut = [self._tokenize(piece, False, False) for piece in pieces if piece]
        return self._tokenize("", False, start) + [token for part in cut for token in part]

    def _tokenize(self, text: str, special: bool, start: bool) -> list[int]:
        data = text.encode("utf-8", "replace")
        size = len(data) + 8
        tokens = (self._c.llama_token * size)()
        count = self._c.llama_tokenize(self._vocab, data, len(data), tokens, size, start, special)
        if count < 0:
            raise ValueError("the text could not be tokenised")
        return list(tokens[:count])

    def piece(self, token: int) -> bytes:
        return self._piece(token, False)

    def _piece(self, token: int, special: bool) -> bytes:
        buffer = self._piece_buffer
        size = self._c.llama_token_to_piece(self._vocab, token, buffer, len(buffer), 0, special)
        if size < 0:
            self._piece_buffer = ctypes.create_string_buffer(-size)
            return self._piece(token, special)
        return buffer.raw[:size]

    def control_texts(self) -> Sequence[str]:
        if self._controls is None:
            c, vocab = self._c, self._vocab
            attributes = ((t, c.llama_vocab_get_attr(vocab, t)) for t in range(self.vocabulary_size))
            wanted = c.LLAMA_TOKEN_ATTR_CONTROL | c.LLAMA_TOKEN_ATTR_USER_DEFINED
            found = [(t, a) for t, a in attributes if a & wanted]
            texts = {self._text(t) for t, a in found if a & c.LLAMA_TOKEN_ATTR_CONTROL or self._is_mark(t)}
            self._controls = tuple(sorted(texts - {""}, key=len, reverse=True))
        return self._controls

    def _is_mark(self, token: int) -> bool:
        """A user-defined token that looks like a control token: some converters write those so."""
        if not self._c.llama_vocab_get_attr(self._vocab, token) & self._c.LLAMA_TOKEN_ATTR_USER_DEFINED:
            return False
        text = self._text(token)
        return text.startswith("<") and text.endswith(">")

    def _text(self, token: int) -> str:
        return (self._c.llama_vocab_get_text(self._vocab, token) or b"").decode("utf-8", "replace")

    def is_end(self, token: int) -> bool:
        return bool(self._c.llama_vocab_is_eog(self._vocab, token))

    def constraint_tokenizer(self) -> Any:
        from llguidance.llamacpp import lltokenizer_from_vocab

        return lltokenizer_from_vocab(self._vocab)

    # -- computing

    def keep(self, count: int) -> int:
        if count >= self._length:
            return self._length
        if not self._c.llama_memory_seq_rm(self._memory, 0, count, -1):
            self._c.llama_memory_clear(self._memory, False)  # a state that cannot be cut
            count = 0
        self._length = count
        return count

    def eval(self, tokens: Sequence[int]) -> None:
        self._make_room(self._length + len(tokens))
        before = self._length
        try:
            for at in range(0, len(tokens), N_BATCH):
                self._decode(tokens[at : at + N_BATCH])
        except Aborted:
            self.keep(before)
            raise

    def _decode(self, tokens: Sequence[int]) -> None:
        array = self._one if len(tokens) == 1 else (self._c.llama_token * len(tokens))()
        array[:] = tokens
        code = self._c.llama_decode(self._context, self._c.llama_batch_get_one(array, len(tokens)))
        if code == 0:
            self._length += len(tokens)
            return
        if not self._c.llama_memory_seq_rm(self._memory, 0, self._length, -1):
            self._c.llama_memory_clear(self._memory, False)
            self._length = 0
        if code == ABORTED:
            raise Aborted
        raise RuntimeError(f"llama_decode failed with {code}: {self._last_words('no reason given')}")

    def _make_room(self, tokens: int) -> None:
        if tokens <= self.context_tokens:
            return
        old, old_tokens, old_memory = self._context, self.context_tokens, self._memory
        state = self._state()
        try:
            self._open_context(max(tokens, 2 * self.context_tokens))
        except LoadFailed:
            self._context, self.context_tokens, self._memory = old, old_tokens, old_memory
            raise
        if self._length:
            self._c.llama_state_seq_set_data(self._context, state, len(state), 0)
        self._c.llama_free(old)

    def _state(self) -> Any:
        """What the tokens seen have left in the cache, as bytes."""
        size = self._c.llama_state_seq_get_size(self._context, 0)
        state = (ctypes.c_uint8 * size)()
        self._c.llama_state_seq_get_data(self._context, state, size, 0)
        return state

    def branches(self, count: int, tokens: int) -> LlamaBranches:
        """A context of its own for the time: one that is always ready for several costs models with a
        sliding window or a recurrent state their cache several times."""
        context = self._new_context(self._length + count * tokens, count)
        decode = self._threads[0]  # a handful of tokens is bound by memory, as one is
        self._c.llama_set_n_threads(context, decode, decode)
        return LlamaBranches(self._c, context, self._state(), count, self._length, self.vocabulary_size)

    def logits(self) -> Logits:
        address = self._logits_address(self._context, -1)
        if address != self._row_address:  # making the array costs more than the rest
            data = (ctypes.c_float * self.vocabulary_size).from_address(address)
            self._row, self._row_address = np.ctypeslib.as_array(data), address
        return self._row

    def set_threads(self, decode: int, prefill: int) -> None:
        if (decode, prefill) != self._threads:
            self._threads = (decode, prefill)
            self._c.llama_set_n_threads(self._context, decode, prefill)

    def abort(self, on: bool) -> None:
        self._abort_flag[0] = b"\1" if on else b"\0"
