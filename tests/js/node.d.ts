// Node's own modules, without types: the tests need them, the page does not.
declare module "node:test";
declare module "node:assert/strict";
