/** Typed arrays out of the page's text: base64, perhaps deflated, perhaps scaled to whole numbers. */

/**
 * @typedef {{dtype: string, shape: number[], deflated: boolean, low?: number[], step?: number[]}} Head
 * @typedef {{shape: number[], data: Uint8Array | Uint16Array | Uint32Array | Float32Array}} TypedArrayOf
 * @typedef {Record<string, TypedArrayOf>} Arrays
 */

/** @param {string} text base64 @returns {Uint8Array<ArrayBuffer>} */
export function bytesOf(text) {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

/** @param {Uint8Array<ArrayBuffer>} bytes @returns {Promise<Uint8Array<ArrayBuffer>>} */
export async function inflated(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/**
 * Numbers as they were: scaled ones become floats; bits stay packed (see `bitAt`).
 * @param {Head} head @param {string} text @returns {Promise<TypedArrayOf>}
 */
export async function readArray(head, text) {
  const raw = bytesOf(text);
  const bytes = head.deflated ? await inflated(raw) : raw;
  const shape = head.shape;
  if (head.dtype === "bits" || head.dtype === "u1") return { shape, data: unscaled(head, bytes) };
  if (head.dtype === "u2") return { shape, data: unscaled(head, new Uint16Array(bytes.buffer)) };
  if (head.dtype === "u4") return { shape, data: new Uint32Array(bytes.buffer) };
  return { shape, data: new Float32Array(bytes.buffer) };
}

/** @param {Head} head @param {Uint8Array | Uint16Array} numbers */
function unscaled(head, numbers) {
  if (!head.low || !head.step) return numbers;
  const { low, step } = head;
  const width = low.length;
  const values = new Float32Array(numbers.length);
  for (let i = 0; i < values.length; i++) values[i] = low[i % width] + step[i % width] * numbers[i];
  return values;
}

/**
 * The bit in a column of a row of packed bits.
 * @param {TypedArrayOf} bits @param {number} row @param {number} column
 */
export function bitAt(bits, row, column) {
  const width = (bits.shape[1] + 7) >> 3;
  return (bits.data[row * width + (column >> 3)] >> (7 - (column & 7))) & 1;
}

/**
 * Row `i` of an array of two dimensions, without a copy.
 * @param {TypedArrayOf} array @param {number} i @returns {Float32Array}
 */
export function rowOf(array, i) {
  const width = array.shape[1];
  return /** @type {Float32Array} */ (array.data.subarray(i * width, (i + 1) * width));
}
