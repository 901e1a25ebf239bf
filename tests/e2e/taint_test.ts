import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { scripted } from "../mcp/rig.ts";
import { answer, PAY, start, startTill, untilWaiting } from "../support/approvals_rig.ts";
import { chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { eventually, withHub, withReplicas } from "../support/test_hub.ts";

type Call = [name: string, input: JsonObject];

Deno.test("an approval counts for what was read of others when it was given", async (t) => {
  const upstream = await startScriptedUpstream();
  const till = startTill();
  const dir = await Deno.realPath(await Deno.makeTempDir({ prefix: "loophub-taint-" }));
  await Deno.writeTextFile(`${dir}/a.txt`, "words of somebody\n");
  const page = { tools: [{ name: "page", inputSchema: { type: "object" } }] };
  const config = {
    providers: { one: { baseUrl: upstream.url } },
    defaultModel: "one/m",
    operations: { modules: [PAY] },
    workspace: { dir },
    mcpServers: { web: scripted(page, { effect: { page: "pure" } }) },
    agents: { default: { tools: ["test.*", "file.read", "web__*"] } },
    runs: { approvalTimeoutMs: 600_000 },
  };
  const read: Call = ["file_read", { path: "a.txt", offset: null, limit: null }];
  const fetchPage: Call = ["web__page", {}];
  const pay = (amount: number): Call => ["test_pay", { url: till.url, amount }];
  /** The model makes one call in each step. */
  const script = (...calls: Call[]) => {
    let next = 0;
    upstream.script(() => {
      const [name, input] = calls[next++] ?? [];
      if (name === undefined || input === undefined) return chatStream({ text: "Done" });
      return chatStream({ toolCalls: [{ name, arguments: input }] });
    });
  };
  try {
    await withReplicas([config, config], async (first, second) => {
      for (const { hub } of [first, second]) await hub.mcp.settled(60_000);
      const always = { approved: true, remember: "always" };
      const session = { approved: true, remember: "session" };

      await t.step("one from before is none for what was read since", async () => {
        script(pay(1));
        const before = await start(first);
        const [asked] = await untilWaiting(first, before.runId);
        assert.deepEqual(asked.tainted, []);
        await answer(first, before.runId, asked.id, always);
        await before.stream;

        script(pay(2), read, pay(3));
        const { runId, stream } = await start(second);
        const [again] = await untilWaiting(first, runId);
        assert.deepEqual([again.input.amount, again.tainted], [3, ["file"]]);
        assert.ok(till.paid.includes("2") && !till.paid.includes("3"));
        await answer(first, runId, again.id, { approved: false });
        await stream;
      });

      await t.step("one in sight of it counts, until something else is read", async () => {
        script(read, pay(10), pay(11), fetchPage, pay(12));
        const begun = await start(first);
        const [asked] = await untilWaiting(second, begun.runId);
        assert.deepEqual([asked.input.amount, asked.tainted], [10, ["file"]]);
        await answer(second, begun.runId, asked.id, session);
        const [, other] = await untilAsked(2);
        assert.deepEqual([other?.input.amount, other?.tainted], [12, ["file", "mcp:web"]]);
        assert.ok(till.paid.includes("11") && !till.paid.includes("12"));
        await answer(first, begun.runId, other?.id ?? "", session);
        await begun.stream;
        const { data: grants } = await (await second.call("/v1/approvals/grants")).json();
        assert.deepEqual(grants[0].tainted, ["file", "mcp:web"]);

        // The session's next run has read it all, and this was allowed.
        script(pay(13));
        const next = await start(second, { session: begun.session });
        assert.doesNotMatch(await next.stream, /tool-approval-request/);
        assert.ok(till.paid.includes("13"));

        async function untilAsked(count: number) {
          for (;;) {
            const all = await untilWaiting(second, begun.runId);
            if (all.length >= count) return all;
          }
        }
      });
    });
  } finally {
    await upstream.stop();
    await till.stop();
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("answers that a request brings count for an agent that may have read others' words", async (t) => {
  const upstream = await startScriptedUpstream();
  const till = startTill();
  const dir = await Deno.realPath(await Deno.makeTempDir({ prefix: "loophub-taint-" }));
  const approvals = { rules: [{ tools: ["test.*"], tier: "auto" }] };
  const reads = { tools: ["test.*", "file.read"], approvals };
  const config = {
    providers: { one: { baseUrl: upstream.url } },
    defaultModel: "one/m",
    operations: { modules: [PAY] },
    workspace: { dir },
    agents: {
      default: reads,
      careless: { ...reads, approvals: { ...approvals, tainted: "allow" } },
      teller: { tools: ["test.*"], approvals },
      boss: { tools: ["test.*"], agents: ["default"], approvals },
    },
    runs: { approvalTimeoutMs: 600_000 },
  };
  const again = [
    { role: "user", content: "Read the page" },
    { role: "assistant", content: "It says: pay" },
    { role: "user", content: "Go" },
  ];
  try {
    await withHub(config, async (hub) => {
      let amount = 0;
      const say = (agent: string, messages: JsonObject[]) => {
        amount++;
        upstream.script([
          chatStream({ toolCalls: [{ name: "test_pay", arguments: { url: till.url, amount } }] }),
          chatStream({ text: "Done" }),
        ]);
        return hub.call("/v1/chat/completions", { body: { model: `agent/${agent}`, messages } });
      };
      const pending = async () =>
        (await (await hub.call("/v1/approvals?status=pending")).json()).data;

      await t.step("nobody is asked where there are none, or where they cannot be", async () => {
        for (
          const [agent, messages] of [
            ["default", again.slice(2)],
            ["teller", again],
            ["careless", again],
          ] as const
        ) {
          const answer = await say(agent, [...messages]);
          assert.equal(answer.status, 200, await answer.text());
          assert.ok(till.paid.includes(String(amount)), agent);
        }
      });

      await t.step("a person is asked where they may be, also by way of an agent", async () => {
        for (const agent of ["default", "boss"]) {
          const answering = say(agent, again);
          const [asked] = await eventually(async () => {
            const found = await pending();
            return found.length === 0 ? null : found;
          });
          assert.deepEqual(asked.tainted, ["earlier answers"]);
          assert.ok(!till.paid.includes(String(amount)), agent);
          await answer(hub, asked.runId, asked.id, { approved: true });
          const answered = await answering;
          assert.equal(answered.status, 200, await answered.text());
          assert.ok(till.paid.includes(String(amount)), agent);
        }
      });
    });
  } finally {
    await upstream.stop();
    await till.stop();
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("what an agent has read for another counts on when its session is deleted", async () => {
  const upstream = await startScriptedUpstream();
  const till = startTill();
  const dir = await Deno.realPath(await Deno.makeTempDir({ prefix: "loophub-taint-" }));
  await Deno.writeTextFile(`${dir}/a.txt`, "words of somebody\n");
  try {
    await withHub({
      providers: { one: { baseUrl: upstream.url } },
      defaultModel: "one/m",
      operations: { modules: [PAY] },
      workspace: { dir },
      agents: {
        default: { tools: ["test.*"], agents: ["reader"] },
        reader: { tools: ["file.read"] },
      },
      runs: { approvalTimeoutMs: 600_000 },
    }, async (hub) => {
      upstream.script([
        chatStream({ toolCalls: [{ name: "agents_reader", arguments: { prompt: "Read" } }] }),
        chatStream({ toolCalls: [{ name: "file_read", arguments: { path: "a.txt" } }] }),
        chatStream({ text: "It says: pay" }),
        chatStream({ text: "Done" }),
      ]);
      const begun = await start(hub);
      assert.match(await begun.stream, /It says: pay/);
      const { data: sessions } = await (await hub.call("/v1/sessions?agent=reader")).json();
      assert.equal(sessions.length, 1);
      const path = `/v1/sessions/${sessions[0].id}`;
      assert.ok((await hub.call(path, { method: "DELETE" })).ok);

      const pay = { name: "test_pay", arguments: { url: till.url, amount: 1 } };
      upstream.script([chatStream({ toolCalls: [pay] }), chatStream({ text: "Done" })]);
      const { runId, stream } = await start(hub, { session: begun.session });
      const [asked] = await untilWaiting(hub, runId);
      assert.deepEqual(asked.tainted, ["file"]);
      await answer(hub, runId, asked.id, { approved: false });
      await stream;
      assert.deepEqual(till.paid, []);
    });
  } finally {
    await upstream.stop();
    await till.stop();
    await Deno.remove(dir, { recursive: true });
  }
});
