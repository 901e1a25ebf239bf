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
    edits: { messageId: "m2", after: "m0" },
  });
  assert.ok(!("edits" in parseAiSdkChat(body(message))));
});

Deno.test("regenerate names a message, or means the last one", () => {
  const rest = { trigger: "regenerate-message" };
  const again = { trigger: "regenerate", chatId: "chat_1", messageId: "a1", last: "m2" };
  assert.deepEqual(parseAiSdkChat(body(user([]), { ...rest, messageId: "a1" })), again);
  const said = parseAiSdkChat(body(user([{ type: "text", text: "Look" }])));
  const lost = body(user([{ type: "text", text: "Look" }]), { ...rest, messageId: "a1" });
  assert.deepEqual(parseAiSdkChat(lost), { ...again, said });
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
      /An answered call wants toolCallId and approval/,
      "/messages/1/parts/1",
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

const answered = (id: string, approved: boolean, rest: object = {}) => ({
  type: "tool-pay",
  state: "approval-responded",
  toolCallId: `call-${id}`,
  input: { amount: 1 },
  approval: { id, approved },
  ...rest,
});
const asked = { id: "a1", role: "assistant", metadata: { runId: "run_1", waitingAt: 17 } };

Deno.test("answers to approvals are those of the message that the request is about", () => {
  const parts = [
    { type: "step-start" },
    { ...answered("apr_0", true), state: "output-available", output: 1 },
    answered("apr_1", true),
    { type: "data-approval", id: "apr_1", data: {} },
    answered("apr_2", false, { approval: { id: "apr_2", approved: false, reason: "no" } }),
  ];
  const wanted = {
    trigger: "answer",
    chatId: "chat_1",
    messageId: "a1",
    waitingAt: 17,
    answers: [
      ["apr_1", true, null] as const,
      ["apr_2", false, "no"] as const,
    ].map(([approvalId, approved, reason]) => ({
      ...{ approvalId, approved, reason },
      ...{ toolCallId: `call-${approvalId}`, input: { amount: 1 } },
    })),
  };
  assert.deepEqual(parseAiSdkChat(body({ ...asked, parts })), wanted);
  const said = user([{ type: "text", text: "Meanwhile" }]);
  const messages = [{ ...asked, parts }, said];
  const chat = { id: "chat_1", trigger: "submit-message", messages };
  assert.deepEqual(parseAiSdkChat({ ...chat, messageId: "a1" }), wanted);
  assert.equal(parseAiSdkChat(chat).trigger, "submit");
  for (const metadata of [undefined, null, 7, { waitingAt: "17" }, { waitingAt: 1.5 }]) {
    const chat = parseAiSdkChat(body({ ...asked, metadata, parts }));
    assert.deepEqual(chat, { ...wanted, waitingAt: null });
  }
});
