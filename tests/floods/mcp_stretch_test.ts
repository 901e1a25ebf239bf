import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { eventually } from "../support/test_hub.ts";
import { bestStretch, MOST_MS, slowWords } from "./best_stretch.ts";
import { answerOf, HOSTILE_RESULTS } from "./mcp_shapes.ts";
import { withMeteredHub } from "./with_metered_hub.ts";

/** The index of a search for tools, and the hub's own list for MCP clients, are made at once. */
const LIST_MS = 100;

/** The same over HTTP, as whole answers and as streams. */
function startHttp(asStream: boolean) {
  let opened = 0;
  const http = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, async (request) => {
    if (request.method !== "POST") return new Response(null, { status: 405 });
    const message = await request.json();
    if (message.method === "initialize") opened++;
    const answer = answerOf(message, { facts: { server: opened }, grown: 0 });
    if (answer === null) return new Response(null, { status: 202 });
    return asStream
      ? new Response(`event: message\ndata: ${answer}\n\n`, {
        headers: { "content-type": "text/event-stream" },
      })
      : new Response(answer, { headers: { "content-type": "application/json" } });
  });
  return { url: `http://127.0.0.1:${http.addr.port}/mcp`, stop: () => http.shutdown() };
}

Deno.test("no result of an MCP server holds the event loop, ends its connection or stays unclear", {
  ignore: Deno.build.os !== "linux",
}, async (t) => {
  const upstream = await startScriptedUpstream(({ json }) => {
    const { messages } = json as { messages: { role: string; content: string }[] };
    const last = messages.at(-1);
    return last?.role === "tool"
      ? chatStream({ text: last.content })
      : chatStream({ toolCalls: [{ name: last?.content ?? "", arguments: {} }] });
  });
  const whole = startHttp(false);
  const streamed = startHttp(true);
  const settings = { trust: true, effect: { "*": "pure" }, connectTimeoutMs: 120_000 };
  const servers: Record<string, JsonObject> = {
    stdio: {
      command: Deno.execPath(),
      args: ["run", "-A", new URL("mcp_program.ts", import.meta.url).pathname],
      env: { NO_COLOR: "1", DENO_NO_UPDATE_CHECK: "1" },
    },
    whole: { type: "http", url: whole.url },
    streamed: { type: "http", url: streamed.url },
  };
  const config = {
    providers: { up: { baseUrl: upstream.url, apiKey: "sk-up" } },
    defaultModel: "up/m",
    agents: {
      default: { tools: ["*__*", "hub.read_result"] },
      one: { tools: ["stdio__tool_*_7"] },
    },
    mcpServers: Object.fromEntries(
      Object.entries(servers).map(([name, server]) => [name, { ...settings, ...server }]),
    ),
  };
  const slow: string[] = [];
  try {
    await withMeteredHub(config, async (hub) => {
      const call = async (name: string, agent = "default") => {
        const answer = await fetch(`${hub.url}/v1/chat/completions`, {
          method: "POST",
          headers: { authorization: `Bearer ${hub.key}`, "content-type": "application/json" },
          body: JSON.stringify({
            model: `agent/${agent}`,
            messages: [{ role: "user", content: name }],
          }),
        });
        const { choices } = await answer.json();
        return String(choices?.[0]?.message?.content);
      };
      const measure = async (name: string, work: () => Promise<void>, upTo = MOST_MS) => {
        const longest = await bestStretch(hub, { upTo, work });
        if (longest.cpuMs >= upTo) slow.push(slowWords(name, longest));
      };
      for (const server of Object.keys(servers)) {
        await t.step(server, async () => {
          const facts = await eventually(async () => {
            const text = await call(`${server}__facts`);
            return text.includes("server") ? text : null;
          }, 120_000);
          for (const { tool, reads } of HOSTILE_RESULTS) {
            await measure(`${server}, ${tool}`, async () => {
              const text = await call(`${server}__${tool}`);
              assert.match(text, reads, `${server}, ${tool}: ${text.slice(0, 300)}`);
            });
          }
          assert.equal(await call(`${server}__facts`), facts, "it is another connection");
        });
      }
      await t.step("a long list of tools", async () => {
        let grown = 0;
        await measure("a long list of tools", async () => {
          grown++;
          await call("stdio__grow");
          await eventually(async () =>
            /server/.test(await call(`stdio__tool_${grown}_7`, "one")) || null
          );
          await call("stdio__facts");
        }, LIST_MS);
      });
    });
  } finally {
    await Promise.all([upstream.stop(), whole.stop(), streamed.stop()]);
  }
  assert.deepEqual(slow, []);
});
