import assert from "node:assert/strict";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema, type ElicitResult } from "@modelcontextprotocol/sdk/types.js";
import { withAsking } from "../support/asking_server.ts";
import { chatStream } from "../support/scripted_upstream.ts";
import { eventually, type TestHub } from "../support/test_hub.ts";

/** A client of the v1 package; it takes questions when there is something to answer them with. */
async function connect(hub: TestHub, answer?: (message: string) => ElicitResult): Promise<Client> {
  const capabilities = answer === undefined ? {} : { elicitation: {} };
  const client = new Client({ name: "test", version: "1" }, { capabilities });
  if (answer !== undefined) {
    client.setRequestHandler(
      ElicitRequestSchema,
      ({ params }: { params: { message: string } }) => answer(params.message),
    );
  }
  const requestInit = { headers: { authorization: `Bearer ${hub.key}` } };
  const transport = new StreamableHTTPClientTransport(new URL(`${hub.url}/mcp`), { requestInit });
  await client.connect(transport as Parameters<typeof client.connect>[0]);
  return client;
}

async function paint(client: Client, name = "peer__paint"): Promise<unknown> {
  const { content } = await client.callTool({ name, arguments: {} });
  return JSON.parse((content as { text: string }[])[0]?.text ?? "");
}

for (const era of ["legacy", "modern"] as const) {
  Deno.test(`a question of a ${era} server goes to the client that called, and only there`, async () => {
    const agent = { questions: false };
    await withAsking({ era, agent, servers: { peer: {} } }, async ({ hub, server, upstream }) => {
      const asked: string[] = [];
      const able = await connect(hub, (message) => {
        asked.push(message);
        return { action: "accept", content: { colour: "red" } };
      });
      const shy = await connect(hub);
      try {
        const accepted = JSON.stringify(await paint(able));
        assert.match(accepted, /"accept"/);
        assert.match(accepted, /"colour":"red"/);
        assert.match(accepted, /"size":7/);
        assert.deepEqual(asked, ["peer: Which\\u202e colour?"]);
        assert.match(JSON.stringify(await paint(shy)), /"decline"/);

        const waiting = shy.callTool({ name: "peer__wait", arguments: {} });
        await eventually(() => server.seen.waiting === 1 || null);
        // Older servers do not say which of several calls a question is for.
        const isTold = era === "modern";
        const beside = JSON.stringify(await paint(able));
        assert.match(beside, isTold ? /"accept"/ : /"decline"/);
        server.letGo();
        await waiting;
        const times = isTold ? 2 : 1;
        assert.equal(asked.length, times);

        upstream.script((_, index) =>
          index > 0 ? chatStream({ text: "Done" }) : chatStream({
            toolCalls: [{ name: "peer__paint", arguments: {} }],
          })
        );
        const session = await (await hub.call("/v1/sessions", { body: {} })).json();
        const answer = await hub.call(`/v1/sessions/${session.id}/messages`, {
          body: { text: "Paint it" },
        });
        assert.match(await answer.text(), /tool-output-available.*decline/);
        assert.equal(asked.length, times);
      } finally {
        await able.close();
        await shy.close();
      }
    });
  });
}
