"""What containers and log shippers do to a line."""

import json

import pytest

from service.domain.logs import LogReading, read, read_text

GIB = 1 << 30


def said(reading: LogReading, name: str) -> object:
    return reading.said[name].value if name in reading.said else None


class TestCarriers:
    """What containers and shippers do to a line."""

    TEXT = "(EngineCore pid=1) INFO 01-01 00:00:00 [x.py:1] Available KV cache memory: 2.00 GiB"

    @pytest.mark.parametrize(
        "line",
        [
            TEXT,
            f"2025-07-12T06:00:10.123456789Z stdout F {TEXT}",
            f"2025-07-12T06:00:10.123456789Z {TEXT}",
            f"Nov 02 04:20:48 node7 vllm[178]: {TEXT}",
            f"vllm-1  | {TEXT}",
            f"[pod/vllm-0/main] {TEXT}",
            f"\x1b[1;36m{TEXT[:20]}\x1b[0;0m{TEXT[20:]}",
            json.dumps({"log": TEXT + "\n", "stream": "stdout"}),
            json.dumps({"line": TEXT}),
            json.dumps({"fields": {"message": TEXT}}),
            TEXT + " [repeated 3x across cluster] (Ray deduplicates logs by default.)",
            TEXT + "\r",
            "\ufeff" + TEXT,
            "\0\0\0" + TEXT,
        ],
    )
    def test_a_prefix_is_taken_off(self, line: str) -> None:
        assert said(read([line + "\n"]), "kv_cache_bytes") == 2 * GIB

    @pytest.mark.parametrize(
        "line", ['{"log": 5}', '["a"]', '{"log": ', "{}", '{"fields": {"other": "x"}}', "{" * 5000]
    )
    def test_json_without_a_message_is_text(self, line: str) -> None:
        assert read([line]).engine is None

    def test_a_line_in_pieces_is_put_together(self) -> None:
        begin = "2025-07-12T06:00:10.123456789Z stderr"
        text = "non-default args: {'x': '" + "x" * 16384 + "', 'max_model_len': 4096}"

        assert said(read([f"{begin} P {text[:16384]}", f"{begin} F {text[16384:]}"]), "context_limit_tokens") == 4096

    def test_a_piece_that_was_cut_spoils_its_line(self) -> None:
        begin = "2025-07-12T06:00:10.123456789Z stderr"

        assert read([f"{begin} P {self.TEXT[:50]}", f"{begin} F {self.TEXT[50:]}"]).engine is None
        assert read([f"{begin} P short", f"{begin} F end", f"{begin} F {self.TEXT}"]).engine == "vllm"

    def test_pieces_without_end_are_not_kept(self) -> None:
        piece = json.dumps({"log": "x" * 16384, "stream": "stdout"})

        assert read([piece] * 200).lines == 200

    def test_lines_whose_ends_a_shipper_took_off_are_lines(self) -> None:
        texts = ["INFO before", self.TEXT, "", "INFO after"]
        lines = [json.dumps({"stream": "stdout", "log": text}) for text in texts]

        assert said(read(lines), "kv_cache_bytes") == 2 * GIB
        assert read_text(["\n".join(lines)]) == read([f"{line}\n" for line in lines])

    def test_a_short_piece_is_the_rest_of_a_long_one_whose_end_a_shipper_took_off(self) -> None:
        text = "non-default args: {'x': '" + "x" * 16384 + "', 'max_model_len': 4096}"
        texts = ["INFO before", "INFO more", text[:16384], text[16384:], "INFO after"]

        reading = read([json.dumps({"stream": "stdout", "log": text}) for text in texts])

        assert said(reading, "context_limit_tokens") == 4096

    def test_streams_without_end_are_not_kept(self) -> None:
        lines = [f"2025-07-12T06:00:10.123456789Z {stream} P {'x' * 9000}" for stream in ("stdout", "stderr")]

        assert read(lines * 3).engine is None
