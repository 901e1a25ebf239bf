import assert from "node:assert/strict";
import type { Json } from "../../src/core/json.ts";
import type { ToolPart, UIMessage, UIPart } from "../../src/core/ui_message.ts";
import { historyToModel } from "../../src/inference/history_to_model.ts";

const toWire = (name: string) => name.replaceAll(".", "_");
const convert = (...messages: UIMessage[]) => historyToModel(messages, toWire);
const assistant = (parts: UIPart[], finishReason?: string): UIMessage => ({
  id: "msg_1",
  role: "assistant",
  parts,
  ...(finishReason === undefined ? {} : { metadata: { finishReason } }),
});
const text = (words: string): UIPart => ({ type: "text", id: "p0", text: words, state: "done" });
const tool = (part: Partial<ToolPart>): ToolPart => ({
  type: "tool",
  toolCallId: "call_1",
  toolName: "files.read",
  state: "result",
  step: 0,
  input: { path: "a" },
  ...part,
});
const resultOf = (part: Partial<ToolPart>) => {
  const message = convert(assistant([tool(part)])).at(-1);
  return message?.role === "tool" ? message.results[0] : undefined;
};

Deno.test("user input: text, images, files; what models cannot read is left out", () => {
  const parts: UIPart[] = [
    text("Look"),
    { type: "file", mediaType: "image/png", url: "data:image/png;base64,AA" },
    { type: "file", mediaType: "application/pdf", url: "https://x/y.pdf", filename: "y.pdf" },
    { type: "data", name: "note", data: 1 },
    text(""),
  ];
  assert.deepEqual(convert({ id: "m", role: "user", parts }), [{
    role: "user",
    content: [
      { type: "text", text: "Look" },
      { type: "image", mediaType: "image/png", url: "data:image/png;base64,AA" },
      { type: "file", mediaType: "application/pdf", url: "https://x/y.pdf", filename: "y.pdf" },
    ],
  }]);
  assert.deepEqual(convert({ id: "m", role: "user", parts: [] }), []);
  assert.deepEqual(convert({ id: "m", role: "system", parts: [text("Rules")] }), [
    { role: "system", text: "Rules" },
  ]);
});

Deno.test("each step is an assistant message with its tool message behind it", () => {
  const origin = { provider: "acme", model: "m", field: "reasoning", payload: { b: 1, a: 2 } };
  const messages = convert(assistant([
    { type: "step-start", step: 0 },
    { type: "reasoning", id: "p0", text: "hm", state: "done", origin },
    text("Reading"),
    tool({ output: "content of a" }),
    tool({ toolCallId: "call_2", state: "call" }),
    { type: "step-start", step: 1 },
    { type: "source-url", sourceId: "s", url: "https://x" },
    text("Done"),
  ]));
  const calls = ["call_1", "call_2"].map((toolCallId) => ({
    type: "tool-call",
    toolCallId,
    toolName: "files_read",
    inputText: '{"path":"a"}',
  }));
  assert.deepEqual(messages, [
    {
      role: "assistant",
      content: [
        { type: "reasoning", text: "hm", origin },
        { type: "text", text: "Reading" },
        ...calls,
      ],
    },
    {
      role: "tool",
      results: [{
        toolCallId: "call_1",
        toolName: "files_read",
        text: "content of a",
        images: [],
        isError: false,
      }],
    },
    { role: "assistant", content: [{ type: "text", text: "Done" }] },
  ]);
});

Deno.test("outputs: text, JSON with sorted keys, several pieces with images apart", () => {
  assert.equal(resultOf({ output: "plain" })?.text, "plain");
  assert.equal(resultOf({ output: { b: [1], a: null } })?.text, '{"a":null,"b":[1]}');
  assert.equal(resultOf({ output: "" })?.text, "(no output)");
  assert.equal(resultOf({ output: null })?.text, "null");
  const rich = resultOf({
    output: {
      type: "content",
      content: [
        { type: "text", text: "A picture:" },
        { type: "image", mediaType: "image/png", data: "AAAA" },
        { type: "json", value: { z: 1, a: 2 } },
        { type: "resource", uri: "file:///x", title: "X" },
      ],
    },
  });
  assert.equal(rich?.text, 'A picture:\n{"a":2,"z":1}\nX: file:///x');
  assert.deepEqual(rich?.images, [{ url: "data:image/png;base64,AAAA", mediaType: "image/png" }]);
  const image = { type: "image", mediaType: "image/png", data: "AAAA" };
  assert.equal(resultOf({ output: { type: "content", content: [image] } })?.text, "");
});

