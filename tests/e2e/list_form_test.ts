import assert from "node:assert/strict";
import { isJsonObject, type JsonObject } from "../../src/core/json.ts";
import { withHub } from "../support/test_hub.ts";

/** What the items were called before, by route. */
const FORMER: Readonly<Record<string, string>> = {
  "/v1/agents": "agents",
  "/v1/skills": "skills",
  "/v1/sessions": "sessions",
  "/v1/sessions/{id}/messages": "messages",
  "/api/chat/{id}/messages": "messages",
  "/v1/runs/{id}/approvals": "approvals",
  "/v1/runs/{id}/questions": "questions",
  "/v1/approvals": "approvals",
  "/v1/approvals/grants": "grants",
};
/** Bodies that are one thing with lists inside. */
const THINGS: ReadonlySet<string> = new Set([
  "/v1/mcp/{server}/resource",
  "/v1/runs/{id}/preflight",
  "/v1/mcp/oauth/client.json",
  // In the words of Ollama.
  "/api/tags",
]);
/** Lists that stand beside that of their route. */
const BESIDE: Readonly<Record<string, string>> = { "/v1/skills": "invalid" };

/** The members of the body that a GET of this path gives; null where that is no JSON object. */
function membersOf(path: JsonObject): Record<string, JsonObject> | null {
  let at: unknown = path;
  for (const name of ["get", "responses", "200", "content", "application/json", "schema"]) {
    at = isJsonObject(at) ? at[name] : undefined;
  }
  const properties = isJsonObject(at) ? at["properties"] : undefined;
  return isJsonObject(properties) ? properties as Record<string, JsonObject> : null;
}

Deno.test("every list has one form, and its former name for one version", async () => {
  const config = {
    providers: { one: { baseUrl: "http://127.0.0.1:1" } },
    defaultModel: "one/m",
  };
  await withHub(config, async (hub) => {
    const { paths } = await (await hub.call("/openapi.json")).json();
    const lists: string[] = [];
    for (const [path, operations] of Object.entries(paths as Record<string, JsonObject>)) {
      const members = membersOf(operations);
      if (members === null || THINGS.has(path) || path.endsWith("}")) continue;
      const arrays = Object.entries(members).filter(([name, { type }]) =>
        type === "array" && name !== BESIDE[path]
      );
      if (arrays.length === 0) continue;
      lists.push(path);
      const former = FORMER[path];
      const names = arrays.map(([name]) => name).toSorted();
      assert.deepEqual(names, ["data", ...former === undefined ? [] : [former]].toSorted(), path);
      assert.equal(members["data"]?.["deprecated"], undefined, path);
      if (former !== undefined) assert.equal(members[former]?.["deprecated"], true, path);
      assert.equal(members["object"]?.["const"], "list", path);
      assert.equal(members["has_more"]?.["type"], "boolean", path);
      assert.ok(members["nextCursor"] !== undefined, path);
    }
    for (const path of Object.keys(FORMER)) assert.ok(lists.includes(path), `${path} is no list`);
    assert.ok(lists.length > 12, lists.join(" "));

    const made = await Promise.all(
      [1, 2, 3].map(async () => (await (await hub.call("/v1/sessions", { body: {} })).json()).id),
    );
    const seen: string[] = [];
    for (let after = "", goesOn = true; goesOn;) {
      const page = await (await hub.call(`/v1/sessions?limit=2${after}`)).json();
      assert.deepEqual(page.sessions, page.data);
      assert.equal(page.object, "list");
      assert.equal(page.has_more, page.nextCursor !== null);
      seen.push(...page.data.map(({ id }: { id: string }) => id));
      after = `&after=${page.nextCursor}`;
      goesOn = page.has_more;
    }
    assert.deepEqual(seen.toSorted(), made.toSorted());
    for (const path of lists.filter((path) => !path.includes("{"))) {
      const body = await (await hub.call(path)).json();
      assert.deepEqual([body.object, typeof body.has_more], ["list", "boolean"], path);
      assert.ok(Array.isArray(body.data), path);
      const former = FORMER[path];
      if (former !== undefined) assert.deepEqual(body[former], body.data, path);
    }
  });
});
