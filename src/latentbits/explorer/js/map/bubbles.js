/** Several maps as bubbles in a plane: like ones near each other, as large as their share, none over another. */

const BUBBLES_FILL = 0.34; // of the window, by all bubbles together
const SMALLEST_BUBBLE = 30; // pixels: a bubble is to be hit by a finger
const BETWEEN_BUBBLES = 14; // pixels between two
const EDGE = 5; // pixels to the edge of the window
const PUSHES = 400;

export const CAPTION = 40; // pixels below a bubble, for its name

/**
 * @param {number[][]} places of the maps to each other
 * @param {number[]} shares
 * @param {number} width of the window, in pixels
 * @param {number} height
 * @returns {Array<{x: number, y: number, r: number}>} middles and radii, in pixels
 */
export function layOutBubbles(places, shares, width, height) {
  const total = shares.reduce((sum, share) => sum + share, 0);
  const room = Math.min(width, height - CAPTION) / 2 - EDGE;
  const unit = Math.sqrt((BUBBLES_FILL * width * (height - CAPTION)) / Math.PI / total);
  const bubbles = shares.map((share) => ({
    x: 0,
    y: 0,
    r: Math.min(room, Math.max(SMALLEST_BUBBLE, unit * Math.sqrt(share))),
  }));
  const [xs, ys] = [0, 1].map((axis) => places.map((place) => place[axis]));
  const spread = Math.max(Math.max(...xs) - Math.min(...xs), Math.max(...ys) - Math.min(...ys)) || 1;
  const middle = [xs, ys].map((values) => (Math.max(...values) + Math.min(...values)) / 2);
  for (const [m, bubble] of bubbles.entries()) {
    bubble.x = width / 2 + ((xs[m] - middle[0]) / spread) * (width - 2 * bubble.r);
    bubble.y = (height - CAPTION) / 2 - ((ys[m] - middle[1]) / spread) * (height - CAPTION - 2 * bubble.r);
  }
  for (let round = 0; round < PUSHES; round++) {
    bubbles.forEach((one, i) => {
      for (const other of bubbles.slice(i + 1)) pushApart(one, other, i);
    });
    for (const bubble of bubbles) {
      bubble.x = Math.min(Math.max(bubble.x, bubble.r + EDGE), width - bubble.r - EDGE);
      bubble.y = Math.min(Math.max(bubble.y, bubble.r + EDGE), height - CAPTION - bubble.r - EDGE);
    }
  }
  const right = (width - outer(bubbles, "x", 1) - outer(bubbles, "x", -1)) / 2;
  const down = (height - CAPTION - outer(bubbles, "y", 1) - outer(bubbles, "y", -1)) / 2;
  return bubbles.map(({ x, y, r }) => ({ x: x + right, y: y + down, r }));
}

/**
 * How far all bubbles reach to one side.
 * @param {Array<{x: number, y: number, r: number}>} bubbles @param {"x" | "y"} axis @param {1 | -1} side
 */
function outer(bubbles, axis, side) {
  return side * Math.max(...bubbles.map((bubble) => side * bubble[axis] + bubble.r));
}

/**
 * Half of what two lack to be apart, each; the name below the upper one needs room, too.
 * @param {{x: number, y: number, r: number}} one @param {{x: number, y: number, r: number}} other
 * @param {number} turn which way two at one place go
 */
function pushApart(one, other, turn) {
  let [across, down] = [other.x - one.x, other.y - one.y];
  if (across === 0 && down === 0) [across, down] = [Math.cos(turn + 1), Math.sin(turn + 1)];
  const away = Math.hypot(across, down);
  const steep = Math.abs(down) / away;
  const lack = one.r + other.r + BETWEEN_BUBBLES + steep * steep * CAPTION - away;
  if (lack <= 0) return;
  const [dx, dy] = [(across / away) * (lack / 2), (down / away) * (lack / 2)];
  one.x -= dx;
  one.y -= dy;
  other.x += dx;
  other.y += dy;
}