Deno.test("an output nested past the stack does not lose the conversation", () => {
  let value: Json = 1;
  for (let depth = 0; depth < 100_000; depth++) value = [value];
  const message = convert(assistant([tool({ output: value })])).at(-1);
  assert.match(JSON.stringify(message), /nests too deep/);
});

Deno.test("failed, refused and stopped calls are errors the model can read", () => {
  const error = (part: Partial<ToolPart>) => resultOf({ state: "error", ...part });
  assert.deepEqual(error({ errorText: "Disk full" }), {
    toolCallId: "call_1",
    toolName: "files_read",
    text: "Disk full",
    images: [],
    isError: true,
  });
  assert.equal(error({ errorText: "Not allowed", denied: true })?.text, "Not allowed");
  assert.match(error({ errorText: "aborted" })?.text ?? "", /^aborted; the outcome is unknown/);
  assert.match(error({ errorText: "interrupted" })?.text ?? "", /inspect before repeating$/);
});

Deno.test("arguments that were no object go as an empty one; half a call is none", () => {
  const { input: _, ...bare } = tool({ state: "error", errorText: "bad", inputText: '{"a":' });
  const [message] = convert(assistant([bare]));
  assert.ok(message?.role === "assistant" && message.content[0]?.type === "tool-call");
  assert.equal(message.content[0].inputText, "{}");
  const [whole] = convert(assistant([{ ...bare, inputText: '{"b":1, "a":2}' }]));
  assert.ok(whole?.role === "assistant" && whole.content[0]?.type === "tool-call");
  assert.equal(whole.content[0].inputText, '{"a":2,"b":1}');
  assert.deepEqual(convert(assistant([tool({ state: "streaming" })])), []);
});

Deno.test("reasoning goes back only whole, with an origin, and never of a step that broke off", () => {
  const origin = { provider: "acme", model: "m", field: "reasoning" };
  const thought = (rest: Partial<Extract<UIPart, { type: "reasoning" }>>): UIPart => ({
    type: "reasoning",
    id: "p0",
    text: "hm",
    state: "done",
    ...rest,
  });
  const kinds = (message: UIMessage) =>
    convert(message).flatMap((one) =>
      one.role === "assistant" ? one.content.map(({ type }) => type) : []
    );
  assert.deepEqual(kinds(assistant([thought({}), text("a")])), ["text"]);
  assert.deepEqual(kinds(assistant([thought({ origin, state: "streaming" }), text("a")])), [
    "text",
  ]);
  const twoSteps: UIPart[] = [
    { type: "step-start", step: 0 },
    thought({ origin }),
    text("a"),
    { type: "step-start", step: 1 },
    thought({ origin }),
    text("b"),
  ];
  assert.deepEqual(kinds(assistant(twoSteps, "stop")), ["reasoning", "text", "reasoning", "text"]);
  assert.deepEqual(kinds(assistant(twoSteps, "aborted")), ["reasoning", "text", "text"]);
  assert.deepEqual(kinds(assistant(twoSteps, "error")), ["reasoning", "text", "text"]);
});

Deno.test("historyToModel: an image that the model made follows its step as the user's", () => {
  const message: UIMessage = {
    id: "msg_1",
    role: "assistant",
    parts: [
      { type: "step-start", step: 0 },
      { type: "text", id: "p0", text: "Here", state: "done" },
      { type: "file", mediaType: "image/png", url: "/v1/sessions/ses_1/files/a" },
      { type: "source-url", sourceId: "p1", url: "https://a.example/" },
    ],
  };
  assert.deepEqual(historyToModel([message], (name) => name), [
    { role: "assistant", content: [{ type: "text", text: "Here" }] },
    {
      role: "user",
      content: [
        { type: "text", text: "The image that you made:" },
        { type: "image", url: "/v1/sessions/ses_1/files/a", mediaType: "image/png" },
      ],
    },
  ]);
});
