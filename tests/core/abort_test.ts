import assert from "node:assert/strict";
import { Aborter } from "../../src/core/abort.ts";

Deno.test("each listener is called once, in order, whatever others throw; the first error comes out", () => {
  const aborter = new Aborter();
  const called: string[] = [];
  aborter.addEventListener("abort", () => {
    called.push("first");
    throw new Error("first");
  });
  aborter.addEventListener("abort", { handleEvent: () => void called.push("object") });
  aborter.addEventListener("abort", () => {
    throw new Error("third");
  });
  aborter.addEventListener("abort", () => called.push("last"));
  assert.throws(() => aborter.abort("why"), /first/);
  aborter.abort("again");
  assert.deepEqual(called, ["first", "object", "last"]);
  assert.equal(aborter.reason, "why");
});

Deno.test("a listener that another one removes while it aborts is not called, nor one that is added then", () => {
  const aborter = new Aborter();
  const called: string[] = [];
  const removed = () => called.push("removed");
  aborter.addEventListener("abort", () => {
    called.push("first");
    assert.equal(aborter.aborted, true);
    aborter.removeEventListener("abort", removed);
    aborter.addEventListener("abort", () => called.push("added"));
    aborter.abort("inside");
  });
  aborter.addEventListener("abort", removed);
  aborter.addEventListener("abort", () => called.push("last"));
  aborter.abort("why");
  assert.deepEqual(called, ["first", "last"]);
});

Deno.test("a listener is kept once and can be removed", () => {
  const aborter = new Aborter();
  let calls = 0;
  const listeners = [() => calls++, () => calls++, () => calls++];
  for (const listener of [...listeners, ...listeners]) aborter.addEventListener("abort", listener);
  const [first, second] = listeners;
  if (first !== undefined) aborter.removeEventListener("abort", first);
  if (second !== undefined) aborter.removeEventListener("abort", second);
  aborter.removeEventListener("abort", () => {});
  aborter.abort(null);
  assert.equal(calls, 1);
});
