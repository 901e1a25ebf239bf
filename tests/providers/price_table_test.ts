import assert from "node:assert/strict";
import { Value } from "@sinclair/typebox/value";
import { listPrice, PRICE_TABLE, PriceTable } from "../../src/providers/price_table.ts";

Deno.test("the price table keeps to its schema, is dated, and names where each price was read", () => {
  assert.deepEqual([...Value.Errors(PriceTable, PRICE_TABLE)], []);
  const asOf = Date.parse(`${PRICE_TABLE.asOf}T00:00:00Z`);
  assert.ok(asOf > Date.UTC(2026, 9, 1) && Number.isFinite(asOf));
  for (const [kind, models] of Object.entries(PRICE_TABLE.prices)) {
    assert.ok(kind in PRICE_TABLE.sources, `${kind} has no source`);
    for (const [model, price] of Object.entries(models)) {
      const { inputPerMillion: input, outputPerMillion: output } = price;
      assert.ok(input > 0 && output >= input, model);
      assert.ok((price.cachedInputPerMillion ?? 0) <= input, model);
      assert.ok((price.cacheWritePerMillion ?? input) >= input, model);
      for (const number of Object.values(price)) {
        assert.equal(Math.round(number * 1e6) / 1e6, number);
      }
    }
  }
});

Deno.test("a list price holds at the provider's own address alone, and for names of the table alone", () => {
  const openai = { kind: "openai", baseUrl: "https://api.openai.com/v1" };
  assert.equal(listPrice(openai, "gpt-5-mini")?.outputPerMillion, 2);
  assert.equal(listPrice(openai, "gpt-5-mini-of-tomorrow"), undefined);
  assert.equal(listPrice(openai, "constructor"), undefined);
  assert.equal(listPrice({ ...openai, baseUrl: "http://127.0.0.1:1/v1" }, "gpt-5-mini"), undefined);
  assert.equal(
    listPrice({ kind: "openai-compatible", baseUrl: "http://x/v1" }, "gpt-4"),
    undefined,
  );
});
