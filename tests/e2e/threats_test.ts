import assert from "node:assert/strict";
import fc from "fast-check";
import type { JsonObject } from "../../src/core/json.ts";
import { pathOf, routesOf } from "../support/api_routes.ts";
import { chatCompletion, type Reply, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { withHub, withReplicas } from "../support/test_hub.ts";

const messages = [{ role: "user", content: "Hi" }];

/** What needs no key: nothing of it is about a tenant, or it wants a state that was given to whoever has one. */
const PUBLIC = new Set([
  "/healthz",
  "/readyz",
  "/metrics",
  "/openapi.json",
  "/v1/mcp/oauth/callback",
  "/v1/mcp/oauth/client.json",
]);

Deno.test("every route of the hub, for callers without a right to it", async (t) => {
  const upstream = await startScriptedUpstream(chatCompletion({ text: "Hi" }));
  const config = {
    providers: { up: { baseUrl: upstream.url, apiKey: "sk-up" } },
    defaultModel: "up/m",
  };
  try {
    await withHub(config, async (hub) => {
      const make = async (more: JsonObject) => {
        const answer = await hub.call("/v1/admin/keys", { body: { name: "k", ...more } });
        const { key, token } = await answer.json();
        return { id: String(key.id), token: String(token) };
      };
      const expired = await make({});
      await (await hub.call(`/v1/admin/keys/${expired.id}`, {
        method: "PATCH",
        body: { expiresAt: "2020-01-01T00:00:00Z" },
      })).body?.cancel();
      const revoked = await make({});
      await (await hub.call(`/v1/admin/keys/${revoked.id}/revoke`, { method: "POST" })).body
        ?.cancel();
      const user = await make({});
      const routes = (await routesOf(hub)).map((route) => ({
        ...route,
        path: pathOf(route.pattern, () => "x"),
      }));
      assert.ok(routes.length > 40);
      const ask = async (path: string, method: string, token: string | null) => {
        const answer = await hub.hub.app.request(path, {
          method,
          headers: {
            ...(token === null ? {} : { authorization: `Bearer ${token}` }),
            "content-type": "application/json",
          },
          ...(method === "GET" || method === "HEAD" ? {} : { body: "{}" }),
        });
        await answer.body?.cancel();
        return answer.status;
      };

      await t.step(
        "no key, garbage, expired and revoked keys: 401, whatever the route",
        async () => {
          const callers = {
            none: null,
            garbage: "sk-garbage",
            sql: "' OR '1'='1",
            expired: expired.token,
            revoked: revoked.token,
          };
          for (const [caller, token] of Object.entries(callers)) {
            for (const { pattern, path, method } of routes) {
              if (PUBLIC.has(pattern)) continue;
              assert.equal(await ask(path, method, token), 401, `${caller}: ${method} ${pattern}`);
            }
          }
          assert.equal(upstream.requests.length, 0);
        },
      );

      await t.step("a user's key is 403 at whatever an admin may do", async () => {
        const admins = routes.filter(({ pattern }) => pattern.startsWith("/v1/admin/"));
        assert.ok(admins.length >= 6);
        for (const { path, method } of admins) {
          assert.equal(await ask(path, method, user.token), 403, `${method} ${path}`);
        }
      });

      await t.step("no token of fuzz gets in, and none is an internal error", async () => {
        const tokens = fc.sample(fc.string({ unit: "binary", maxLength: 90 }), 2000);
        for (const text of [...tokens, "lh_' OR 1=1 --", `${hub.key}'`, hub.key.slice(0, -1)]) {
          // What no header can carry does not arrive.
          const token = text.replaceAll(/[^\x21-\x7e]/g, "'");
          assert.equal(await ask("/v1/models", "GET", token), 401, JSON.stringify(token));
        }
      });

      await t.step("no answer's schema has a secret, but those of new tokens", () => {
        for (const { pattern, method, operation } of routes) {
          const text = JSON.stringify(operation.responses);
          assert.ok(!/"(?:apiKey|secret|lookupId|pepper|password)":/i.test(text), pattern);
          // That of an approval or a plan is of what a person was shown, that of an MCP tool of what it says of itself.
          if (!/approvals|preflight|admin\/mcp/.test(pattern)) {
            assert.ok(!/"hash":/i.test(text), pattern);
          }
          if (!text.includes('"token":')) continue;
          assert.match(
            `${method} ${pattern}`,
            /^POST \/v1\/(admin\/keys(\/\{id\}\/rotate)?|browser-tokens)$/,
          );
        }
      });
    });
  } finally {
    await upstream.stop();
  }
});

Deno.test("no request makes the hub start a program", async () => {
  const upstream = await startScriptedUpstream(chatCompletion({ text: "Hi" }));
  const dir = await Deno.makeTempDir({ prefix: "loophub-started-" });
  const config = {
    providers: { up: { baseUrl: upstream.url, apiKey: "sk-up", maxRetries: 0 } },
    defaultModel: "up/m",
  };
  try {
    await withHub(config, async (hub) => {
      const routes = await routesOf(hub);
      const asked = routes.filter(({ method }) => method !== "GET").map(({ method, pattern }) => ({
        method,
        path: pathOf(pattern, () => "evil"),
      }));
      // Other gateways have had these.
      for (const name of ["", "/test", "/test/connection", "/evil", "/evil/test"]) {
        for (const base of ["/v1/mcp", "/v1/admin/mcp", "/v1/mcp/server", "/mcp"]) {
          asked.push({ method: "POST", path: `${base}${name}` });
          asked.push({ method: "PUT", path: `${base}${name}` });
        }
      }
      for (const [at, { method, path }] of asked.entries()) {
        const touch = `touch ${dir}/${at}`;
        const server = {
          command: "sh",
          args: ["-c", touch],
          transport: "stdio",
          type: "stdio",
          url: `stdio:sh -c '${touch}'`,
          env: { PATH: Deno.env.get("PATH") ?? "" },
        };
        const named = { evil: server };
        const body = {
          ...{ name: "evil", text: "Hi", model: "up/m", messages, id: "evil", input: "Hi" },
          ...{ kind: "openai", baseUrl: server.url, apiKey: `$(${touch})` },
          ...{ ...server, config: server, server, mcpServers: named, mcp_servers: named },
          tools: [{ ...server, type: "mcp", server_label: "evil", server_url: server.url }],
          ...{ jsonrpc: "2.0", method: "tools/call", params: { name: "evil", arguments: server } },
        };
        const answer = await hub.call(path, {
          method,
          body,
          headers: { "x-mcp-servers": JSON.stringify(named), "x-command": touch },
        });
        await answer.body?.cancel();
        assert.ok(answer.status !== 500, `${method} ${path}`);
      }
      assert.doesNotMatch(await (await hub.call("/v1/admin/mcp")).text(), /evil|touch/);
      assert.deepEqual(await Array.fromAsync(Deno.readDir(dir)), []);
    });
  } finally {
    await upstream.stop();
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("no request makes the hub go anywhere but to its providers", async (t) => {
  const canary = await startScriptedUpstream(chatCompletion({ text: "no" }));
  const upstream = await startScriptedUpstream(chatCompletion({ text: "Hi" }));
  const provider = { baseUrl: upstream.url, apiKey: "sk-own", maxRetries: 0 };
  const config = {
    providers: {
      up: provider,
      ant: { ...provider, kind: "anthropic" },
      gem: { ...provider, kind: "google" },
      oll: { ...provider, kind: "ollama" },
    },
    defaultModel: "up/m",
  };
  try {
    await withHub(config, async (hub) => {
      const post = async (body: JsonObject, headers: Record<string, string> = {}) => {
        const answer = await hub.call("/v1/chat/completions", { body, headers });
        await answer.text();
        return answer.status;
      };
      const elsewhere = canary.url;

      await t.step("addresses in the body, however deep and whatever they are called", async () => {
        const names = [
          "base_url",
          "api_base",
          "baseUrl",
          "apiBase",
          "endpoint",
          "custom_llm_provider",
        ];
        for (const name of names) {
          for (
            const where of [
              { [name]: elsewhere },
              { extra_body: { [name]: elsewhere, api_key: "sk-x" } },
              { metadata: { [name]: elsewhere } },
              { litellm_params: { [name]: elsewhere } },
            ]
          ) await post({ model: "up/m", messages, ...where });
        }
        for (
          const name of ["x-base-url", "x-api-base", "x-forwarded-host", "x-upstream", "forwarded"]
        ) {
          assert.equal(await post({ model: "up/m", messages }, { [name]: elsewhere }), 200);
        }
      });

      await t.step("addresses of images and files", async () => {
        const { port } = canary;
        const urls = [
          `${elsewhere}/image.png`,
          `http://0x7f.1:${port}/a.png`,
          `http://2130706433:${port}/a.png`,
          `http://[::ffff:127.0.0.1]:${port}/a.png`,
          "http://169.254.169.254/latest/meta-data/",
        ];
        for (const model of ["up/m", "ant/m", "gem/m", "oll/m"]) {
          for (const url of urls) {
            const content = [{ type: "image_url", image_url: { url } }, {
              type: "text",
              text: "?",
            }];
            await post({ model, messages: [{ role: "user", content }] });
          }
        }
      });

      await t.step("redirects of a provider", async () => {
        for (const status of [301, 302, 303, 307, 308]) {
          const reply: Reply = { status, headers: { location: `${elsewhere}/chat/completions` } };
          upstream.script(reply);
          for (const model of ["up/m", "ant/m", "gem/m", "oll/m"]) {
            assert.ok(await post({ model, messages }) >= 400, String(status));
          }
        }
      });

      await t.step(
        "fields that smuggle, name a hop or carry the hub's key do not pass",
        async () => {
          upstream.script(chatCompletion({ text: "Hi" }));
          const before = upstream.requests.length;
          assert.equal(
            await post({ model: "up/m", messages }, {
              "x-evil": "1",
              "te": "trailers",
              "proxy-authorization": "Basic eA==",
              "x-forwarded-for": "10.0.0.1",
              "cookie": "a=b",
            }),
            200,
          );
          const sent = upstream.requests[before]?.headers ?? {};
          const names = Object.keys(sent).map((name) => name.toLowerCase());
          for (const name of ["x-evil", "te", "proxy-authorization", "x-forwarded-for", "cookie"]) {
            assert.ok(!names.includes(name), name);
          }
          assert.ok(
            !JSON.stringify(upstream.requests.map(({ headers }) => headers)).includes(hub.key),
          );
        },
      );

      assert.equal(canary.accepted, 0);
    });
  } finally {
    await canary.stop();
    await upstream.stop();
  }
});

Deno.test("a rate holds over replicas, and whatever address a client claims to come from", async () => {
  const upstream = await startScriptedUpstream(chatCompletion({ text: "Hi" }));
  const config = {
    providers: { up: { baseUrl: upstream.url, apiKey: "sk-up", maxRetries: 0 } },
    defaultModel: "up/m",
  };
  try {
    await withReplicas([config, config], async (first, second) => {
      const policy = { requestsPerMinute: 10 };
      const made = await (await first.call("/v1/admin/keys", { body: { name: "k", policy } }))
        .json();
      const answers = await Promise.all(
        Array.from({ length: 60 }, async (_, at) => {
          const answer = await (at % 2 === 0 ? first : second).call("/v1/chat/completions", {
            headers: {
              authorization: `Bearer ${made.token}`,
              "x-forwarded-for": `10.0.0.${at}`,
              "x-real-ip": `10.0.1.${at}`,
            },
            body: { model: "up/m", messages },
          });
          await answer.text();
          return answer;
        }),
      );
      const [counted] = await first.hub.start.db.read<{ requests: number }[]>`
        select hub.sum_of_slices(slices, 0, 0)::int as requests from hub.rate_slices`;
      const served = answers.filter(({ status }) => status === 200).length;
      assert.equal(served, upstream.requests.length);
      assert.equal(served, 10);
      assert.equal(served, counted?.requests);
      const refused = answers.filter(({ status }) => status === 429);
      assert.equal(served + refused.length, 60);
      assert.ok(refused.every(({ headers }) => Number(headers.get("retry-after")) >= 1));
    });
  } finally {
    await upstream.stop();
  }
});
