/**
 * The AI SDK's own chats of several versions against a running hub: approvals as applications of these versions give
 * them, messages that are edited after a reload, answers that are stopped and made again. Usage: deno task peers:chat
 */
import assert from "node:assert/strict";
import type { AiSdkMessage } from "../../../src/wire/ai_sdk_message.ts";
import type { AiSdkLevel } from "../../../src/wire/ai_sdk_chunk.ts";
import { type AiPackage, type Chat, createChat, loadAiPackage } from "./ai_package.ts";
import { shownParts } from "./expected_message.ts";

/** Versions and what their applications say that they understand. */
const PEERS: [version: string, level: AiSdkLevel][] = [
  ["5.0.277", 5],
  ["6.0.231", 6],
  ["6.0.326", 6],
  ["7.0.32", 6],
  ["7.0.71", 7],
  ["7.0.173", 7],
];

interface Hub {
  url: string;
  key: string;
}

interface Page {
  chat: Chat;
  errors: Error[];
  tool(): ShownTool;
}

interface ShownTool {
  state: string;
  output?: unknown;
  approval?: { id: string };
}

/** Waits for what a chat does by itself; what never comes fails after half a minute. */
async function eventually<T>(ask: () => Promise<T | null> | T | null): Promise<T> {
  const untilMs = performance.now() + 30_000;
  for (;;) {
    const answer = await ask();
    if (answer !== null) return answer;
    if (performance.now() > untilMs) throw new Error("It did not happen within 30 s");
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

class Client {
  readonly #ai: AiPackage;
  readonly #hub: Hub;
  readonly #level: AiSdkLevel;

  constructor(ai: AiPackage, hub: Hub, level: AiSdkLevel) {
    this.#ai = ai;
    this.#hub = hub;
    this.#level = level;
  }

  call(path: string, body?: unknown): Promise<Response> {
    return fetch(this.#hub.url + path, {
      method: body === undefined ? "GET" : "POST",
      headers: { authorization: `Bearer ${this.#hub.key}`, "content-type": "application/json" },
      ...body === undefined ? {} : { body: JSON.stringify(body) },
    });
  }

  /** The page of a chat, with the history that the hub has of it. */
  async open(id: string): Promise<Page> {
    const { chat, seen } = createChat(this.#ai, await this.history(id), async (request) => {
      const { pathname, search } = new URL(request.url);
      const headers = new Headers(request.headers);
      headers.set("authorization", `Bearer ${this.#hub.key}`);
      headers.set("hub-stream-level", String(this.#level));
      const { method, signal } = request;
      const body = method === "POST" ? await request.text() : null;
      const url = this.#hub.url + pathname + search;
      return await fetch(url, { method, headers, signal, ...body === null ? {} : { body } });
    }, {
      id,
      ...this.#ai.lastAssistantMessageIsCompleteWithApprovalResponses === undefined ? {} : {
        sendAutomaticallyWhen: this.#ai.lastAssistantMessageIsCompleteWithApprovalResponses,
      },
    });
    return {
      chat,
      errors: seen.errors,
      tool() {
        const parts: unknown[] = chat.messages.at(-1)?.parts ?? [];
        const tool = parts.find((part) =>
          (part as { type: string }).type === "dynamic-tool"
        );
        return (tool ?? { state: "none" }) as ShownTool;
      },
    };
  }

  async history(id: string): Promise<AiSdkMessage[]> {
    const answer = await this.call(`/api/chat/${id}/messages`);
    assert.equal(answer.status, 200);
    return (await answer.json()).data;
  }

  /** What the page shows is what it shows after it is loaded again. */
  async checkHistory(id: string, { chat, errors }: Page): Promise<void> {
    assert.deepEqual(errors, []);
    assert.equal(chat.status, "ready");
    const stored = await this.history(id);
    assert.deepEqual(chat.messages.map(({ role }) => role), stored.map(({ role }) => role));
    for (const [index, message] of stored.entries()) {
      const shown = chat.messages[index];
      if (message.role === "user") continue;
      assert.equal(shown?.id, message.id);
      const denied = (part: Record<string, unknown>) => {
        if (part["state"] !== "output-denied") return part;
        const { errorText: _, ...rest } = part;
        return { ...rest, state: "output-error" };
      };
      const bare = (parts: readonly unknown[]) =>
        shownParts(parts).map(denied).map(({ errorText: _, ...part }: Record<string, unknown>) =>
          part
        );
      assert.deepEqual(bare(shown?.parts ?? []), bare(message.parts));
    }
  }
}

async function checkApprovals(client: Client, name: string): Promise<void> {
  for (const approved of [true, false]) {
    for (const isReloaded of [false, true]) {
      const id = `${name}-${approved}-${isReloaded}`;
      let page = await client.open(id);
      await page.chat.sendMessage({ text: "pay 5" });
      assert.equal(page.chat.status, "ready", page.errors.join());
      if (isReloaded) {
        page = await client.open(id);
        await page.chat.resumeStream();
      }
      const asked = page.tool();
      assert.equal(asked.state, "approval-requested");
      const parts: { type: string; data?: { risk?: string; state?: string } }[] =
        page.chat.messages.at(-1)?.parts ?? [];
      const told = parts.find(({ type }) => type === "data-approval");
      assert.deepEqual([told?.data?.risk, told?.data?.state], ["high", "requested"]);
      await page.chat.addToolApprovalResponse?.({ id: asked.approval?.id ?? "", approved });
      const wanted = approved ? "output-available" : "output-denied";
      await eventually(() =>
        page.tool().state === wanted && page.chat.status === "ready" ? true : null
      );
      if (!isReloaded) await client.checkHistory(id, page);
      assert.deepEqual(page.errors, []);
      assert.equal(page.chat.messages.at(-1)?.metadata?.["finishReason"], "stop");

      await page.chat.sendMessage({ text: "and now" });
      assert.equal(page.chat.messages.at(-1)?.metadata?.["finishReason"], "stop");
      assert.deepEqual(page.errors, []);
    }
  }
}

/** A page that is loaded again edits an earlier message; then an answer is stopped, and made again. */
async function checkRewrites(client: Client, name: string): Promise<void> {
  const first = await client.open(name);
  for (const text of ["one", "two", "three"]) await first.chat.sendMessage({ text });
  await client.checkHistory(name, first);
  const page = await client.open(name);
  const edited = page.chat.messages[2];
  assert.equal(edited?.id, first.chat.messages[2]?.id);
  await page.chat.sendMessage({ text: "two again", messageId: edited?.id ?? "" });
  await client.checkHistory(name, page);
  assert.deepEqual(page.chat.messages.map(({ role }) => role), [
    ...["user", "assistant", "user", "assistant"],
  ]);

  const said = page.chat.sendMessage({ text: "slow" });
  await eventually(() => page.chat.status === "streaming" ? true : null);
  await page.chat.stop();
  const stopped = await client.call(`/api/chat/${name}/stop`, {});
  assert.equal(stopped.status, 202);
  await stopped.body?.cancel();
  await said;
  await page.chat.regenerate();
  await client.checkHistory(name, page);
  assert.equal(page.chat.messages.at(-1)?.metadata?.["finishReason"], "stop");
}

/** Clients that know no approvals show them as data, and the answer goes to the API. */
async function checkDataApprovals(client: Client, name: string): Promise<void> {
  const page = await client.open(name);
  const said = page.chat.sendMessage({ text: "pay 5" });
  const pending = await eventually(async () => {
    const { data: approvals } = await (await client.call("/v1/approvals?status=pending")).json();
    return approvals[0] ?? null;
  });
  const answer = await client.call(`/v1/runs/${pending.runId}/approvals/${pending.id}`, {
    approved: true,
    hash: pending.hash,
  });
  assert.equal(answer.status, 200);
  await answer.body?.cancel();
  await said;
  assert.equal(page.tool().state, "output-available");
  await client.checkHistory(name, page);
}

function say(line: string): void {
  Deno.stdout.writeSync(new TextEncoder().encode(`${line}\n`));
}

const child = new Deno.Command(Deno.execPath(), {
  args: ["run", "--config", "deno.json", "-A", new URL("hub.ts", import.meta.url).pathname],
  stdin: "piped",
  stdout: "piped",
  stderr: "inherit",
}).spawn();
const lines = child.stdout.pipeThrough(new TextDecoderStream());
let text = "";
for await (const piece of lines) {
  text += piece;
  if (text.includes("\n")) break;
}
try {
  const hub: Hub = JSON.parse(text);
  for (const [version, level] of PEERS) {
    const ai = await loadAiPackage(version);
    const client = new Client(ai, hub, level);
    const name = `chat-${version.replaceAll(".", "-")}`;
    if (level >= 6) await checkApprovals(client, name);
    else await checkDataApprovals(client, name);
    await checkRewrites(client, `${name}-rewrites`);
    say(`ai ${version} level ${level}: its chats agree with the hub`);
  }
} finally {
  await child.stdin.close();
  await child.status;
}
