import assert from "node:assert/strict";
import { isDateTime } from "../../src/core/date_time.ts";

Deno.test("instants as RFC 3339 writes them, on days that exist", () => {
  for (
    const text of [
      "2026-01-01T00:00:00Z",
      "2024-02-29T23:59:59.999999999Z",
      "2026-01-01T00:00:00+14:00",
      "0001-01-01T00:00:00Z",
      "9999-12-31T23:59:59.999Z",
    ]
  ) assert.ok(isDateTime(text), text);
  for (
    const text of [
      "",
      "yesterday",
      "2026-01-01",
      "2026-01-01T00:00:00",
      "2026-01-01 00:00:00Z",
      "2026-02-29T00:00:00Z",
      "2026-04-31T00:00:00Z",
      "2026-13-01T00:00:00Z",
      "2026-00-10T00:00:00Z",
      "2026-01-01T25:00:00Z",
      "2026-01-01T00:00:60Z",
      "2026-01-01T00:00:00+25:00",
      "0000-12-31T00:00:00Z",
      "0001-01-01T00:00:00+01:00",
      "9999-12-31T23:59:59-01:00",
      "2026-01-01T00:00:00Z\n",
    ]
  ) assert.ok(!isDateTime(text), text);
});
