"""HTML pages that need nothing but themselves."""

from __future__ import annotations

from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined


def render(template: str, package: str = "", **values: Any) -> str:  # noqa: ANN401
    """The page, from a template of ours or of another package's folder `templates`.

    Every text in it is escaped, and a value that was not given is an error.
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
