"""Shapes and types are checked at run time in every test: jaxtyping's annotations, enforced by beartype."""

from __future__ import annotations

from jaxtyping import install_import_hook

_hook = install_import_hook(["latentbits.core", "latentbits.models"], "beartype.beartype")
