import assert from "node:assert/strict";
import { PAY } from "../support/approvals_rig.ts";
import { startHubProcess } from "../support/hub_process.ts";
import { startTestPostgres } from "../support/postgres.ts";
import {
  chatStream,
  type RecordedRequest,
  startScriptedUpstream,
} from "../support/scripted_upstream.ts";
import { eventually, startTestHub } from "../support/test_hub.ts";

const HOLD = new URL("../fixtures/operations/hold.ts", import.meta.url).pathname;

/** What each call of the step comes to, as its model reads it. */
const CALLS: [name: string, input: object, wanted: RegExp][] = [
  ["hub_calculate", { expression: "6*7" }, /^\{.*42/],
  ["hub_calculate", { expression: "1/0" }, /^Error: Division by zero/],
  ["hub_calculate", { wrong: 1 }, /^Error: .*expression/s],
  ["hub_nothing", {}, /^Error: .*hub_nothing/s],
  ["test_hold", {}, /^Error: The tool test.hold did not end within 1000 ms/],
  ["test_pay", { url: "http://127.0.0.1:1/", amount: 1 }, /^Error: .*denied/s],
];

const resultsIn = ({ messages }: RecordedRequest) =>
  messages.filter(({ role }) => role === "tool").map(({ content }) => String(content));

Deno.test("the model reads which calls failed, in the run, after a kill and in the next run", async () => {
  const upstream = await startScriptedUpstream();
  const postgres = await startTestPostgres({ migrated: false });
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-failed-" });
  const config = {
    providers: { one: { baseUrl: upstream.url } },
    defaultModel: "one/m",
    operations: { modules: [HOLD, PAY] },
    limits: { toolTimeoutMs: 1000 },
    runs: { leaseMs: 5000 },
  };
  const toolCalls = CALLS.map(([name, input]) => ({ name, arguments: input }));
  try {
    await Deno.writeTextFile(`${folder}/loophub.json`, JSON.stringify(config));
    upstream.script([
      chatStream({ toolCalls }),
      chatStream({ text: "One two three", endAfter: 2, end: "stall" }),
    ]);
    const first = await startHubProcess(folder, { DATABASE_URL: postgres.url });
    let key: string;
    let runId: string;
    let session: string;
    try {
      key = await eventually(() => first.key());
      const get = async (path: string) =>
        await (await fetch(first.url + path, { headers: { authorization: `Bearer ${key}` } }))
          .json();
      session = (await (await first.post("/v1/sessions", {})).json()).id;
      const stream = await first.post(`/v1/sessions/${session}/messages`, { text: "Go" });
      runId = stream.headers.get("x-loophub-run") ?? "";
      const read = stream.text().catch(() => "");
      const asked = await eventually(async () =>
        (await get(`/v1/runs/${runId}/approvals`)).data?.[0] ?? null
      );
      const denied = await first.post(`/v1/runs/${runId}/approvals/${asked.id}`, {
        approved: false,
        reason: "denied: too dear",
      });
      assert.equal(denied.status, 200, await denied.text());
      await upstream.until(() => upstream.requests.length >= 2);
      await first.end("SIGKILL");
      await read;
    } catch (error) {
      await first.end("SIGKILL");
      throw error;
    }
    const told = resultsIn(upstream.requests[1] ?? assert.fail("the model was asked once"));
    assert.equal(told.length, CALLS.length);
    for (const [index, [name, , wanted]] of CALLS.entries()) {
      assert.match(told[index] ?? "", wanted, name);
      assert.doesNotMatch(told[index] ?? "", /error:\s*error:/i, name);
    }

    upstream.script((_) => chatStream({ text: "Done" }));
    const dataDir = `${folder}/data`;
    const second = await startTestHub(config, { databaseUrl: postgres.url, dataDir, key });
    try {
      await eventually(async () =>
        (await (await second.call(`/v1/runs/${runId}`)).json()).status === "completed" ? true : null
      );
      await second.call(`/v1/sessions/${session}/messages`, {
        body: { text: "And now?", stream: false },
      });
      assert.deepEqual(upstream.requests.slice(2).map(resultsIn), [told, told]);
    } finally {
      await second.close();
    }
  } finally {
    await upstream.stop();
    await postgres.stop();
    await Deno.remove(folder, { recursive: true });
  }
});
