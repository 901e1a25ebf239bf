import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { eventually, withHub } from "../support/test_hub.ts";

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
      assert.deepEqual(body.data.map((session: { id: string }) => session.id), ids);
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

Deno.test("sessions are made, found, changed, listed in pages and deleted", async (t) => {
  const upstream = await startScriptedUpstream();
  const config = {
    providers: { one: { baseUrl: upstream.url, apiKey: "sk-upstream" } },
    defaultModel: "one/m",
    agents: { clerk: {} },
  };
  try {
    await withHub(config, async (hub) => {
      const make = async (body: JsonObject) => {
        const made = await hub.call("/v1/sessions", { body });
        assert.equal(made.status, 201);
        const session = await made.json();
        assert.equal(made.headers.get("location"), `/v1/sessions/${session.id}`);
        return session;
      };
      const read = async (path: string) => await (await hub.call(path)).json();
      const status = async (path: string, method: string, body?: JsonObject) => {
        const answer = await hub.call(path, body === undefined ? { method } : { method, body });
        await answer.body?.cancel();
        return answer.status;
      };
      const facts = { title: "First", agent: "clerk", externalId: "mine", metadata: { a: [1] } };
      const first = await make(facts);
      const path = `/v1/sessions/${first.id}`;

      await t.step("the same external id is the same session; both names find it", async () => {
        for (const [name, value] of Object.entries(facts)) assert.deepEqual(first[name], value);
        assert.deepEqual(await make({ externalId: "mine", title: "Other" }), first);
        for (const name of [first.id, "ext:mine"]) {
          assert.deepEqual(await read(`/v1/sessions/${name}`), first);
        }
        for (const name of ["ext:other", "mine", `ses_${"0".repeat(32)}`]) {
          assert.equal(await status(`/v1/sessions/${name}`, "GET"), 404);
        }
      });

      await t.step("a change keeps what it leaves out", async () => {
        const changed = await hub.call(path, { method: "PATCH", body: { title: "Second" } });
        const { updatedAt: _, ...rest } = await changed.json();
        const { updatedAt: __, ...before } = first;
        assert.deepEqual(rest, { ...before, title: "Second" });
        assert.equal(
          (await hub.call(path, { method: "PATCH", body: { title: null } })).status,
          200,
        );
        assert.equal((await read(path)).title, null);
        for (const body of [{}, { agent: 1 }, { status: "idle" }]) {
          assert.equal(await status(path, "PATCH", body), 400, JSON.stringify(body));
        }
        assert.equal(await status(path, "PATCH", { agent: "nobody" }), 404);
        assert.equal((await read(path)).agent, "clerk");
      });

      await t.step("pages go on with their cursor, under any filter", async () => {
        const made = [first.id];
        for (let count = 0; count < 4; count++) made.unshift((await make({})).id);
        const pages = async (query: string) => {
          const ids: string[] = [];
          for (let after = ""; after !== null;) {
            const page = await read(`/v1/sessions?limit=2${query}${after && `&after=${after}`}`);
            assert.ok(page.data.length <= 2);
            ids.push(...page.data.map(({ id }: { id: string }) => id));
            after = page.nextCursor;
          }
          return ids;
        };
        assert.deepEqual(await pages(""), made);
        assert.deepEqual(await pages("&agent=clerk"), [first.id]);
        assert.deepEqual(await pages("&agent=default&status=idle"), made.slice(0, -1));
        assert.deepEqual(await pages("&status=running"), []);
        for (const query of ["limit=0", "limit=201", "status=done", "nonsense=1", "after=x"]) {
          assert.equal(await status(`/v1/sessions?${query}`, "GET"), 400, query);
        }
      });

      await t.step("a session is not deleted under its run, and then with all it has", async () => {
        upstream.script(chatStream({ text: "Hello", endAfter: 2, end: "stall" }));
        const running = hub.call(`${path}/messages`, { body: { text: "Hi", stream: false } });
        const { runId } = await eventually(async () => (await read(path)).activeRun);
        const { sessions } = await read("/v1/sessions?status=running");
        assert.deepEqual(sessions.map(({ id }: { id: string }) => id), [first.id]);
        assert.equal(await status(path, "DELETE"), 409);
        assert.equal(await status(`/v1/runs/${runId}/stop`, "POST"), 202);
        await (await running).body?.cancel();
        assert.equal(await status(path, "DELETE"), 204);
        for (const gone of [path, `${path}/messages`, `/v1/runs/${runId}`]) {
          assert.equal(await status(gone, "GET"), 404, gone);
        }
        assert.equal(await status(path, "DELETE"), 404);
      });
    });
  } finally {
    await upstream.stop();
  }
});
