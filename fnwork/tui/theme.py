"""Colours and marks of the workbench: two themes, one colour a memory category, one mark a state.

Everything that a colour says is said by a letter or a mark as well, so that a screen without colours (NO_COLOR) reads
the same. Widgets take colours by name from `colour(widget, "weights")`, style sheets as `$weights`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.color import Color
from textual.theme import Theme

if TYPE_CHECKING:
    from textual.app import App

CATEGORIES: tuple[str, ...] = ("weights", "gradients", "optimizer", "activations", "workspace", "data")
"""The categories of memory, in the order in which every bar and table shows them."""

CATEGORY_LETTERS: dict[str, str] = {
    "weights": "W",
    "gradients": "G",
    "optimizer": "O",
    "activations": "A",
    "workspace": "S",
    "data": "D",
}
"""What stands for a category where colours are absent."""

STATE_MARKS: dict[str, tuple[str, str]] = {
    "running": ("▶", "success"),
    "paused": ("‖", "warning"),
    "stopping": ("◌", "warning"),
    "finished": ("✓", "success"),
    "early-stopped": ("✓", "success"),
    "stopped": ("■", "foreground-muted"),
    "failed": ("✗", "error"),
    "interrupted": ("!", "warning"),
}
"""Mark and colour of every state of a run."""

_DARK_VARIABLES = {
    "weights": "#7aa8d8",
    "gradients": "#b39ddb",
    "optimizer": "#5fb8a9",
    "activations": "#e3a35f",
    "workspace": "#8b97a8",
    "data": "#c3bd68",
    "line": "#303944",
    "block-cursor-foreground": "#10151b",
    "block-cursor-background": "#7aa8d8",
    "block-cursor-text-style": "none",
    "block-cursor-blurred-background": "#2a3644",
    "border": "#7aa8d8",
    "border-blurred": "#303944",
    "footer-background": "#171c23",
    "footer-key-foreground": "#e3b26b",
    "footer-description-foreground": "#9aa5b3",
    "scrollbar": "#303944",
    "scrollbar-hover": "#435060",
    "scrollbar-background": "#12161b",
    "scrollbar-background-hover": "#12161b",
    "scrollbar-background-active": "#12161b",
    "scrollbar-corner-color": "#12161b",
    "button-color-foreground": "#10151b",
    "button-focus-text-style": "bold",
    "input-selection-background": "#7aa8d8 30%",
}

_LIGHT_VARIABLES = {
    "weights": "#2f6ca8",
    "gradients": "#7a57b5",
    "optimizer": "#17806f",
    "activations": "#b8691a",
    "workspace": "#67717f",
    "data": "#837a12",
    "line": "#d5d0c4",
    "block-cursor-foreground": "#ffffff",
    "block-cursor-background": "#2f6ca8",
    "block-cursor-text-style": "none",
    "block-cursor-blurred-background": "#d8e3ee",
    "border": "#2f6ca8",
    "border-blurred": "#d5d0c4",
    "footer-background": "#ebe7dd",
    "footer-key-foreground": "#9c5a12",
    "footer-description-foreground": "#565e69",
    "scrollbar": "#cfc9bb",
    "scrollbar-hover": "#b9b2a2",
    "scrollbar-background": "#f4f1ea",
    "scrollbar-background-hover": "#f4f1ea",
    "scrollbar-background-active": "#f4f1ea",
    "scrollbar-corner-color": "#f4f1ea",
    "button-color-foreground": "#ffffff",
    "button-focus-text-style": "bold",
    "input-selection-background": "#2f6ca8 25%",
}

DARK = Theme(
    name="fnwork-dark",
    primary="#7aa8d8",
    secondary="#5fb8a9",
    accent="#e3b26b",
    warning="#e0b050",
    error="#e5707a",
    success="#8cc08c",
    foreground="#d5dbe3",
    background="#12161b",
    surface="#12161b",
    panel="#1d242c",
    boost="#1a2028",
    dark=True,
    variables=_DARK_VARIABLES,
)

LIGHT = Theme(
    name="fnwork-light",
    primary="#2f6ca8",
    secondary="#17806f",
    accent="#9c5a12",
    warning="#9a6a00",
    error="#b3303c",
    success="#2f7d3a",
    foreground="#23282f",
    background="#f4f1ea",
    surface="#f4f1ea",
    panel="#e7e2d7",
    boost="#ece8df",
    dark=False,
    variables=_LIGHT_VARIABLES,
)

DEFAULT_VARIABLES: dict[str, str] = {name: _DARK_VARIABLES[name] for name in (*CATEGORIES, "line")}
"""What themes other than ours lack."""


def colour(app: App[object], name: str) -> str:
    """The colour of a category, or of a variable of the theme, as Rich understands it ("#rrggbb")."""
    variable = app.theme_variables[name]
    if variable.startswith("ansi"):
        return Color.parse(variable.split()[0]).rich_color.name
    value = Color.parse(variable)
    return (Color.parse(app.theme_variables["background"]) + value).hex6
