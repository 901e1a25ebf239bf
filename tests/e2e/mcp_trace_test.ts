import assert from "node:assert/strict";
import { chatStream } from "../support/scripted_upstream.ts";
import { withRecorder } from "../support/mcp_recorder.ts";
import { startHttpMcpServer } from "../mcp/http_server.ts";

const CONFIGURED = "configured-canary-31337";
const HANDED = "handed-canary-271828";

const root = new URL("../../", import.meta.url).pathname;

async function command(args: string[], env: Record<string, string> = {}) {
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "src/main.ts", "mcp", ...args],
    cwd: root,
    env: { NO_COLOR: "1", ...env },
  }).output();
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  return { code, out: text(stdout), err: text(stderr) };
}

Deno.test("a traced server's messages are shown by the running hub, without secrets; others' are not kept", async () => {
  const traced = startHttpMcpServer();
  traced.echoes = true;
  try {
    await withRecorder(async ({ first, upstream }) => {
      upstream.script([
        chatStream({ toolCalls: [{ name: "traced__good", arguments: { n: 7 } }] }),
        chatStream({ text: "Done." }),
      ]);
      const session = await (await first.call("/v1/sessions", { body: {} })).json();
      const answer = await first.call(`/v1/sessions/${session.id}/messages`, {
        body: { text: "Go" },
        headers: { "x-mcp-auth-traced": HANDED },
      });
      assert.match(await answer.text(), /Done\./);

      const logs = await first.call("/v1/admin/mcp/traced/logs");
      const text = await logs.text();
      const { traced: isTraced, data } = JSON.parse(text);
      assert.equal(isTraced, true);
      const kinds = new Set(data.map(({ kind }: { kind: string }) => kind));
      for (const kind of ["connect", "connected", "sent", "received", "closed"]) {
        assert.ok(kinds.has(kind), kind);
      }
      assert.match(text, /tools\/call/);
      assert.match(text, /\[redacted\]/);
      for (const secret of [CONFIGURED, HANDED, first.key]) assert.ok(!text.includes(secret));
      const last = data.at(-1).number;
      const rest = await (await first.call(`/v1/admin/mcp/traced/logs?after=${last}`)).json();
      assert.deepEqual(rest.data, []);
      const other = await (await first.call("/v1/admin/mcp/plain/logs")).json();
      assert.deepEqual([other.traced, other.data], [false, []]);
      assert.equal((await first.call("/v1/admin/mcp/nobody/logs")).status, 404);

      const hub = ["--url", first.url];
      const env = { LOOPHUB_KEY: first.key };
      const status = await command(["status", ...hub], env);
      assert.deepEqual([status.code, status.out], [
        0,
        "plain: ready, 1 tools\ntraced: ready, 1 tools\n",
      ]);
      const shown = await command(["logs", "traced", ...hub], env);
      assert.equal(shown.code, 0, shown.err);
      assert.match(shown.out, /^\d{4}-.* connect http.*\n[\s\S]* sent .*tools\/call/);
      assert.match((await command(["list", ...hub], env)).out, /^plain {2}http {2}plain__\*\n/);
      assert.match((await command(["tools", "plain", ...hub], env)).out, /^plain__good/);
      const wrong = await command(["test", ...hub], { LOOPHUB_KEY: "lh_wrong" });
      assert.equal(wrong.code, 1);
      assert.match(wrong.err, /answered 401/);
      assert.equal((await command(["status", ...hub], { LOOPHUB_KEY: "" })).code, 2);
      traced.refuse(503);
    }, {
      mcpServers: {
        traced: { url: traced.url, headers: { "x-own": CONFIGURED }, trace: true },
        plain: { url: traced.url },
      },
    });
  } finally {
    await traced.stop();
  }
});
