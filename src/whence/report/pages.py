"""Self-contained HTML pages."""

from __future__ import annotations

from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined


def render(template: str, package: str = "", **values: Any) -> str:  # noqa: ANN401
    """Return the page of a template of Whence, or of another package's folder `templates`.

    All texts are escaped. A missing value is an error.
    """
    own = [PackageLoader(package)] if package else []
    environment = Environment(
        loader=ChoiceLoader([*own, PackageLoader("whence", "report/templates")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(**values)
