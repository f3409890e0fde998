"""HTML pages that need nothing but themselves."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined


def render(template: str, **values: Any) -> str:  # noqa: ANN401
    """The page; every text in it is escaped, and a value nobody gave is an error."""
    environment = Environment(
        loader=PackageLoader("whence", "report/templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(**values)
