"""Our Markdown as plain text: readable, complete, and without a word that calls somebody."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitflowstate import marker, plaintext, prose

MESSAGE = f"""\
{marker.line("f-1", "status", 4)}
## f-1 is **running**

Progress: 3 \\* 4 is 12, `code` &amp; more &lt;b&gt;

| Task | State |
| --- | :---: |
| a \\| b | [x] **done** |
| see [the page](https://example.org/a_b) | two<br>lines |

<details><summary>12 more</summary>

> quoted

```mermaid
graph TD
  a --> b
```

</details>


*End*
"""


def test_markup_is_gone_and_every_word_is_there():
    assert plaintext.plain(MESSAGE) == (
        "f-1 is running\n\n"
        "Progress: 3 * 4 is 12, code & more <b>\n\n"
        "Task | State\na | b | [x] done\n"
        "see the page (https://example.org/a_b) | two lines\n\n"
        "12 more\n\n> quoted\n\n*End*"
    )


@given(st.text(max_size=200))
def test_what_a_user_wrote_comes_back_as_it_was_made_inert(text):
    """What `prose.markdown` escapes is exactly what is taken back, but for runs of white space."""
    line = prose.markdown(text)
    plain = plaintext.plain(f"{marker.line('f-1', 'final', 1)}\n\n{line}")
    again = prose.markdown(plain)
    assert re.sub(r"\s+", " ", again).strip() == re.sub(r"\s+", " ", line).strip()


@pytest.mark.req("F3")
@pytest.mark.parametrize(
    "text",
    ["@everyone", "<!channel>", "<!here|x>", "<@U012AB3CD>", "<#C01>", "<@&12>", "a@b.example"],
)
def test_f3_a_quiet_text_calls_nobody(text):
    for quiet in (plaintext.quiet(text), plaintext.quiet(plaintext.plain(prose.markdown(text)))):
        assert re.search(r"[@<]\S", quiet) is None
        assert quiet.replace(" ", "") == text
        assert plaintext.quiet(quiet) == quiet


@given(st.text(alphabet="`*[]()<>|\\&;#-_ab \n", max_size=300))
def test_any_text_becomes_plain_text(text):
    assert "\n\n\n" not in plaintext.plain(text)


def test_only_a_diagram_that_ends_is_left_out():
    fence = "```"
    assert plaintext.plain(f"a\n{fence}mermaid\nx\n{fence}\nb\n{fence}mermaid\nc") == "a\nb\nc"
    assert plaintext.plain(f"a\n{fence}\nx\n{fence}\nb") == "a\nx\nb"


def test_it_is_linear():
    for unit in ("[", "<a", "|-", "\\", "&a", "`", "[a](", "<!--", "# ", "```mermaid\\n"):
        plaintext.plain(unit * 60_000)
