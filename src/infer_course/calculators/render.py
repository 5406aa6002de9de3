"""A calculator as HTML. The only renderer: the build writes the default state with it, the page every other one. All text is escaped."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape

from infer_course.calculators.fields import Field, Read
from infer_course.calculators.sheet import Sheet, show
from infer_course.figure import data_table, html_of
from infer_lab import calculator
from infer_lab.formulas import Call

LONG = 14  # characters of an option that want the whole width
NUMERIC = {"count": "numeric", "number": "decimal", "share": "text", "amount": "text", "choice": ""}


def form_html(key: str, fields: tuple[Field, ...], texts: Mapping[str, str], read: Read) -> str:
    """The inputs. Disabled until the script wakes them: without it they only show what was computed."""
    shown = "".join(_field(key, field, texts, read) for field in fields if not field.more)
    folded = "".join(_field(key, field, texts, read) for field in fields if field.more)
    more = (
        f'<details class="il-calc-more"><summary>More inputs</summary><div class="il-calc-fields">{folded}</div></details>'
        if folded
        else ""
    )
    return (
        '<form class="il-calc-form" novalidate><fieldset disabled><legend class="il-vh">Inputs</legend>'
        f'<div class="il-calc-fields">{shown}</div>{more}</fieldset></form>'
    )


def _field(key: str, field: Field, texts: Mapping[str, str], read: Read) -> str:
    name, text = f"{key}-{field.name}", texts.get(field.name, field.default)
    error, spelt = read.errors.get(field.name, ""), read.spelt.get(field.name, "")
    unit = {"us": "µs", "1/s": "per s"}.get(field.unit, field.unit)
    attributes = f'id="{name}" name="{field.name}" aria-describedby="{name}-hint {name}-said"' + (' aria-invalid="true"' if error else "")
    if field.kind == "choice":
        options = "".join(
            f'<option value="{escape(value)}"{" selected" if value == text else ""}>{escape(label)}</option>'
            for value, label in field.options
        )
        control = f"<select {attributes}>{options}</select>"
    else:
        mode = NUMERIC[field.kind]
        box = f'<input type="text" inputmode="{mode}" autocomplete="off" spellcheck="false" {attributes} value="{escape(text)}">'
        control = f'<span class="il-calc-entry">{box}{f"<span aria-hidden=true>{escape(unit)}</span>" if unit else ""}</span>'
    hidden = " hidden" if field.name in read.hidden else ""
    wide = " is-wide" if max((len(label) for _, label in field.options), default=0) > LONG else ""
    spoken = f'<span class="il-vh">, in {escape(unit)}</span>' if unit else ""
    return (
        f'<div class="il-calc-field{wide}" data-field="{field.name}" data-default="{escape(field.default)}"{hidden}>'
        f'<label for="{name}">{escape(field.label)}{spoken}</label>{control}'
        f'<p class="il-calc-hint" id="{name}-hint">{escape(field.hint)}</p>'
        f'<p class="il-calc-said" id="{name}-said"{" data-error" if error else ""}>{escape(error or spelt)}</p></div>'
    )


def sheet_html(sheet: Sheet, key: str, folded: bool) -> str:
    """The results, from the sentence that says it all to the working."""
    parts = []
    if sheet.refused:
        parts.append(f'<p class="il-calc-refused">{escape(sheet.refused)}</p>')
    elif sheet.verdict:
        parts.append(f'<p class="il-calc-verdict">{escape(sheet.verdict)}</p>')
    if sheet.answers:
        rows = "".join(
            f"<div><dt>{escape(answer.label)}</dt><dd><b>{escape(answer.text)}</b>"
            f"{f'<span>{escape(answer.note)}</span>' if answer.note else ''}</dd></div>"
            for answer in sheet.answers
        )
        parts.append(f'<dl class="il-calc-answers">{rows}</dl>')
    if sheet.warnings:
        parts.append(f'<ul class="il-calc-warnings">{"".join(f"<li>{escape(text)}</li>" for text in sheet.warnings)}</ul>')
    if sheet.table:
        parts.append(_table(*sheet.table))
    if sheet.plot:
        see = f"<p>{escape(sheet.see)}</p>" if sheet.see else ""
        parts.append(
            f'<figure class="il-fig il-calc-plot">{html_of(sheet.plot, key)}<figcaption>{see}{data_table(sheet.plot)}</figcaption></figure>'
        )
    if sheet.steps:
        steps = "".join(_step(call) for call in sheet.steps.values())
        parts.append(
            f'<details class="il-calc-how"{"" if folded else " open"}><summary>How it is worked out</summary><ol>{steps}</ol></details>'
        )
    if sheet.notes:
        parts.append(f'<div class="il-calc-notes">{"".join(f"<p>{escape(text)}</p>" for text in sheet.notes)}</div>')
    return "".join(parts)


def _step(call: Call) -> str:
    doc = " ".join((getattr(calculator, call.name).__doc__ or "").split("\n\n")[0].split())
    said = _marked(" ".join(part for part in re.split(r"(?<=[.)]) (?=[A-Z(])", doc) if "Error" not in part))
    lines = [call.symbols] + ([call.numbers] if call.numbers != call.symbols else [])
    formula = "".join(f"<span>= {escape(line)}</span>" for line in dict.fromkeys(lines))
    return (
        f'<li><p>{said}</p><p class="il-calc-formula"><code>{escape(call.name)}</code>{formula}'
        f"<span>= <b>{escape(show(call.result))}</b></span></p></li>"
    )


def _marked(text: str) -> str:
    """The two marks of our docstrings: `name` and *stress*."""
    return re.sub(r"\*(\w+)\*", r"<em>\1</em>", re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text)))


def _table(title: str, head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    top = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    body = "".join(
        f'<tr{" class=is-chosen" if row[0].startswith("→ ") else ""}><th scope="row">{escape(row[0].removeprefix("→ "))}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    return (
        f'<div class="il-scroll il-calc-table" role="group" aria-label="{escape(title)}"><table><caption>{escape(title)}</caption>'
        f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"
    )
