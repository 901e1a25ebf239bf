import assert from "node:assert/strict";
import { type AskedHub, askList } from "../../src/cli/ask_hub.ts";
import { Commands } from "../../src/cli/chat/commands.ts";
import { Talk } from "../../src/cli/chat/talk.ts";
import type { Json } from "../../src/core/json.ts";
import { createFakeClock } from "../support/fake_clock.ts";

/** A hub that answers everything with the same. */
const hubThatSays = (body: Json): AskedHub => ({
  name: "the hub",
  send: () => Promise.resolve(Response.json(body)),
});

Deno.test("a list is read from data, and from its former name", async () => {
  const one = { id: "1" };
  const rows: [path: string, formerName: string][] = [
    ["/v1/sessions?limit=20", "sessions"],
    ["/v1/sessions/ses_1/messages?limit=200", "messages"],
    ["/v1/agents", "agents"],
    ["/v1/skills?agent=default", "skills"],
  ];
  for (const [path, formerName] of rows) {
    for (const name of ["data", formerName]) {
      const answer = { [name]: [one, "no object"], nextCursor: "c", invalid: [] };
      assert.deepEqual(
        await askList(hubThatSays(answer), path),
        { items: [one], nextCursor: "c", answer },
        `${path} ${name}`,
      );
    }
    const both = { data: [one], [formerName]: [] };
    assert.deepEqual((await askList(hubThatSays(both), path)).items, [one]);
  }
});

Deno.test("an answer without a list is refused, not an empty list", async () => {
  for (const answer of [{}, { items: [] }, { agents: [] }, { data: {} }, { data: null }]) {
    await assert.rejects(askList(hubThatSays(answer), "/v1/sessions?limit=20"), {
      name: "HubRefusal",
      message: "The hub answered /v1/sessions without a list (`data`): " +
        "it is no hub of this version or the one before",
    });
  }
});

Deno.test("a chat with a hub of the former version shows its sessions", async () => {
  const lines: string[] = [];
  const terminal = {
    isInteractive: false,
    next: () => Promise.resolve(null),
    printRaw() {},
    printError: (line: string) => void lines.push(line),
    close() {},
  };
  const chatWith = async (body: Json) => {
    const hub = hubThatSays(body);
    const talk = new Talk({
      ...{ hub, terminal, clock: createFakeClock(), signal: new AbortController().signal },
      ...{ command: () => Promise.resolve(false), nextId: () => "id", extra: {} },
    }, { sessionId: null, agent: null });
    await new Commands({ hub, terminal, talk, leave() {} }).run("/sessions");
    return lines.splice(0);
  };
  const session = { id: "ses_1", agent: "default", messageCount: 2, title: "Hello" };
  assert.match(
    (await chatWith({ sessions: [session] })).join(),
    /1 {2}ses_1 .* 2 messages {2}Hello/,
  );
  assert.deepEqual(await chatWith({ sessions: [] }), ["There are no sessions"]);
  await assert.rejects(chatWith({ found: [session] }), /without a list/);
});
