import assert from "node:assert/strict";
import {
  Client,
  type ClientOptions,
  StreamableHTTPClientTransport,
} from "@modelcontextprotocol/client";
import type { JsonObject } from "../../src/core/json.ts";
import { readQuestion } from "../../src/core/run_question.ts";
import { withAsking } from "../support/asking_server.ts";
import { logOf } from "../support/log_of.ts";
import { chatStream } from "../support/scripted_upstream.ts";
import { eventually, type TestHub } from "../support/test_hub.ts";

const WISH = {
  messages: [{ role: "user", content: { type: "text", text: "What is 2?" } }],
  maxTokens: 9,
};

/** A client of revision 2026-07-28 that can be asked this. */
async function connect(
  hub: TestHub,
  capabilities: NonNullable<ClientOptions["capabilities"]>,
  asked: string[] = [],
): Promise<Client> {
  const client = new Client({ name: "test", version: "1" }, {
    capabilities,
    versionNegotiation: { mode: { pin: "2026-07-28" } },
  });
  if (capabilities.elicitation !== undefined) {
    client.setRequestHandler("elicitation/create", ({ params }) => {
      asked.push(`${params.message}${"url" in params ? ` ${params.url}` : ""}`);
      return { action: "accept", ..."url" in params ? {} : { content: { colour: "red" } } };
    });
  }
  if (capabilities.sampling !== undefined) {
    client.setRequestHandler("sampling/createMessage", () => {
      const content = { type: "text" as const, text: "by the client" };
      return { role: "assistant" as const, model: "its own", content };
    });
  }
  if (capabilities.roots !== undefined) {
    client.setRequestHandler("roots/list", () => ({ roots: [{ uri: "file:///of/client" }] }));
  }
  const requestInit = { headers: { authorization: `Bearer ${hub.key}` } };
  await client.connect(
    new StreamableHTTPClientTransport(new URL(`${hub.url}/mcp`), { requestInit }),
  );
  return client;
}

async function call(client: Client, name: string, input: JsonObject = {}): Promise<string> {
  return JSON.stringify(await client.callTool({ name, arguments: input }));
}

const asking = {
  era: "modern" as const,
  servers: {
    peer: {},
    able: { sampling: { model: "up/small" }, roots: ["/srv/docs"] },
    never: { sampling: false },
  },
};

Deno.test("what a server asks by its result goes to a client that is asked so, with its answers back", async () => {
  await withAsking(asking, async ({ hub, upstream }) => {
    upstream.script(() => chatStream({ text: "by the hub" }));
    const asked: string[] = [];
    const able = await connect(
      hub,
      { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} },
      asked,
    );
    const shy = await connect(hub, {});
    try {
      const both = await Promise.all([1, 2].map(() => call(able, "peer__paint")));
      for (const painted of both) assert.match(painted, /accept.*red/);
      assert.deepEqual(asked, ["peer: Which\\u202e colour?", "peer: Which\\u202e colour?"]);
      assert.match(await call(able, "peer__visit"), /accept/);
      assert.equal(asked.at(-1), "peer: Open this https://example.com/sign?in=1");
      assert.match(await call(able, "peer__think", WISH), /by the client/);
      assert.match(await call(able, "peer__places"), /of\/client/);
      assert.equal(upstream.requests.length, 0);

      // What the hub has was configured for, and asks no client.
      assert.match(await call(able, "able__think", WISH), /by the hub/);
      assert.match(await call(able, "able__places"), /srv\/docs/);
      assert.match(await call(shy, "able__think", WISH), /by the hub/);
      assert.match(await call(able, "never__think", WISH).catch(String), /never|ask|capab/i);

      for (const tool of ["paint", "visit", "think", "places"]) {
        await assert.rejects(call(shy, `peer__${tool}`, WISH), { code: -32021 });
      }
    } finally {
      await able.close();
      await shy.close();
    }
  });
});

Deno.test("calls of one step of a run are asked apart by servers that say whose question it is", async () => {
  await withAsking(asking, async ({ hub, upstream }) => {
    upstream.script((_, index) =>
      index > 0 ? chatStream({ text: "Done" }) : chatStream({
        toolCalls: [1, 2].map((size) => ({ name: "peer__paint", arguments: { size } })),
      })
    );
    const session = await (await hub.call("/v1/sessions", { body: {} })).json();
    const reply = await hub.call(`/v1/sessions/${session.id}/messages`, { body: { text: "Go" } });
    const runId = reply.headers.get("x-loophub-run") ?? "";
    const text = reply.text();
    const questions: { id: string; toolCallId: string }[] = await eventually(async () => {
      const found = await (await hub.call(`/v1/runs/${runId}/questions`)).json();
      return found.data.length === 2 ? found.data : null;
    });
    assert.equal(new Set(questions.map(({ toolCallId }) => toolCallId)).size, 2);
    const colours = ["red", "blue"];
    for (const [at, { id }] of questions.entries()) {
      const body = { action: "accept", content: { colour: colours[at] ?? "" } };
      assert.equal((await hub.call(`/v1/runs/${runId}/questions/${id}`, { body })).status, 200);
    }
    const events = logOf(await text).map(({ event }) => event);
    for (const [at, { toolCallId }] of questions.entries()) {
      const output = events.find((event) =>
        event.type === "tool-output-available" && event.toolCallId === toolCallId
      );
      const told = JSON.stringify(output);
      assert.match(told, new RegExp(`colour[^,]*${colours[at]}`));
      assert.match(told, /size[^,]*7/);
    }
    const states = events.flatMap((event) =>
      event.type === "data" ? readQuestion(event)?.state ?? [] : []
    );
    assert.deepEqual(states.toSorted(), ["answered", "answered", "pending", "pending"]);
  });
});
