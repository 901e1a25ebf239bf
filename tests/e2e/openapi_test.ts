import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { withHub } from "../support/test_hub.ts";

interface Operation {
  operationId: string;
  parameters?: { name: string; in: string; required: boolean }[];
  requestBody?: JsonObject;
  responses: Record<string, { content?: Record<string, { schema?: JsonObject }> }>;
}

Deno.test("/openapi.json has every route with its parameters, bodies and answers", async () => {
  await withHub({}, async (hub) => {
    const answer = await fetch(`${hub.url}/openapi.json`);
    const { paths } = await answer.json() as { paths: Record<string, Record<string, Operation>> };
    const all = Object.entries(paths).flatMap(([path, item]) =>
      Object.entries(item).map(([method, operation]) => ({
        name: `${method.toUpperCase()} ${path}`,
        path,
        operation,
      }))
    );
    const pattern = (path: string) => path.replace(/:(\w+)(?:\{[^}]*\})?/g, "{$1}");
    assert.deepEqual(
      all.map(({ name }) => name).toSorted(),
      hub.hub.app.routes.map(({ method, path }) => `${method} ${pattern(path)}`).toSorted(),
    );
    assert.equal(new Set(all.map(({ operation }) => operation.operationId)).size, all.length);
    for (const { name, path, operation } of all) {
      const inPath = (operation.parameters ?? []).filter((one) => one.in === "path");
      const wanted = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
      assert.deepEqual(inPath.map((one) => one.name), wanted, name);
      assert.equal(
        operation.requestBody !== undefined,
        /^(POST|PATCH) (?!.*\/(?:stop|revoke|cancel|reseal|connect|refresh|authorize)$)/.test(name),
      );
      for (const [status, { content }] of Object.entries(operation.responses)) {
        if (!/^2/.test(status) || status === "204") continue;
        assert.ok(content !== undefined, `${name} says nothing of its ${status}`);
      }
    }
    const of = (name: string) => all.find((one) => one.name === name)?.operation;
    const header = (name: string) =>
      of(name)?.parameters?.filter((one) => one.in === "header").map((one) => one.name);
    assert.deepEqual(header("GET /v1/runs/{id}/stream"), ["last-event-id"]);
    const handed = "x-mcp-auth-{prefix}";
    assert.deepEqual(header("POST /v1/chat/completions"), [
      "hub-stream",
      "idempotency-key",
      "x-loophub-cache",
      handed,
    ]);
    assert.deepEqual(header("POST /api/chat"), ["hub-stream-level", "idempotency-key", handed]);
    assert.deepEqual(header("POST /v1/sessions/{id}/messages"), ["idempotency-key", handed]);
    for (const name of ["POST /v1/chat/completions", "POST /v1/sessions/{id}/messages"]) {
      const types = Object.keys(of(name)?.responses["200"]?.content ?? {});
      assert.deepEqual(types, ["application/json", "text/event-stream"]);
    }
  });
});
