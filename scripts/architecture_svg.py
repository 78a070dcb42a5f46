#!/usr/bin/env python3
"""architecture_svg.py [--check] - draws docs/pictures/architecture.svg from the two tables of docs/architecture.md.

The layer table gives the boxes, the table of steps gives the path. --check fails if the picture is not up to date.
"""

import pathlib
import re
import sys
from html import escape

import check_docs
import check_layers

ROOT = pathlib.Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs/pictures/architecture.svg"
WIDTH, LEFT, RIGHT, TOP, ROW, BOX = 980, 44, 600, 44, 56, 46  # the boxes: left, right and top edge, row height, box height
PATH_LEFT, COLUMN = 622, 26  # the path: x of the first step, distance of two steps
LETTER = 6.2  # width of a letter of a job, at most
BRANCHES = {"": "trunk", "a": "one", "b": "two", "c": "three"}
STYLE = """
    text { font: 12px system-ui, sans-serif; fill: #6e7781 }
    .name { font: 600 13px ui-monospace, Menlo, Consolas, monospace; fill: #1f2328 }
    .job { font-size: 11.5px; fill: #4d5761 }
    .layer { text-anchor: middle; dominant-baseline: central }
    .band { fill: #808890; opacity: .1 }
    .box { fill: #eef1f4; stroke: #8c959f }
    .used { fill: #dbe9fb; stroke: #2f6fdb; stroke-width: 1.5 }
    .line { fill: none; stroke-width: 2 }
    .up { stroke-dasharray: 4 3 }
    .step { font: 600 9.5px system-ui, sans-serif; fill: #fff; text-anchor: middle; dominant-baseline: central }
    .trunk { stroke: #57606a } .one { stroke: #15803d } .two { stroke: #2f6fdb } .three { stroke: #c2410c }
    circle.trunk { fill: #57606a } circle.one { fill: #15803d } circle.two { fill: #2f6fdb } circle.three { fill: #c2410c }
    @media (prefers-color-scheme: dark) {
      text { fill: #9da7b1 }
      .name { fill: #e6edf3 }
      .job { fill: #b1bac4 }
      .box { fill: #22272e; stroke: #6e7681 }
      .used { fill: #182f4f; stroke: #4c8df0 }
      .step { fill: #fff }
      path.trunk { stroke: #8b949e }
    }
"""


def shorten(job, width):
    """Returns as much of a module's job as fits, cut where a part of the sentence ends."""
    text = re.sub(r" \([^)]*\)", "", job).replace("`", "")
    if len(text) * LETTER <= width:
        return text
    ends = [m.start() for m in re.finditer(r"[:;,]", text)]
    fitting = [end for end in ends if end * LETTER <= width]
    return text[: fitting[-1] if fitting else ends[0] if ends else None]


def draw_layers(layers, used):
    for row, modules in enumerate(layers.values()):
        top = TOP + row * ROW
        yield f'<rect class="band" x="0" y="{top - 3}" width="{WIDTH}" height="{BOX + 6}" rx="6"/>'
        yield f'<text class="layer" x="{LEFT / 2}" y="{top + BOX / 2}">{modules[0].layer}</text>'
        width = (RIGHT - LEFT - 8 * (len(modules) - 1)) / len(modules)
        for i, module in enumerate(modules):
            x = LEFT + i * (width + 8)
            kind = "box used" if module.name in used else "box"
            yield f'<rect class="{kind}" x="{x:.1f}" y="{top}" width="{width:.1f}" height="{BOX}" rx="6"/>'
            yield f'<text class="name" x="{x + 10:.1f}" y="{top + 19}">{escape(module.name)}</text>'
            yield f'<text class="job" x="{x + 10:.1f}" y="{top + 36}">{escape(shorten(module.job, width - 20))}</text>'


def branch_of(label):
    return label.lstrip("0123456789")


def place_steps(steps, layers):
    """Returns (label, x, y) of each step. Branches follow each other from left to right."""
    rows = {layer: TOP + i * ROW + BOX / 2 for i, layer in enumerate(layers)}
    ordered = sorted(steps, key=lambda step: branch_of(step[0]))
    return [(label, PATH_LEFT + i * COLUMN, rows[module.layer]) for i, (label, module) in enumerate(ordered)]


def draw_path(places):
    trunk = [place for place in places if place[0].isdigit()]
    lines, dots = [], []
    for branch, kind in BRANCHES.items():
        own = [place for place in places if branch_of(place[0]) == branch]
        chain = own if not branch else trunk[-1:] + own
        for (_, x0, y0), (_, x1, y1) in zip(chain, chain[1:], strict=False):
            up = " up" if y1 < y0 else ""
            lines.append(f'<path class="line {kind}{up}" d="M{x0} {y0:g} L{x1} {y1:g}"/>')
        for label, x, y in own:
            dots.append(f'<circle class="{kind}" cx="{x}" cy="{y:g}" r="9.5"/><text class="step" x="{x}" y="{y:g}">{label}</text>')
    return lines + dots


def draw_legend(text, bottom):
    found = re.findall(r"\b([a-z]) is (?:an? )?([\w ]+?)(?=[,.])", re.search(r"Steps with a letter[^.]*\.", text)[0])
    x = LEFT
    for branch, meaning in found:
        yield f'<circle class="{BRANCHES[branch]}" cx="{x + 8}" cy="{bottom}" r="6"/>'
        yield f'<text x="{x + 20}" y="{bottom + 4}">{branch}: {escape(meaning)}</text>'
        x += 150
    yield f'<path class="line trunk up" d="M{x} {bottom} L{x + 34} {bottom}"/>'
    yield f'<text x="{x + 42}" y="{bottom + 4}">call through a table of functions</text>'


def draw():
    tree = check_layers.Tree(ROOT)
    layers = {}
    for module in tree.modules.values():
        layers.setdefault(module.layer, []).append(module)
    steps = [(step.label, tree.module_of(ROOT / step.file)) for step in check_docs.read_steps(ROOT)]
    used = {module.name for _, module in steps}
    height = TOP + len(layers) * ROW + 36
    name = check_docs.read_steps(ROOT)[0].function
    title = f'<text x="{PATH_LEFT - 9}" y="22">path of {escape(name)}</text><text x="{LEFT}" y="22">modules by layer</text>'
    body = [title, *draw_layers(layers, used), *draw_path(place_steps(steps, layers))]
    body += draw_legend((ROOT / check_layers.TABLE).read_text(), height - 22)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" role="img" '
        f'aria-label="The modules of muster by layer, and the path of {escape(name)} through them">'
    )
    return "\n".join([head, f"  <style>{STYLE}  </style>", *("  " + line for line in body), "</svg>", ""])


def main():
    text = draw()
    if sys.argv[1:] == ["--check"]:
        if not PICTURE.exists() or PICTURE.read_text() != text:
            sys.exit("docs/pictures/architecture.svg is not up to date: run scripts/architecture_svg.py")
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        PICTURE.write_text(text)


if __name__ == "__main__":
    main()
