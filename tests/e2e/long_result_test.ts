import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { MAX_TOOL_RESULT_BYTES } from "../../src/core/limits.ts";
import type { RecordedRequest } from "../support/scripted_upstream.ts";
import { chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { type TestHub, withHub } from "../support/test_hub.ts";

const LINES = 5000;
const line = (number: number) => `entry ${number} of the list, äöü`;
const WHOLE = Array.from({ length: LINES }, (_, at) => line(at + 1)).join("\n");

interface ChatBody {
  messages: { role: string; content: string }[];
  tools: { function: { name: string } }[];
}

/** A call of the tool with this name, whatever it is called on the wire. */
function call(request: RecordedRequest, tool: string, input: JsonObject) {
  const { tools } = request.json as unknown as ChatBody;
  const name = tools.map((one) => one.function.name).find((one) => one.endsWith(tool));
  assert.ok(name !== undefined, `${tool} is offered`);
  return chatStream({ toolCalls: [{ name, arguments: input }] });
}

const lastMessage = (request: RecordedRequest) =>
  (request.json as unknown as ChatBody).messages.at(-1) ?? assert.fail("no message");

async function run(hub: TestHub): Promise<void> {
  const session = await (await hub.call("/v1/sessions", { body: {} })).json();
  const answer = await hub.call(`/v1/sessions/${session.id}/messages`, {
    body: { text: "Go", stream: false },
  });
  const { run } = await answer.json();
  assert.equal(run.finishReason, "stop");
}

Deno.test("a long result of a user's operation is cut for the model, kept, and read on", async () => {
  const upstream = await startScriptedUpstream();
  const config = {
    providers: { one: { baseUrl: upstream.url } },
    defaultModel: "one/m",
    operations: {
      modules: [new URL("../fixtures/operations/long_list.ts", import.meta.url).pathname],
    },
    agents: { default: { tools: ["test.*", "hub.read_result"] } },
  };
  const results: string[] = [];
  let ref = "";
  const keep = (request: RecordedRequest) => {
    const { role, content } = lastMessage(request);
    assert.equal(role, "tool");
    results.push(content);
    ref = /kept as (blob_[0-9a-f]{32})/.exec(content)?.[1] ?? ref;
  };
  const read = (request: RecordedRequest, input: JsonObject) =>
    call(request, "read_result", { ref, offset: null, limit: null, grep: null, ...input });
  try {
    await withHub(config, async (hub) => {
      upstream.script((request, index) => {
        if (index > 0) keep(request);
        if (index === 0) return call(request, "long_list", { lines: LINES });
        if (index === 1) return read(request, { offset: 2500, limit: 2 });
        if (index === 2) return read(request, { grep: "ENTRY 4321 " });
        return chatStream({ text: "Done" });
      });
      await run(hub);
      const [cut = "", page = "", found = ""] = results;
      const size = new TextEncoder().encode(cut).length;
      assert.ok(size <= MAX_TOOL_RESULT_BYTES && size > MAX_TOOL_RESULT_BYTES / 2, String(size));
      assert.ok(cut.startsWith(line(1)) && cut.endsWith(line(LINES)));
      assert.ok(!cut.includes(line(2500)));
      assert.deepEqual(page.split("\n").slice(0, 2), [
        `2500: ${line(2500)}`,
        `2501: ${line(2501)}`,
      ]);
      assert.match(page, /go on with offset 2502/);
      assert.equal(found.split("\n")[0], `4321: ${line(4321)}`);
      const kept = await hub.hub.start.db.read`select content from hub.blobs`;
      assert.deepEqual(kept.map((row) => row["content"]), [WHOLE]);

      results.length = 0;
      upstream.script((request) => {
        if (lastMessage(request).role === "user") return read(request, {});
        keep(request);
        return chatStream({ text: "Done" });
      });
      await run(hub);
      assert.match(results[0] ?? "", /No kept result "blob_[0-9a-f]+" in this session/);
    });
  } finally {
    await upstream.stop();
  }
});
