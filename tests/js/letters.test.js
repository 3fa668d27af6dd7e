import assert from "node:assert/strict";
import { test } from "node:test";
import { shortened } from "../../src/latentbits/explorer/js/page/cells.js";
import { clipped } from "../../src/latentbits/explorer/js/page/images.js";

test("no letter is cut in half, of whatever parts it is made", () => {
  const family = "👨‍👩‍👧‍👦";
  assert.equal(clipped(family.repeat(5), 3), `${family}${family}…`);
  assert.equal(shortened(family.repeat(9), 4), `${family}${family}…${family}`);
  assert.equal(clipped(family.repeat(3), 3), family.repeat(3));
  assert.equal(shortened("one and the same", 10), "one an…ame");
});
