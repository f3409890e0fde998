"""The Hasse diagram of a family: who contains whom, without what follows from the rest."""

from __future__ import annotations

from dataclasses import dataclass

from whence.experts.family import Family

Experts = tuple[int, ...]


@dataclass(frozen=True)
class Diagram:
    """Experts by number, in the family's order."""

    levels: tuple[Experts, ...]
    """An expert is one level above the highest it contains; the simplest are on the first."""
    children: tuple[Experts, ...]
    """The largest that each expert contains: between them and it there is no other."""
    parents: tuple[Experts, ...]
    """The smallest that contain each expert."""

    @property
    def links(self) -> tuple[tuple[int, int], ...]:
        """Every pair of child and parent."""
        return tuple(
            (child, parent) for parent, below in enumerate(self.children) for child in below
        )


def diagram_of(family: Family) -> Diagram:
    """Worked out from inclusion alone."""
    contained = family.contained
    heights: list[int] = []
    for inside in contained:  # what is inside comes before
        heights.append(1 + max((heights[other] for other in inside), default=-1))
    children = tuple(
        tuple(child for child in inside if not any(child in contained[other] for other in inside))
        for inside in contained
    )
    experts = range(len(family))
    return Diagram(
        levels=tuple(
            tuple(one for one in experts if heights[one] == level)
            for level in range(max(heights) + 1)
        ),
        children=children,
        parents=tuple(
            tuple(other for other in experts if one in children[other]) for one in experts
        ),
    )
