/** What to say where nobody is called so: the names and numbers that come nearest. */

const LETTERS_COMPARED = 60; // of what was typed, and of a name: enough to tell them apart

/**
 * How many letters must be changed, put in or left out to make one text of another.
 * @param {string} a @param {string} b
 */
export function editsBetween(a, b) {
  let before = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const now = [i];
    for (let j = 1; j <= b.length; j++) {
      const changed = before[j - 1] + Number(a[i - 1] !== b[j - 1]);
      now.push(Math.min(changed, before[j] + 1, now[j - 1] + 1));
    }
    before = now;
  }
  return before[b.length];
}

/**
 * Names that hold the text, or differ from it in few letters, the nearest first.
 * @param {string} text @param {string[]} names @param {number} most
 * @returns {number[]} their places
 */
export function nearestNames(text, names, most) {
  const wanted = text.trim().toLowerCase().slice(0, LETTERS_COMPARED);
  if (!wanted) return [];
  const found = names.flatMap((name, i) => {
    const own = name.toLowerCase().slice(0, LETTERS_COMPARED);
    if (own.includes(wanted)) return [{ i, far: own.length / 1000 }];
    const [whole, words] = [editsBetween(wanted, own), own.split(/[^\p{L}\p{N}]+/u)];
    const far = Math.min(whole, ...words.map((word) => (word ? editsBetween(wanted, word) + 0.5 : whole)));
    return far <= wanted.length / 2 ? [{ i, far }] : [];
  });
  return found
    .sort((a, b) => a.far - b.far || a.i - b.i)
    .slice(0, most)
    .map(({ i }) => i);
}

/**
 * @param {number} number @param {ArrayLike<number>} numbers @param {number} most
 * @returns {number[]} the places of the numbers nearest to it
 */
export function nearestNumbers(number, numbers, most) {
  const far = (/** @type {number} */ i) => Math.abs(numbers[i] - number);
  return Array.from({ length: numbers.length }, (_, i) => i)
    .sort((a, b) => far(a) - far(b) || a - b)
    .slice(0, most);
}
