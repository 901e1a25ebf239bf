import assert from "node:assert/strict";
import { withHub } from "../support/test_hub.ts";

Deno.test("sessions are listed by the time of their creation", async () => {
  await withHub({}, async (hub) => {
    const { id } = await (await hub.call("/v1/sessions", { body: {} })).json();
    const list = async (query: string) => {
      const answer = await hub.call(`/v1/sessions?${query}`);
      return { status: answer.status, body: await answer.json() };
    };
    const cases: [query: string, ids: string[]][] = [
      ["createdAfter=2026-01-01T00:00:00Z", [id]],
      ["createdAfter=2026-01-01T00:00:00.5%2B02:00&createdBefore=9999-12-31T23:59:59Z", [id]],
      ["createdAfter=9999-01-01T00:00:00Z", []],
      ["createdBefore=0001-01-01T00:00:00Z", []],
    ];
    for (const [query, ids] of cases) {
      const { status, body } = await list(query);
      assert.equal(status, 200, query);
      assert.deepEqual(body.sessions.map((session: { id: string }) => session.id), ids);
    }
    for (
      const time of ["yesterday", "2026-02-30T00:00:00Z", "2026-01-01", "0000-01-01T00:00:00Z"]
    ) {
      const { status, body } = await list(`createdAfter=${time}`);
      assert.equal(status, 400, time);
      assert.equal(body.error.param, "createdAfter");
      assert.match(body.error.message, /wanted a string \(format date-time\)/);
    }
  });
});
