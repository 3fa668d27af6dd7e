"""How fast the explorer's page is: its size, the time to the first paint of the map, and a hover.

    python benchmarks/explorer.py [--rows 2000 50000 200000] [--columns 64]

The pages hold rows drawn from two latent traits; no model is fitted.  Times are those of Chromium without
a window: the paint from the start of the navigation, a hover as all script that one move of the cursor runs, frames
included.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

import numpy as np
from playwright.sync_api import sync_playwright

from latentbits.explorer.content import Content, Labels, Map, Table
from latentbits.explorer.page import write_page

N_MOVES = 200

HOVER = """async (moves) => {
  const over = document.querySelector("#map canvas:last-of-type");
  const box = over.getBoundingClientRect();
  const frame = window.requestAnimationFrame.bind(window);
  let spent = 0;
  window.requestAnimationFrame = (f) => frame((t) => {
    const start = performance.now();
    f(t);
    spent += performance.now() - start;
  });
  const times = [];
  for (let k = 0; k < moves; k++) {
    spent = 0;
    const angle = 0.37 * k;
    const place = {
      clientX: box.left + box.width * (0.5 + 0.3 * Math.cos(angle)),
      clientY: box.top + box.height * (0.5 + 0.3 * Math.sin(1.3 * angle)),
      pointerType: "mouse",
      bubbles: true,
    };
    const start = performance.now();
    over.dispatchEvent(new PointerEvent("pointermove", place));
    const own = performance.now() - start;
    await new Promise((done) => frame(() => frame(done)));
    times.push(own + spent);
  }
  return times;
}"""


def content_of(n: int, d: int) -> Content:
    """A page of n rows and d columns that shows the map alone."""
    rng = np.random.default_rng(0)
    means, weights, bias = rng.normal(size=(n, 2)), rng.normal(size=(2, d)) * 1.5, rng.normal(size=d)
    bits = (rng.random((n, d)) < 1 / (1 + np.exp(-means @ weights - bias))).astype(np.float32)
    spread = rng.uniform(0.05, 0.2, (n, 2))
    return Content(
        title=f"{n} rows",
        findings=(),
        table=Table(
            source="drawn",
            n_rows=n,
            columns=tuple(f"column {j}" for j in range(d)),
            values=bits,
            numbers=np.arange(n),
            labels=(Labels("kind", tuple("abcd"), rng.integers(0, 4, n)),),
        ),
        n_close=0,
        map=Map(
            name="2 latent traits",
            means=means,
            covariances=np.column_stack([spread, 0.3 * np.sqrt(spread.prod(axis=1))]),
            weights=weights,
            bias=bias,
            noise=None,
            cost=rng.gamma(20.0, 2.0, n),
            lines=np.arange(4),
        ),
        models=(),
        sound=(),
        unit="bits per row",
        how_compared="",
    )


def main() -> None:
    """Print one line for each number of rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[2000, 50_000, 200_000])
    parser.add_argument("--columns", type=int, default=64)
    asked = parser.parse_args()
    print("    rows   page, MB   first paint, s   hover, ms: mean     p95     most")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        for n in asked.rows:
            path = write_page(content_of(n, asked.columns), Path(folder) / f"{n}.html")
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.goto(path.as_uri())
            page.wait_for_selector("html[data-ready]", state="attached")
            page.wait_for_function("performance.getEntriesByName('map-painted').length > 0")
            paint = page.evaluate("performance.getEntriesByName('map-painted')[0].startTime") / 1000
            times = np.array(page.evaluate(HOVER, N_MOVES))
            size = path.stat().st_size / 1e6
            numbers = f"{times.mean():16.1f}{np.quantile(times, 0.95):8.1f}{times.max():9.1f}"
            print(f"{n:8d}{size:11.2f}{paint:17.2f}{numbers}", flush=True)
            page.close()
        browser.close()


if __name__ == "__main__":
    main()
