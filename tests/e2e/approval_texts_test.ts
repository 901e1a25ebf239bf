import assert from "node:assert/strict";
import { createShow } from "../../src/cli/show_event.ts";
import { answer, checkStreams, start, untilWaiting } from "../support/approvals_rig.ts";
import { scripted } from "../mcp/rig.ts";
import { chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { withReplicas } from "../support/test_hub.ts";

const HIDDEN = [
  "\u061c",
  "\u200b",
  "\u200e",
  "\u200f",
  "\u2028",
  "\u202e",
  "\u2060",
  "\u2066",
  "\ufeff",
]
  .concat(["\ufe0f", "\u3164", "\u115f", "\u{e0041}", "\u{e0100}", "\u00ad", "\u2800", "\x1b[2J"]);
const TEXT = HIDDEN.map((hidden) => `rm${hidden}x`).join(" ");
const UNSEEN = /(?![\n\t])[\p{C}\p{Default_Ignorable_Code_Point}\u2028\u2029\u2800]/u;

function assertVisible(text: string, what: string): void {
  const found = UNSEEN.exec(text);
  assert.equal(found, null, `${what}: U+${found?.[0].codePointAt(0)?.toString(16)} in ${text}`);
  assert.match(text, /rm\\+u200bx/, what);
  assert.match(text, /rm\\+u\{e0041\}x/, what);
}

Deno.test("approvals: a person sees every hidden character of a call, and the call has it as it was", async (t) => {
  const upstream = await startScriptedUpstream();
  const dir = await Deno.realPath(await Deno.makeTempDir({ prefix: "loophub-texts-" }));
  const rules = [{ effects: ["effect", "idempotent"], tier: "ask" }];
  const config = {
    providers: { one: { baseUrl: upstream.url } },
    defaultModel: "one/m",
    workspace: { dir },
    agents: { default: { tools: ["file.*", "one__*"], approvals: { rules } } },
    mcpServers: {
      one: scripted({
        tools: [{
          name: "say",
          inputSchema: { type: "object", properties: { text: { type: "string" } } },
        }],
      }),
    },
    runs: { approvalTimeoutMs: 600_000 },
  };
  const calls = [
    { name: "file_write", arguments: { path: "a.txt", content: TEXT } },
    { name: "one__say", arguments: { text: TEXT } },
  ] as const;
  try {
    await withReplicas([config, config], async (first, second) => {
      await first.hub.mcp.settled(60_000);
      for (const call of calls) {
        await t.step(call.name, async () => {
          let isFirst = true;
          upstream.script(() => {
            if (!isFirst) return chatStream({ text: "Done" });
            isFirst = false;
            return chatStream({ toolCalls: [call] });
          });
          const { runId, stream } = await start(first);
          const [asked] = await untilWaiting(second, runId);
          assertVisible(JSON.stringify(asked.input), "input over HTTP");
          assertVisible(JSON.stringify(asked.preview), "preview over HTTP");
          const all = await (await second.call("/v1/approvals?status=pending")).text();
          assertVisible(all, "the list of all");
          await answer(second, runId, asked.id, { approved: true, hash: asked.hash });
          const events = await checkStreams(stream, [first, second], runId);
          const request = events.find(({ type }) => type === "tool-approval-request");
          assert.ok(request?.type === "tool-approval-request");
          assertVisible(JSON.stringify(request.preview), "preview in the stream");
          assert.equal(
            JSON.stringify(request.input).includes("\u200b"),
            true,
            "the input of the event is what runs",
          );
          let shown = "";
          const screen = {
            printRaw: (text: string) => void (shown += text),
            printError: (line: string) => void (shown += `${line}\n`),
          };
          const show = createShow({ isTerminal: true, screen });
          for (const event of events) show(event);
          assertVisible(shown, "the terminal");
        });
      }
      assert.equal(await Deno.readTextFile(`${dir}/a.txt`), TEXT);
    });
  } finally {
    await upstream.stop();
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("preflight: a person sees every hidden character of a plan", async () => {
  const upstream = await startScriptedUpstream();
  const config = {
    providers: { one: { baseUrl: upstream.url } },
    defaultModel: "one/m",
    agents: { default: { preflight: { when: "always" } } },
    runs: { approvalTimeoutMs: 600_000 },
  };
  let isFirst = true;
  upstream.script(() => {
    if (!isFirst) return chatStream({ text: "Done" });
    isFirst = false;
    const steps = [
      { tool: `hub.${TEXT}`.slice(0, 190), purpose: TEXT },
      { tool: "hub.calculate", purpose: TEXT },
    ];
    return chatStream({ toolCalls: [{ name: "hub_propose_plan", arguments: { steps } }] });
  });
  try {
    await withReplicas([config, config], async (first, second) => {
      const { runId, stream } = await start(first);
      const [asked] = await untilWaiting(second, runId);
      const plan = await (await second.call(`/v1/runs/${runId}/preflight`)).text();
      assertVisible(plan, "the plan over HTTP");
      assertVisible(JSON.stringify(asked), "its approval over HTTP");
      await answer(second, runId, asked.id, { approved: true, hash: asked.hash });
      const events = await checkStreams(stream, [first, second], runId);
      const shown = events.filter((event) => event.type === "data" && event.name === "preflight");
      assertVisible(JSON.stringify(shown), "the plan in the stream");
    });
  } finally {
    await upstream.stop();
  }
});
