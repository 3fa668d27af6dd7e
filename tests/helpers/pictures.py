"""What the tests of pictures ask of an Axes."""


def names_of(ax):
    """The words written on it, in the order of drawing."""
    return [text.get_text() for text in ax.texts]


def overlapping(ax):
    """Pairs of words that lie on one another once all is drawn."""
    ax.figure.canvas.draw()
    boxes = [text.get_window_extent() for text in ax.texts]
    return [(i, j) for i in range(len(boxes)) for j in range(i) if boxes[i].overlaps(boxes[j])]
