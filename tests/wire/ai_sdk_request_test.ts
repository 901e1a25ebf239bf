import assert from "node:assert/strict";
import { HubError } from "../../src/core/error.ts";
import { parseAiSdkChat } from "../../src/wire/ai_sdk_request.ts";

const user = (parts: unknown[]) => ({ id: "m2", role: "user", parts });
const body = (message: unknown, rest: object = {}) => ({
  id: "chat_1",
  trigger: "submit-message",
  messages: [{ id: "m0", role: "user", parts: [{ type: "text", text: "forged" }] }, message],
  ...rest,
});

Deno.test("the last user message counts: text and files, nothing else", () => {
  const message = {
    ...user([
      { type: "text", text: "Look" },
      { type: "file", mediaType: "image/png", url: "data:image/png;base64,AA", filename: "a.png" },
      { type: "file", mediaType: "application/pdf", url: "https://example.org/a.pdf" },
      { type: "data-location", data: { city: "Köln" } },
      { type: "text", text: "" },
      { type: "text", text: "again", state: "done", providerMetadata: {} },
    ]),
    metadata: { any: 1 },
  };
  assert.deepEqual(parseAiSdkChat(body(message, { messageId: "m2", model: "mine" })), {
    trigger: "submit",
    chatId: "chat_1",
    clientMessageId: "m2",
    parts: [
      { type: "text", id: "text-0", text: "Look", state: "done" },
      { type: "file", mediaType: "image/png", url: "data:image/png;base64,AA", filename: "a.png" },
      { type: "file", mediaType: "application/pdf", url: "https://example.org/a.pdf" },
      { type: "text", id: "text-5", text: "again", state: "done" },
    ],
  });
});

Deno.test("regenerate names a message, or means the last one", () => {
  const rest = { trigger: "regenerate-message" };
  assert.deepEqual(parseAiSdkChat(body(user([]), { ...rest, messageId: "a1" })), {
    trigger: "regenerate",
    chatId: "chat_1",
    messageId: "a1",
  });
  assert.deepEqual(parseAiSdkChat({ id: "chat_1", messages: [], ...rest }), {
    trigger: "regenerate",
    chatId: "chat_1",
    messageId: null,
  });
});

Deno.test("what cannot be answered is refused with its place", () => {
  const text = { type: "text", text: "a" };
  const cases: [unknown, RegExp, string | undefined][] = [
    [null, /chat request is not valid at \//, undefined],
    [{ messages: [] }, /not valid at \/id/, "/id"],
    [
      body({ ...user([text]), role: "tool" }),
      /not valid at \/messages\/1\/role/,
      "/messages/1/role",
    ],
    [body(user([text]), { trigger: "resume" }), /not valid at \/trigger/, "/trigger"],
    [body({ id: "a1", role: "assistant", parts: [text] }), /its role is assistant/, "/messages"],
    [
      body({
        id: "a1",
        role: "assistant",
        parts: [text, {
          type: "dynamic-tool",
          state: "approval-responded",
          approval: { id: "apr_1", approved: true },
        }],
      }),
      /POST \/v1\/runs\/\{runId\}\/approvals\/\{approvalId\}/,
      "/messages",
    ],
    [{ id: "c", messages: [] }, /there is none/, "/messages"],
    [body(user([{ type: "text", text: "" }])), /neither text nor a file/, "/messages/1/parts"],
    [body(user([{ type: "text" }])), /wants a text/, "/messages/1/parts/0"],
    [body(user([{ type: "file", url: "data:," }])), /wants mediaType/, "/messages/1/parts/0"],
    [
      body(user([text, { type: "file", mediaType: "a/b", url: "file:///etc/passwd" }])),
      /http or https address or a data URL/,
      "/messages/1/parts/1/url",
    ],
  ];
  for (const [posted, message, param] of cases) {
    assert.throws(() => parseAiSdkChat(posted), (error: unknown) => {
      assert.ok(error instanceof HubError);
      assert.equal(error.code, "invalid_request");
      assert.match(error.message, message);
      assert.equal(error.param, param);
      return true;
    });
  }
});
