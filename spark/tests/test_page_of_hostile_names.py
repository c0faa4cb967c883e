"""Names that peers chose are text in the report: no tags, no scripts, no control characters."""

from lanemq.spark.jobs._page import Page, draw

HOSTILE = "</script><script>alert(1)</script><b>\n\x1b[2J\u202e&"


def test_names_are_escaped() -> None:
    page = Page(
        source=HOSTILE,
        messages=1,
        size_bytes=1,
        topics=1,
        first_s=None,
        last_s=None,
        step_s=60,
        rates={HOSTILE: {0: 1.0}},
        topic_bytes={HOSTILE: 1},
        sizes={64: 1},
        tags={HOSTILE: 1},
        lags=[],
        stages=[],
    )
    html = draw(page)
    assert "<script>alert" not in html
    assert "<b>" not in html.split("</script>", 1)[1]
    assert "\x1b" not in html
    assert "\u202e" not in html.split("</script>", 1)[1]
