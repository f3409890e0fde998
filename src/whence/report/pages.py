"""Self-contained HTML pages."""

from __future__ import annotations

from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from whence.text import visible_lines


def render(template: str, package: str = "", **values: Any) -> str:  # noqa: ANN401
    """Return the page of a template of Whence, or of another package's folder `templates`.

    All texts are escaped, and no character in them can act. A missing value is an error.
    """
    own = [PackageLoader(package)] if package else []
    environment = Environment(
        loader=ChoiceLoader([*own, PackageLoader("whence", "report/templates")]),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(**values)


def _shown(value: Any) -> Any:  # noqa: ANN401
    """Return what a page shows for a value; markup of our own stays as it is."""
    is_text = isinstance(value, str) and not isinstance(value, Markup)
    return visible_lines(value) if is_text else value
