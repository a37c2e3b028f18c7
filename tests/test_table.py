"""Reading anyone's CSV, or saying which line is wrong and what to write instead."""

import pytest

from pykvbench.analysis.table import read_table
from pykvbench.errors import RunFileError


@pytest.mark.parametrize("unit, scale", [("time_s", 1e9), ("time_ms", 1e6), ("time_us", 1e3), ("time_ns", 1.0)])
def test_units(unit, scale):
    table = read_table(f"length,{unit}\n128,2.5\n256,3\n")
    assert table.kind == "length"
    assert table.x.tolist() == [128, 256]
    assert table.time_ns.tolist() == [2.5 * scale, 3 * scale]
    assert table.sweep is None and table.order is None


def test_bom_case_comments_blank_lines_other_columns_and_repeats_are_tolerated():
    text = (
        "\ufeff# a comment, with a comma\n\n Budget ,Time_S,note,SWEEP,order\r\n"
        '512, 89.2,"slow, very",1,2\n\n#x\n512,83,,2,1\n'
    )
    table = read_table(text)
    assert (table.kind, table.x.tolist(), table.time_ns.tolist()) == ("budget", [512, 512], [89.2e9, 83e9])
    assert (table.sweep.tolist(), table.order.tolist()) == ([1, 2], [2, 1])


@pytest.mark.parametrize("delimiter", ["\t", ";", " ; "])
def test_tabs_and_semicolons_separate_where_the_header_has_no_comma(delimiter):
    table = read_table(f"# made by hand, once\nlength{delimiter}time_ms\n128{delimiter}2.5\n")
    assert (table.x.tolist(), table.time_ns.tolist()) == ([128], [2.5e6])


def test_a_path_is_read(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"\xef\xbb\xbflength,time_ms\n1,2\n")
    assert read_table(path).x.tolist() == read_table(str(path)).x.tolist() == [1]


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "the table is empty; write a header such as length,time_ms"),
        ("\n\n", "the table is empty"),
        ("length,time_ms\n", "the table has a header and no rows"),
        ("len,time_ms\n1,2\n", "no column length or budget for which lengths were timed"),
        ("length,time\n1,2\n", "no column time_ns, time_us, time_ms or time_s for the times"),
        ("length,budget,time_ms\n1,1,2\n", "has the columns length and budget; keep one"),
        ("length,time_ms,time_s\n1,1,2\n", "has the columns time_ms and time_s; keep one"),
        ("length,length,time_ms\n1,1,2\n", "two columns named length"),
        ("length,time_ms\n1,2\n2,fast\n", "line 3: time_ms is 'fast', not a number"),
        ("length,time_ms\n1,2\n2\n", "line 3: time_ms is missing"),
        ("# c\nlength,time_ms\n\n1,0\n", "line 4: time_ms is 0; times must be finite and above 0"),
        ("length,time_ms\n1,-3\n", "line 2: time_ms is -3"),
        ("length,time_ms\n1,nan\n", "line 2: time_ms is nan"),
        ("length,time_ms\n1,inf\n", "line 2: time_ms is inf"),
        ("length,time_s\n1,1e300\n", "line 2: time_s is 1e+300; no step takes less than a picosecond or more than"),
        ("length,time_s\n1,1e-300\n", "line 2: time_s is 1e-300; no step takes less than a picosecond or more than"),
        ("length;time_ms\n1;1,5\n", "line 2: time_ms is '1,5', not a number; write digits with a point"),
        ("length,time_ms\n1.5,2\n", "line 2: length is 1.5; write a whole number, such as 421."),
        ("length,time_ms\n-1,2\n", "line 2: length is -1"),
        ("length,time_ms\ninf,2\n", "line 2: length is inf"),
        ("length,time_ms,sweep\n1,2,a\n", "line 2: sweep is 'a'"),
    ],
)
def test_errors_name_the_line_and_the_remedy(text, message):
    with pytest.raises(RunFileError) as error:
        read_table(text)
    assert message in str(error.value)
    assert str(error.value).endswith(".")


def test_an_unreadable_file_is_one_sentence(tmp_path):
    with pytest.raises(RunFileError, match="cannot be read"):
        read_table(tmp_path / "absent.csv")
    binary = tmp_path / "b.csv"
    binary.write_bytes(b"length,\xff\xfe\n")
    with pytest.raises(RunFileError, match="not text in UTF-8"):
        read_table(binary)


def test_rows_after_different_prompts_are_taken_as_repeats_and_said_to_be():
    same = read_table("budget,prompt,time_s\n128,65,1\n256,65,2\n")
    assert same.notes == ()
    mixed = read_table("budget,prompt,time_s\n128,3,1\n128,65,1\n256,65,2\n")
    assert mixed.notes == (
        "rows after 2 different prompts were taken as repeats; give a table for each prompt to tell them apart.",
    )
