import assert from "node:assert/strict";
import {
  answer,
  approvalsOf,
  checkStreams,
  countOf,
  runOf,
  start,
  untilWaiting,
  withTwo,
} from "../support/approvals_rig.ts";

Deno.test("a person has ten minutes, unless the configuration says so", async () => {
  await withTwo({}, async ({ first, second, script }) => {
    script(1);
    const { runId, stream } = await start(first);
    const [asked] = await untilWaiting(second, runId);
    const tookMs = Date.parse(asked.expiresAt) - Date.parse(asked.createdAt);
    assert.equal(tookMs, 600_000);
    await answer(second, runId, asked.id, { approved: false });
    await checkStreams(stream, [first, second], runId);
  });
});

Deno.test("answers, a stop and the end of its time at once: one outcome, at most one effect", async () => {
  await withTwo({ approvalTimeoutMs: 600_000 }, async ({ first, second, paid, script }) => {
    const outcomes = new Map<string, number>();
    for (let round = 1; round <= 16; round++) {
      await first.hub.start.db.control`delete from hub.approval_grants`;
      script(round);
      const { runId, stream } = await start(round % 2 === 0 ? first : second);
      const [asked] = await untilWaiting(first, runId);
      const said = (approved: boolean) =>
        approved ? { approved, remember: "always" } : { approved };
      const stop = () => second.call(`/v1/runs/${runId}/stop`, { method: "POST" });
      const expire = () =>
        first.hub.start.db.control`update hub.approvals set expires_at = now()
          where state = 'pending'`;
      const racers: (() => Promise<unknown>)[] = [
        () => answer(first, runId, asked.id, said(true)),
        () => answer(second, runId, asked.id, said(true)),
        () => answer(second, runId, asked.id, said(false)),
        ...round % 4 === 1 ? [stop] : [],
        ...round % 4 === 2 ? [expire] : [],
        ...round % 4 === 3 ? [stop, expire] : [],
      ];
      const turned = [
        ...racers.slice(round % racers.length),
        ...racers.slice(0, round % racers.length),
      ];
      await Promise.all(turned.map((race) => race()));
      const events = await checkStreams(stream, [first, second], runId);
      const [{ state }] = await approvalsOf(second, runId);
      outcomes.set(state, (outcomes.get(state) ?? 0) + 1);
      assert.notEqual(state, "pending");
      assert.equal(countOf(events, "tool-approval-request"), 1);
      assert.equal(countOf(events, "tool-approval-response"), 1);
      const response = events.find((event) => event.type === "tool-approval-response");
      assert.equal(response?.approved, state === "approved");
      const effects = paid.filter((amount) => amount === `${round}`).length;
      const { status } = await runOf(first, runId);
      // A stop may come between an approval and its call.
      const least = state === "approved" && status === "completed" ? 1 : 0;
      assert.ok(effects >= least && effects <= (state === "approved" ? 1 : 0), `${round} ${state}`);
      const { data: grants } = await (await first.call("/v1/approvals/grants")).json();
      assert.equal(grants.length, state === "approved" ? 1 : 0, state);
    }
    assert.ok((outcomes.get("approved") ?? 0) > 0, JSON.stringify([...outcomes]));
  });
});
