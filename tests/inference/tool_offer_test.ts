import assert from "node:assert/strict";
import type { HubEvent } from "../../src/core/event.ts";
import { createFold } from "../../src/core/fold.ts";
import type { ModelRequest } from "../../src/core/model.ts";
import type { UIMessage } from "../../src/core/ui_message.ts";
import { offerTools } from "../../src/run/offer_tools.ts";
import { killedBehind, leftOf } from "./killed_rig.ts";
import {
  asks,
  makeTool,
  type Rig,
  type RigOptions,
  says,
  startRig,
  textResult,
} from "./loop_rig.ts";

const KINDS = ["invoice", "letter", "photo", "report", "ticket", "user"];
const VERBS = ["archive", "create", "delete", "list", "read", "share", "update", "watch"];

/** 48 tools, `archive.invoice` to `watch.user`. */
const ALL = VERBS.flatMap((verb) =>
  KINDS.map((kind) => makeTool(`${verb}.${kind}`, () => textResult(`${verb} ${kind} done`)))
);

function userSays(words: string): UIMessage {
  return {
    id: "msg_0",
    role: "user",
    parts: [{ type: "text", id: "p0", text: words, state: "done" }],
  };
}

function start(
  answers: RigOptions["answers"],
  { words = "Please read my invoice", most = 6, patterns = ["*"], ...rest }:
    & Partial<RigOptions>
    & { words?: string; most?: number; patterns?: string[]; tools?: typeof ALL } = {},
): Rig {
  const { tools, offer } = offerTools(rest.tools ?? ALL, { patterns, most, toolChoice: undefined });
  return startRig({
    history: [userSays(words)],
    ...rest,
    answers,
    tools: [...tools],
    run: { ...(offer === undefined ? {} : { offer }), ...rest.run },
  });
}

const namesOf = ({ tools }: ModelRequest) => tools.map(({ name }) => name);

function messageOf(events: readonly HubEvent[]): UIMessage {
  const fold = createFold();
  for (const event of events) fold.apply(event);
  return fold.message();
}

/** Each request shows what the one before it did, to the byte, and maybe more behind it. */
function assertGrows(requests: readonly ModelRequest[]): void {
  for (const [index, { tools }] of requests.entries()) {
    const before = requests[index - 1]?.tools ?? [];
    assert.equal(JSON.stringify(tools.slice(0, before.length)), JSON.stringify(before));
  }
}

Deno.test("as many tools as may be are all shown, and nobody searches", async () => {
  const rig = start([says("Done")], { most: ALL.length });
  await rig.done;
  assert.equal(rig.requests[0]?.tools.length, ALL.length);
  assert.ok(!rig.events.some(({ type }) => type === "data"));
  const unbounded = start([says("Done")], { most: 0 });
  await unbounded.done;
  assert.equal(unbounded.requests[0]?.tools.length, ALL.length);
});

Deno.test("of too many tools the model is shown those that fit the user's words, and one that finds others", async () => {
  const rig = start([says("Done")]);
  await rig.done;
  const [names = []] = rig.requests.map(namesOf);
  assert.deepEqual(names.slice(0, 2), ["hub_find_tools", "read_invoice"]);
  assert.equal(names.length, 6);
  assert.ok(names.slice(1).every((name) => /read|invoice/.test(name)), names.join());
});

Deno.test("tools that are spelled out are always there", async () => {
  const rig = start([says("Done")], { patterns: ["*", "watch.user", "share.photo"] });
  await rig.done;
  assert.deepEqual(rig.requests.map(namesOf)[0]?.slice(0, 3), [
    "hub_find_tools",
    "share_photo",
    "watch_user",
  ]);
});

Deno.test("what is found can be called from the next step on, behind what was there", async () => {
  const rig = start([
    asks(["hub_find_tools", { query: "delete a photo", limit: 2 }]),
    asks(["delete_photo", {}]),
    says("Done"),
  ]);
  await rig.done;
  const [first = [], second = [], third] = rig.requests.map(namesOf);
  assert.ok(!first.includes("delete_photo"));
  assert.deepEqual(second, [...first, "delete_photo", ...second.slice(first.length + 1)]);
  assert.deepEqual(third, second);
  assertGrows(rig.requests);
  assert.match(JSON.stringify(rig.events), /delete photo done/);
});

