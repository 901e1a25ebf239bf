import assert from "node:assert/strict";
import { pathOf, routesOf, strangerOf } from "../support/api_routes.ts";
import { askOwned, CANARY, fill, isShared, withKey, withMaker } from "../support/owned_things.ts";

/** Answers that are not 404, for any id: by the beginning of a route. */
const OTHERWISE: readonly [route: RegExp, status: number, why: string][] = [
  [/^GET \/api\/chat\/\{id\}\/messages/, 200, "a chat that nobody has begun is empty"],
  [/^GET \/api\/chat\/\{id\}\/stream/, 204, "and nothing runs in it"],
  [/ \/v1\/admin\/(providers|mcp)\/\{\w+\}/, 403, "the hub's own tenant manages them"],
];
/** Without an end. */
const STREAMS = ["/mcp", "/mcp/sse"];

Deno.test("a key of another tenant finds nothing of this one, by any id, on any route", async (t) => {
  await withMaker(async (hub, { requests, paid }) => {
    const owned = await fill(hub);
    const routes = await routesOf(hub);
    const other = withKey(hub, await strangerOf(hub));
    const ids = Object.values(owned).flatMap((values) => Object.values(values));
    const texts = [CANARY, ...ids.filter((id) => id !== "peer")];
    const assertBlind = (text: string, where: string) => {
      for (const word of texts) assert.ok(!text.includes(word), `${where}: ${word}: ${text}`);
    };
    const byId = routes.filter((route) => route.pattern.includes("{") && !isShared(route));
    assert.ok(byId.length >= 30, String(byId.length));
    const before = requests.length;

    await t.step("what has an id", async () => {
      for (const route of byId) {
        const { status, text } = await askOwned(other, owned, route);
        const name = `${route.method} ${route.pattern}`;
        const [, wanted = 404] = OTHERWISE.find(([one]) => one.test(name)) ?? [];
        assert.equal(status, wanted, `${name}: ${text}`);
        assert.ok(!text.includes(CANARY), `${name}: ${text}`);
      }
    });

    await t.step("lists, and what all tenants share", async () => {
      for (const route of routes) {
        const { method, pattern } = route;
        if (method !== "GET" || byId.includes(route) || STREAMS.includes(pattern)) continue;
        const names = { server: "peer", name: "peer", id: "default" };
        const path = pathOf(pattern, (name) => names[name as keyof typeof names] ?? "x");
        const listed = await other.call(path);
        assertBlind(await listed.text(), `${method} ${pattern}`);
      }
    });

    await t.step("ids in bodies and queries", async () => {
      const { id } = owned["/v1/responses/{id}"] ?? {};
      const response = { model: "one/m", input: "Hi", previous_response_id: id ?? "" };
      const answered = await other.call("/v1/responses", { body: response });
      assert.ok([400, 404].includes(answered.status), String(answered.status));
      assert.ok(!(await answered.text()).includes(CANARY));
      for (const list of ["/v1/sessions", "/v1/approvals", "/v1/admin/keys", "/v1/admin/audit"]) {
        const { nextCursor: next } = await (await hub.call(`${list}?limit=1`)).json();
        assert.ok(next, list);
        const path = `${list}?after=${encodeURIComponent(next)}`;
        assertBlind(await (await other.call(path)).text(), path);
      }
    });

    assert.equal(requests.length, before);
    await t.step("its owner has it all, as it was", async () => {
      for (const route of byId.filter(({ method }) => method === "GET")) {
        if (route.pattern.endsWith("/stream")) continue;
        const { status, text } = await askOwned(hub, owned, route);
        assert.equal(status, 200, `${route.pattern}: ${text}`);
      }
      const { approvals } = JSON.parse(
        (await askOwned(hub, owned, { method: "GET", pattern: "/v1/runs/{id}/approvals" })).text,
      );
      assert.equal(approvals[0].state, "pending");
      assert.deepEqual(paid, ["1"]);
    });
  });
});
