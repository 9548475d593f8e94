"""How values of one engine's log belong together."""

import pytest

from service.domain.logs import LogReading, read

GIB = 1 << 30


def said(reading: LogReading, name: str) -> object:
    return reading.said[name].value if name in reading.said else None


def reasons(reading: LogReading, name: str) -> str:
    return "; ".join(each.reason for each in reading.left_out if name in each.what)


class TestSglang:
    ARGS = "server_args=ServerArgs(model_path='{model}', tp_size=1, pp_size=1, dp_size=1, speculative_algorithm={spec})"
    BEGIN, END = (
        "Load weight begin. avail mem=20.00 GB",
        "Load weight end. type={kind}, dtype=torch.bfloat16, avail mem=15.00 GB, mem usage=5.00 GB.",
    )
    CACHE, POOL = (
        "KV Cache is allocated. #tokens: 100, K size: 2.00 GB, V size: 2.00 GB",
        "Memory pool end. avail mem={free} GB",
    )

    def lines(
        self, *, model: str = "m", spec: str = "None", kind: str = "LlamaForCausalLM", free: str = "10.50"
    ) -> list[str]:
        return [
            self.ARGS.format(model=model, spec=spec),
            self.BEGIN,
            self.END.format(kind=kind),
            self.CACHE,
            self.POOL.format(free=free),
        ]

    def test_states_of_guessed_tokens_are_missed_where_there_is_a_drafter(self) -> None:
        states = "Mamba Cache is allocated. max_mamba_cache_size: 43, conv_state size: 0.50GB, ssm_state size: 1.50GB"
        alone, drafted = self.lines(), self.lines(spec="'NEXTN'")

        assert said(read([*alone[:3], states, *alone[3:]]), "state_bytes") == 2 * GIB
        assert "guessed" in reasons(read([*drafted, states]), "state_bytes")

    def test_keys_and_values_are_one_cache(self) -> None:
        assert said(read(self.lines()), "kv_cache_bytes") == 4 * GIB

    @pytest.mark.parametrize(
        "change, reason",
        [
            ({"spec": "'EAGLE'"}, "a drafter has a cache too"),
            ({"kind": "GptOssForCausalLM"}, "windows"),
            ({"model": "openai/gpt-oss-20b"}, "windows"),
            ({"free": "2.00"}, "another cache is missing"),
        ],
    )
    def test_a_cache_that_may_be_one_of_several_is_left_out(self, change: dict[str, str], reason: str) -> None:
        assert reason in reasons(read(self.lines(**change)), "kv_cache_bytes")

    def test_a_cache_that_is_cut_may_be_the_other_half(self) -> None:
        assert "another cache" in reasons(read([*self.lines(), self.CACHE[:60]]), "kv_cache_bytes")

    def test_a_log_that_ends_with_the_cache_may_go_on_with_another(self) -> None:
        assert "the log ends" in reasons(read(self.lines()[:-1]), "kv_cache_bytes")

    def test_two_caches_that_are_no_pair_are_not_added(self) -> None:
        assert "more than one cache" in reasons(
            read([*self.lines(), self.CACHE.replace("2.00", "1.00")]), "kv_cache_bytes"
        )

    def test_a_cache_alone_may_be_a_drafters(self) -> None:
        assert "drafter" in reasons(read([self.CACHE, self.POOL.format(free="1.00")]), "kv_cache_bytes")

    def test_a_line_of_loading_alone_may_be_a_drafters(self) -> None:
        assert "drafter" in reasons(read([self.BEGIN]), "free_before_bytes")
        assert "drafter" in reasons(read([self.lines(spec="'EAGLE'")[0], self.BEGIN]), "free_before_bytes")

    def test_loadings_that_do_not_add_up_are_of_two_starts(self) -> None:
        assert read([line.replace("mem=20.00", "mem=40.00") for line in self.lines()]).said == {}

    def test_releases_without_the_memory_used_have_only_to_go_down(self) -> None:
        end = self.END.format(kind="X").replace(", mem usage=5.00 GB", "")

        lines = ["", *(f"[2025-01-01 00:00:00] {line}" for line in (self.BEGIN, end))]

        assert said(read(lines), "free_before_bytes") == 20 * GIB
        assert said(read([line.replace("=20.00", "=10.00") for line in lines]), "free_before_bytes") is None

    def test_a_lone_line_without_a_rank_may_have_lost_it(self) -> None:
        assert said(read(["", self.BEGIN, "Load weight end. cut"]), "free_before_bytes") is None

    def test_settings_without_a_word_of_drafts_have_none(self) -> None:
        lines = ["server_args=ServerArgs(model_path='m', tp_size=1, pp_size=1, dp_size=1)", *self.lines()[1:]]

        assert said(read(lines), "kv_cache_bytes") == 4 * GIB

    def test_attention_in_parallel_has_the_ranks_of_tensor_parallelism(self) -> None:
        args = "server_args=ServerArgs(model_path='m', tp_size=2, pp_size=1, dp_size=2, enable_dp_attention=True)"
        lines = [
            f"[2025-01-01 00:00:0{rank} DP{rank} TP{rank}] Load weight begin. avail mem=20.00 GB" for rank in (0, 1)
        ]

        assert said(read([args, *lines]), "free_before_bytes") == 20 * GIB