Deno.test("a tool that is called without having been shown runs, and is shown from then on", async () => {
  const rig = start([asks(["archive_ticket", {}]), says("Done")]);
  await rig.done;
  const [first = [], second = []] = rig.requests.map(namesOf);
  assert.deepEqual(second, [...first, "archive_ticket"]);
  assert.match(JSON.stringify(rig.events), /archive ticket done/);
});

Deno.test("whoever takes the run over shows the same tools, though others have come meanwhile", async () => {
  const answers = [
    asks(["hub_find_tools", { query: "delete a photo", limit: 2 }]),
    asks(["delete_photo", {}]),
    says("Done"),
  ];
  const whole = start(answers);
  await whole.done;
  const newcomer = makeTool("read.invoice_now", () => textResult(""));
  for (let batches = 1; batches < whole.batches.length; batches++) {
    const left = leftOf(await killedBehind(batches, (rest) => start(answers, rest)));
    const second = start(answers.slice(left.steps), {
      tools: [newcomer, ...ALL],
      isResumed: true,
      run: left.run,
    });
    await second.done;
    assert.deepEqual(
      second.requests.map(({ tools }) => tools),
      whole.requests.slice(left.steps).map(({ tools }) => tools),
      `after ${batches} batches`,
    );
  }
});

Deno.test("the next run of a session begins with what the one before it ended with, and adds what fits", async () => {
  const first = start([
    asks(["hub_find_tools", { query: "delete a photo", limit: 1 }]),
    says("Done"),
  ]);
  await first.done;
  const history = [
    userSays("Please read my invoice"),
    messageOf(first.events),
    userSays("Share a ticket"),
  ];
  const second = start([says("Done")], { history });
  await second.done;
  assertGrows([...first.requests, ...second.requests]);
  assert.ok(second.requests.map(namesOf)[0]?.includes("share_ticket"));
});

Deno.test("a session that has seen twice as many tools as it may begins anew", async () => {
  let history = [userSays("Please read my invoice")];
  const counts: number[] = [];
  for (const kind of ["photo", "letter", "report", "ticket", "user", "invoice"]) {
    const rig = start([says("Done")], { history: [...history, userSays(kind)] });
    await rig.done;
    counts.push(rig.requests[0]?.tools.length ?? 0);
    history = [...history, userSays(kind), messageOf(rig.events)];
  }
  assert.ok(Math.max(...counts) <= 12, counts.join());
  assert.ok(counts.includes(6), counts.join());
});

Deno.test("a run that has begun with all its tools goes on with them, though there are too many by now", async () => {
  const few = ALL.slice(0, 4);
  let steps = 0;
  const first = start([asks(["archive_invoice", {}]), says("Done")], {
    tools: few,
    isResumed: true,
    run: { mustLeave: () => steps++ > 0 },
  });
  await first.done;
  const second = start([says("Done")], {
    isResumed: true,
    run: { resume: { events: first.events, openCalls: [], decisions: [], costMicros: 0 } },
  });
  await second.done;
  assert.equal(second.requests[0]?.tools.length, ALL.length + 1);
});

Deno.test("no request shows more than 128 tools, however many are found, called or spelled out", async () => {
  const many = Array.from(
    { length: 300 },
    (_, at) => makeTool(`read.invoice_${at}`, () => textResult("")),
  );
  const far = makeTool("bake.bread", () => textResult("baked"));
  const tools = [...many, far];
  for (const patterns of [["*"], tools.map(({ name }) => name)]) {
    const rig = start([
      asks(["hub_find_tools", { query: "bread", limit: 1 }]),
      asks(["bake_bread", {}], ["read_invoice_299", {}]),
      says("Done"),
    ], { tools, most: 128, patterns });
    await rig.done;
    const [first = [], second = [], third = []] = rig.requests.map(namesOf);
    assert.ok(first.length > 100 && second.length <= 128 && third.length <= 128);
    assert.ok(!first.includes("bake_bread") && second.includes("bake_bread"));
    assert.ok(third.includes("hub_find_tools"));
    assert.match(JSON.stringify(rig.events), /baked/);
  }
});
