"""A plan as a picture: SVG, operators as boxes, edges in the colour of their update pattern."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from xml.sax.saxutils import escape

from sash.plan.explain.shared import sharing
from sash.plan.explain.tree import Explained, Step

COLOURS = {"MON": "#4f8a5b", "WKS": "#2f6f9f", "WK": "#b07a1e", "STR": "#b5533c"}
_WIDTH, _LINE, _GAP_X, _GAP_Y, _PAD = 330, 16, 30, 44, 20
_CHARACTERS = 50


@dataclass(slots=True)
class _Box:
    step: Step
    lines: list[str]
    inputs: list[_Box]
    x: float = 0.0
    y: float = 0.0

    @property
    def height(self) -> int:
        return 14 + _LINE * len(self.lines)

    @property
    def span(self) -> float:
        """The width of the tree below."""
        inner = sum(box.span for box in self.inputs) + _GAP_X * max(0, len(self.inputs) - 1)
        return max(_WIDTH, inner)


def to_svg(explained: Explained) -> str:
    """The picture of one query's plan, roots at the top."""
    root = _box(explained.tree)
    _place(root, _PAD, 56)
    boxes = list(_all(root))
    width = root.span + 2 * _PAD
    height = max(box.y + box.height for box in boxes) + 40
    size = f'width="{width:.0f}" height="{height:.0f}"'
    title = f"{explained.name}: strategy {explained.strategy}, cost {explained.cost:,.0f} a second"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {width:.0f} {height:.0f}" '
        'font-family="DejaVu Sans, Arial, sans-serif" font-size="12">',
        f'<rect {size} fill="#ffffff"/>',
        _text(_PAD, 24, title, True),
        *_legend(),
    ]
    for box in boxes:
        parts.extend(_edge(box, child) for child in box.inputs)
    for box in boxes:
        parts.extend(_drawn(box))
    return "\n".join([*parts, "</svg>\n"])


def _box(step: Step) -> _Box:
    lines = [step.operator, *_wrapped(step.detail), *_wrapped(step.implementation)]
    for held in step.state:
        lines.extend(_wrapped(f"⌸ {held}"))
    if sharing(step):
        lines.extend(_wrapped(f"⧉ {sharing(step)}"))
    return _Box(step, lines, [_box(child) for child in step.inputs])


def _wrapped(text: str) -> Iterator[str]:
    while len(text) > _CHARACTERS:
        cut = text.rfind(" ", 0, _CHARACTERS)
        cut = cut if cut > 0 else _CHARACTERS
        yield text[:cut]
        text = text[cut:].lstrip()
    if text:
        yield text


def _place(box: _Box, x: float, y: float) -> None:
    box.x, box.y = x + (box.span - _WIDTH) / 2, y
    left = x
    for child in box.inputs:
        _place(child, left, y + box.height + _GAP_Y)
        left += child.span + _GAP_X


def _all(box: _Box) -> Iterator[_Box]:
    yield box
    for child in box.inputs:
        yield from _all(child)


def _drawn(box: _Box) -> Iterator[str]:
    yield (
        f'<rect x="{box.x:.0f}" y="{box.y:.0f}" width="{_WIDTH}" height="{box.height}" rx="5" '
        f'fill="#f6f7f9" stroke="{COLOURS[box.step.pattern]}" stroke-width="1.5"/>'
    )
    for number, line in enumerate(box.lines):
        yield _text(box.x + 10, box.y + 20 + _LINE * number, line, number == 0)


def _edge(box: _Box, child: _Box) -> str:
    colour = COLOURS[child.step.pattern]
    x, y = child.x + _WIDTH / 2, child.y
    to_x, to_y = box.x + _WIDTH / 2, box.y + box.height
    rate = child.step.rate
    label = f"{child.step.pattern}  {rate:,.0f}/s" if rate >= 10 else f"{child.step.pattern}  {rate:.2g}/s"
    line = f'<line x1="{x:.0f}" y1="{y:.0f}" x2="{to_x:.0f}" y2="{to_y:.0f}"'
    # Beside the line, on the side to which it does not lean.
    side, anchor = (x - 8, "end") if to_x > x else (x + 8, "start")
    style = f'fill="{colour}" font-weight="bold" text-anchor="{anchor}"'
    text = f'<text x="{side:.0f}" y="{y - 8:.0f}" {style}>{escape(label)}</text>'
    return f'{line} stroke="{colour}" stroke-width="2.5"/>{text}'


def _legend() -> Iterator[str]:
    for number, (name, colour) in enumerate(COLOURS.items()):
        x = _PAD + 60 * number
        yield f'<line x1="{x}" y1="40" x2="{x + 18}" y2="40" stroke="{colour}" stroke-width="3"/>'
        yield f'<text x="{x + 22}" y="44" fill="{colour}">{name}</text>'


def _text(x: float, y: float, text: str, is_bold: bool = False) -> str:
    weight = ' font-weight="bold"' if is_bold else ""
    return f'<text x="{x:.0f}" y="{y:.0f}" fill="#22303c"{weight}>{escape(text)}</text>'
