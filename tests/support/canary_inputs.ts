import assert from "node:assert/strict";
import { type Canaries, canary } from "./canaries.ts";
import type { CanaryRig } from "./canary_rig.ts";
import { chatError, chatStream, type RecordedRequest, type Reply } from "./scripted_upstream.ts";
import { eventually } from "./test_hub.ts";

/** What clients send, by any door. */
const SENT = {
  wrongKey: `lh_${canary("WrongKey")}`,
  queryKey: canary("QueryKey"),
  cookie: canary("Cookie"),
  basic: canary("Basic"),
  referer: canary("Referer"),
  handed: canary("Handed"),
  handedInBody: canary("HandedInBody"),
  baseUrlPassword: canary("BaseUrlPassword"),
  storedKey: canary("StoredKey"),
  storedHeader: canary("StoredHeader"),
};
const MCP_TOOLS = ["tattler__tell", "tattler__fail", "far__tell", "far__fail", "open__tell"];
const OPENED = [...MCP_TOOLS, "guarded__whoami"];

/** A model that calls what its prompt names, and a provider that repeats all it was sent in its errors. */
function answer(request: RecordedRequest): Reply {
  const known = `${request.path} ${JSON.stringify(request.headers)}`;
  const { messages, model } = request.json as unknown as {
    messages: { role: string; content: unknown }[];
    model: string;
  };
  if (model === "bad") {
    return chatError(500, { message: known, code: known, headers: { "x-echo": known } });
  }
  if (model === "denied") return chatError(401, { message: known });
  if (model === "moved") {
    const location = `http://user:${request.header("authorization")?.slice(7)}@127.0.0.1:1/`;
    return { status: 302, headers: { location }, body: known };
  }
  if (model === "broken") {
    return chatStream({ text: "Hi", errorFrameAfter: 2, error: { message: known, code: known } });
  }
  const last = messages.at(-1);
  if (last?.role === "tool") return chatStream({ text: "Done" });
  const text = JSON.stringify(last?.content ?? "");
  if (text.includes("shell")) {
    const script = "env; cat /proc/self/environ; echo $TOOL_TOKEN >&2";
    const args = { script, cwd: null, timeoutMs: null };
    return chatStream({ toolCalls: [{ name: "shell_script", arguments: args }] });
  }
  if (!text.includes("tools")) return chatStream({ text: "Hi" });
  return chatStream({ toolCalls: OPENED.map((name) => ({ name, arguments: {} })) });
}

/** Lets the hub in at the server that gives tokens. */
async function authorize({ ask, oauth, hub }: CanaryRig, server: string): Promise<number> {
  const begun = await ask(`/v1/mcp/${server}/authorize`, {}, { gives: true });
  const back = await oauth.approve(JSON.parse(begun.said).url, "ada");
  assert.equal(back.origin, hub.url);
  return (await ask(`${back.pathname}${back.search}`)).status;
}

/** Everything that can be asked, with a secret in every place. Gives the secrets that came of it. */
export async function askEverything(rig: CanaryRig): Promise<Canaries> {
  const { ask, key, upstream } = rig;
  upstream.script(answer);
  const gives = { gives: true };
  const user = JSON.parse((await ask("/v1/admin/keys", { name: "user" }, gives)).said);
  const rotated = await ask(`/v1/admin/keys/${user.key.id}/rotate`, { graceSeconds: 3600 }, gives);
  const stored = {
    name: "stored",
    baseUrl: upstream.url,
    apiKey: SENT.storedKey,
    headers: { "x-token": SENT.storedHeader },
  };
  assert.equal((await ask("/v1/admin/providers", stored)).status, 201);
  const hidden = `http://user:${SENT.baseUrlPassword}@127.0.0.1:1/v1`;
  await ask("/v1/admin/providers", { name: "hidden", baseUrl: hidden, apiKey: "sk-x" });
  assert.equal(await authorize(rig, "guarded"), 200);
  await ask("/v1/mcp/wrong/authorize", {});
  for (const server of ["tattler", "far", "open"]) {
    await eventually(async () => {
      const { said } = await ask(`/v1/admin/mcp/${server}/connect`, {});
      return JSON.parse(said).state === "ready" || null;
    });
    await ask(`/v1/admin/mcp/${server}/logs`);
  }
  await ask("/v1/admin/mcp");

  const { id } = JSON.parse((await ask("/v1/sessions", {})).said);
  const handed = { headers: { "x-mcp-auth-open": SENT.handed } };
  const said = await ask(`/v1/sessions/${id}/messages`, { text: "Use tools" }, handed);
  assert.match(said.said, /redacted/);
  assert.match(said.said, /\bada\b/);
  const again = { text: "Use tools", mcpAuth: { open: SENT.handedInBody } };
  await ask(`/v1/sessions/${id}/messages`, again);
  await ask(`/v1/sessions/${id}/messages`, { text: "Use shell", agent: "worker" });
  await ask(`/v1/sessions/${id}/messages`, { text: "Hi", model: "up/bad" });
  await ask(`/v1/sessions/${id}`);
  await ask(`/v1/sessions/${id}/messages`);
  const run = String(said.headers.get("x-loophub-run"));
  for (const tail of ["", "/events", "/questions", "/approvals"]) {
    await ask(`/v1/runs/${run}${tail}`);
  }

  const scope = { agent: "default", chatId: "chat1" };
  const page = JSON.parse((await ask("/v1/browser-tokens", scope, gives)).said);
  const message = { id: "m1", role: "user", parts: [{ type: "text", text: "Use tools" }] };
  const chat = { id: "chat1", messages: [message], agent: "default" };
  const shown = await ask("/api/chat", chat, { key: page.token });
  assert.match(shown.said, /tool-output-available/);
  await ask("/api/chat/chat1/messages");

  const models = ["bad", "denied", "moved", "broken", "m"];
  for (
    const model of ["up", "lit", "stored"].flatMap((name) => models.map((m) => `${name}/${m}`))
  ) {
    for (const stream of [false, true]) {
      const messages = [{ role: "user", content: "Hi" }];
      await ask("/v1/chat/completions", { model, stream, messages });
      await ask("/v1/messages", { model, stream, max_tokens: 9, messages });
      await ask("/v1/responses", { model, stream, input: "Hi" });
    }
  }
  const doors: Record<string, string>[] = [
    { authorization: `Bearer ${SENT.wrongKey}` },
    { authorization: `Basic ${btoa(`user:${SENT.basic}`)}` },
    { authorization: "", "x-api-key": SENT.wrongKey },
    { "x-goog-api-key": SENT.wrongKey },
    { cookie: `session=${SENT.cookie}`, referer: `https://user:${SENT.referer}@a.example/` },
    { "x-mcp-auth-none": SENT.handed },
    { "x-mcp-auth-tattler": SENT.handed },
  ];
  for (const headers of doors) {
    for (
      const path of ["/v1/models", `/v1/nothing?key=${SENT.queryKey}`, "/v1/runs/run_x", "/mcp"]
    ) {
      const search = `${path.includes("?") ? "&" : "?"}api_key=${SENT.queryKey}`;
      await ask(path + search, undefined, { headers });
      await ask(path + search, { password: "x" }, { headers });
    }
  }
  const given = [...rig.oauth.secrets];
  assert.ok(given.length > 3);
  return {
    ...SENT,
    ...Object.fromEntries(given.map((secret, at) => [`oauth${at}`, secret])),
    adminKey: key,
    userKey: user.token,
    rotatedKey: JSON.parse(rotated.said).token,
    browserToken: page.token,
  };
}
