import assert from "node:assert/strict";
import { chatError, chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { startHubProcess } from "../support/hub_process.ts";
import { query } from "../support/query.ts";
import { eventually } from "../support/test_hub.ts";

const UPSTREAM_KEY = "canary-of-the-provider-1";
const HEADER = "canary-of-a-header-2";
const NAMED = "canary-behind-a-name-3";

Deno.test("the request id is in everything that is written of a request, and no secret is", async () => {
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-logs-" });
  await Deno.chmod(folder, 0o755);
  const upstream = await startScriptedUpstream();
  const config = {
    log: { level: "debug" },
    providers: {
      up: {
        baseUrl: upstream.url,
        apiKey: "${UP_KEY}",
        headers: { "x-team": "${TEAM}" },
        maxRetries: 1,
      },
    },
    defaultModel: "up/m",
  };
  await Deno.writeTextFile(`${folder}/loophub.json`, JSON.stringify(config));
  const words = `${UPSTREAM_KEY} of ${HEADER} is wrong: {"password":"${NAMED}"}`;
  const env = { UP_KEY: UPSTREAM_KEY, TEAM: HEADER };
  try {
    const hub = await startHubProcess(folder, env);
    let lines: Record<string, unknown>[] = [];
    let usage = "";
    let key = "";
    try {
      key = await eventually(() => hub.key() ?? undefined);
      const post = async (path: string, body: object, requestId: string) => {
        const answer = await fetch(hub.url + path, {
          method: "POST",
          headers: {
            authorization: `Bearer ${key}`,
            "content-type": "application/json",
            "x-request-id": requestId,
          },
          body: JSON.stringify(body),
        });
        assert.equal(answer.headers.get("x-request-id"), requestId);
        return await answer.text();
      };
      const messages = [{ role: "user", content: `say ${NAMED}` }];
      upstream.script([
        chatError(500, { message: words }),
        chatStream({ text: words }),
        chatError(400, { message: words }),
        chatError(500, { message: words }),
        chatError(400, { message: words }),
      ]);
      await post("/v1/chat/completions", { model: "up/m", stream: true, messages }, "trace-again");
      await post("/v1/chat/completions", { model: "up/m", messages }, "trace-refused");
      const session = JSON.parse(await post("/v1/sessions", {}, "trace-session"));
      const path = `/v1/sessions/${session.id}/messages`;
      await post(path, { text: `say ${NAMED}` }, "trace-run");
      usage = await eventually(async () => {
        const text = "select distinct request_id from hub.usage order by 1";
        const rows = await query<{ request_id: string }>(hub.psql, text);
        const found = rows.map(({ request_id }) => request_id).join("\n");
        return rows.length >= 3 ? found : undefined;
      });
    } finally {
      await hub.end("SIGINT");
    }
    lines = hub.err().trim().split("\n").map((line) => JSON.parse(line));
    const written = (requestId: string) =>
      lines.filter((line) => line["requestId"] === requestId).map((line) => line["message"]);
    assert.deepEqual(written("trace-again"), [
      "Trying a provider again",
      "A model answers",
      "request",
    ]);
    const told = lines.find((line) => line["message"] === "A model answers");
    assert.match(String(told?.["attempts"]), /^up\/m;upstream_error;500;\d+, up\/m;ok;200;\d+$/);
    assert.deepEqual(written("trace-session"), ["request"]);
    assert.ok(written("trace-refused").includes("request"));
    assert.ok(written("trace-run").includes("A model call failed"));
    assert.deepEqual(usage.split("\n"), ["trace-again", "trace-refused", "trace-run"]);
    const others = lines.filter((line) => "runId" in line && line["requestId"] !== "trace-run");
    assert.deepEqual(others, []);
    for (const secret of [UPSTREAM_KEY, HEADER, NAMED, key]) {
      assert.ok(!hub.err().includes(secret), `${secret} is in the log`);
    }
    assert.match(hub.err(), /\[redacted\]/);
  } finally {
    await upstream.stop();
    await Deno.remove(folder, { recursive: true });
  }
});