class TestTensorrtLlm:
    CACHE = "[TensorRT-LLM][INFO] [MemUsageChange] Allocated {size} GiB for max tokens in paged KV cache ({tokens})."
    FREE = (
        "[TensorRT-LLM][INFO] Memory usage when calculating max tokens in paged kv cache: total: 79.10 GiB, available:"
        " 70.48 GiB"
    )

    def test_a_cache_alone_may_be_the_one_to_measure_with(self) -> None:
        assert "to measure with" in reasons(read([self.CACHE.format(size="1.00", tokens=64)]), "kv_cache_bytes")

    def test_ranks_without_names_that_differ_are_left_out(self) -> None:
        lines = [self.FREE, self.CACHE.format(size="1.00", tokens=64), self.CACHE.format(size="2.00", tokens=128)]

        assert "smallest of all" in reasons(read(lines), "kv_cache_bytes")

    def test_the_cache_before_the_estimate_is_not_the_one_that_stays(self) -> None:
        lines = [self.CACHE.format(size="1.00", tokens=64), "[TRT-LLM] [I] Estimated max memory in KV cache : 2.00 GiB"]

        assert "which of the caches" in reasons(read(lines), "kv_cache_bytes")

    def test_an_engine_has_no_pytorch_backend(self) -> None:
        lines = ["[TRT-LLM] [I] Using LLM with PyTorch backend", "[TensorRT-LLM][INFO] Loaded engine size: 6695 MiB"]

        assert read(lines).said == {}

    def test_ranks_with_names_do_not_speak_for_the_others(self) -> None:
        line = (
            "[1,0]<stdout>:[TensorRT-LLM][INFO] Max KV cache blocks per sequence: 5 [window size=64], tokens per"
            " block=32, primary blocks=9, secondary blocks=0"
        )

        reading = read([f"[1,0]<stdout>:{self.FREE}", line])
        assert said(reading, "blocks") is None


_TARGET = [
    "build: 6500 (abcdef12) with cc for x86_64-linux-gnu",
    "ggml_cuda_init: found 1 CUDA devices:",
    "llama_model_loader: loaded meta data with 30 key-value pairs and 310 tensors from /m/target.gguf (version 3)",
    "load_tensors: offloaded 33/33 layers to GPU",
    "load_tensors:        CUDA0 model buffer size =  200.00 MiB",
    "llama_context: n_ctx         = 4096",
    "llama_kv_cache:      CUDA0 KV buffer size =     8.00 MiB",
    "llama_kv_cache: size =    8.00 MiB (  4096 cells,  32 layers,  1/1 seqs), K (f16): 4.00 MiB, V (f16): 4.00 MiB",
    "llama_context:      CUDA0 compute buffer size =   9.00 MiB",
]
_DRAFTERS_CONTEXT = [
    "llama_context: n_ctx         = 4096",
    "llama_kv_cache:      CUDA0 KV buffer size =     2.00 MiB",
    "llama_kv_cache: size =    2.00 MiB (  4096 cells,  28 layers,  1/1 seqs), K (f16): 1.00 MiB, V (f16): 1.00 MiB",
    "llama_context:      CUDA0 compute buffer size =   3.00 MiB",
]
_LOADED_DRAFTER = [
    "srv    load_model: loading draft model '/m/draft.gguf'",
    "llama_model_loader: loaded meta data with 28 key-value pairs and 290 tensors from /m/draft.gguf (version 3)",
    "load_tensors: offloaded 29/29 layers to GPU",
    "load_tensors:        CUDA0 model buffer size =   60.00 MiB",
    *_DRAFTERS_CONTEXT,
]
_DRAFTER_WITHIN = [
    "srv    load_model: creating MTP draft context against the target model '/m/target.gguf'",
    *_DRAFTERS_CONTEXT,
]


