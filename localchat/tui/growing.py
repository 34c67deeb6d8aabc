"""Widgets that grow at their end, at the price of what is new.

Textual lays the whole screen out again whenever a widget's size has changed in
a layout, because a scrollbar might have to appear, and paints all of a widget
anew whose height has changed, because its lower edge has moved. For widgets
that grow with every line of a streaming reply that doubles the cost of a frame;
no scrollbar depends on them and they have no lower edge.
"""

from __future__ import annotations

from textual.geometry import Size
from textual.widget import Widget


class Growing(Widget):
    """A widget without lower border or padding, whose painted rows stay valid when it grows."""

    def _size_updated(
        self, size: Size, virtual_size: Size, container_size: Size, layout: bool = True
    ) -> bool:
        if size.width == self._size.width:
            self._size = size  # the parent method then sees nothing to paint anew
        return super()._size_updated(size, virtual_size, container_size, layout=False)
