import pytest

from speedtrack.ground.texts.ansi import spans


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("", []),
        ("plain", [("plain", "")]),
        ("\x1b[31mred\x1b[0m not", [("red", "red"), (" not", "")]),
        ("\x1b[1;32mboth\x1b[22mgreen\x1b[39mnone", [("both", "bold green"), ("green", "green"), ("none", "")]),
        ("\x1b[91mbright", [("bright", "red")]),
        ("\x9b34mblue", [("blue", "blue")]),
        ("\x1b[38;5;3mthree\x1b[38;5;200mnameless", [("three", "yellow"), ("nameless", "")]),
        ("\x1b[38;2;31;32;33mdirect \x1b[48;2;1;2;3;4munderlined", [("direct ", ""), ("underlined", "underlined")]),
        ("\x1b[mreset\x1b[;;m", [("reset", "")]),
        ("\x1b[3;4;2mall\x1b[23;24m", [("all", "italic soft underlined")]),
        ("10%\r20%\r100%\r", [("100%", "")]),
    ],
)
def test_colours_become_styles(line: str, shown: list[tuple[str, str]]) -> None:
    assert spans(line) == shown


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("\x1b]0;title\x07a", "a"),  # the title of the window
        ("\x1b]8;;http://evil.example\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]52;c;ZXZpbA==", ""),  # the clipboard, without an end
        ("a\x1b[2Jb\x1b[1;1Hc", "abc"),
        ("\x00\x01a\x7f\x85", "a"),
        ("safe\u202etxt.exe\u2066\u200f", "safetxt.exe"),
        ("\x1b[31", "[31"),
        ("\x1b[" + "1;" * 500 + "mx", "x"),
        ("\x1b[99999999999999999999mx", "x"),
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),
    ],
)
def test_whatever_a_line_holds_only_text_is_left(line: str, shown: str) -> None:
    assert "".join(text for text, _ in spans(line)) == shown