class TestLlamaCpp:
    def test_parts_of_one_device_are_not_guessed_at(self) -> None:
        lines = [f"load_tensors:        CUDA0 model buffer size = {size}.00 MiB" for size in (10, 20)]

        assert "more than one part" in reasons(read(lines), "weight_bytes")

    def test_a_second_model_is_the_drafters(self) -> None:
        lines = ["srv load_model: loading draft model '/m/d.gguf'", "load_tensors: CUDA0 model buffer size = 20.00 MiB"]

        assert "draft" in reasons(read(["build: 5000 (abc) with cc", *lines]), "weight_bytes")

    @pytest.mark.parametrize("drafter", [_LOADED_DRAFTER, _DRAFTER_WITHIN], ids=["a-file-of-its-own", "within"])
    def test_what_follows_a_drafter_is_no_second_start(self, drafter: list[str]) -> None:
        reading = read([*_TARGET, *drafter])

        assert (reading.starts, reading.version) == (1, "6500")
        assert any("draft model" in each for each in reading.warnings)
        assert said(reading, "model") == "/m/target.gguf"
        assert said(reading, "kv_cache_bytes") == 8 << 20
        assert said(reading, "activation_bytes") == 9 << 20

    @pytest.mark.parametrize("drafter", [_LOADED_DRAFTER, _DRAFTER_WITHIN], ids=["a-file-of-its-own", "within"])
    def test_a_model_named_after_the_drafter_is_of_another_start(self, drafter: list[str]) -> None:
        reading = read([*_TARGET, *drafter, *(line.replace("target", "another") for line in _TARGET[2:])])

        assert reading.starts == 2

    @pytest.mark.parametrize("kept, states_bytes", [(0, 50 << 20), (3, None)])
    def test_states_that_take_drafts_back_are_left_out(self, kept: int, states_bytes: int | None) -> None:
        states = [
            "llama_memory_recurrent:      CUDA0 RS buffer size =    50.00 MiB",
            f"llama_memory_recurrent: size =   50.00 MiB (     1 cells,  32 layers,  1 seqs {kept:2} rs_seq), R (f32)",
        ]

        reading = read([*_TARGET[:-1], *states, _TARGET[-1]])

        assert said(reading, "kv_cache_bytes") == 8 << 20
        assert said(reading, "state_bytes") == states_bytes
        assert ("4 for each sequence" in reasons(reading, "state_bytes")) == (kept > 0)

    def test_two_contexts_are_of_two_starts(self) -> None:
        lines = [
            "llama_context: n_ctx         = 4096",
            "llama_kv_cache: size = 8.00 MiB ( 4096 cells, 2 layers, 1/1 seqs), K (f16)",
        ]

        assert read(["build: 5000 (abc) with cc", *lines, *lines]).said == {}

    def test_layers_without_a_cache_are_missing(self) -> None:
        lines = [
            "ggml_cuda_init: found 1 CUDA devices:",
            "load_tensors: offloaded 33/33 layers to GPU",
            "llama_context: n_ctx         = 4096",
            "llama_kv_cache:      CUDA0 KV buffer size =     8.00 MiB",
            "llama_kv_cache: size =    8.00 MiB (  4096 cells,  {layers} layers,  1/1 seqs), K (f16): 4.00 MiB",
            "llama_context:      CUDA0 compute buffer size =   9.00 MiB",
        ]

        assert said(read([line.format(layers=32) for line in lines]), "kv_cache_bytes") == 8 << 20
        assert "a line is missing" in reasons(read([line.format(layers=16) for line in lines]), "kv_cache_bytes")


def test_a_second_model_of_ollama_keeps_what_was_said_of_the_machine() -> None:
    listening = 'msg="Listening on 127.0.0.1:11434 (version 0.12.6)"'
    model = ['msg="starting runner" cmd=x', 'msg="kv cache" device=CUDA0 size="{size} GiB"']

    reading = read([listening, *(line.format(size=1) for line in model), *(line.format(size=2) for line in model)])

    assert (reading.version, reading.starts) == ("0.12.6", 2)
    assert said(reading, "kv_cache_bytes") == 2 * GIB
