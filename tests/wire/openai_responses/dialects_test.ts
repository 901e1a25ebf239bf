import assert from "node:assert/strict";
import type { JsonObject } from "../../../src/core/json.ts";
import { QUIRKS } from "../../../src/providers/quirks.ts";
import { inputItems } from "../../../src/wire/openai_responses/decode_input.ts";
import {
  toChatRequest,
  translateRequest,
} from "../../../src/wire/openai_responses/responses_request.ts";
import { readResponsesSamples } from "../../support/responses.ts";

Deno.test("every Responses request of a real client can be said in every dialect", async () => {
  let count = 0;
  for (const { client, body } of await readResponsesSamples()) {
    // How much a model says is a wish that some providers have no word for, and say so.
    const text = body["text"] as JsonObject | undefined;
    const { verbosity: _verbosity, ...format } = text ?? {};
    const request = { ...body, text: format };
    const translated = translateRequest(request, inputItems(body["input"] ?? []));
    for (const [kind, quirks] of Object.entries(QUIRKS)) {
      const target = { provider: kind, model: "m", quirks };
      for (const stream of [true, false]) {
        const chat = toChatRequest(translated, { target, stream });
        assert.equal(chat["stream"], stream);
        assert.equal("stream_options" in chat, stream && quirks.streamOptions);
        const native = quirks.dialect?.encodeRequest(chat);
        assert.ok(JSON.stringify(native ?? chat).includes("m"), client);
        count++;
      }
    }
  }
  assert.ok(count > 150, String(count));
});

Deno.test("what was said, thought and called in a row is one message, results behind their calls", () => {
  const call = (name: string, call_id: string) => ({
    type: "function_call",
    name,
    call_id,
    arguments: "{}",
  });
  const result = (call_id: string, output: string) => ({
    type: "function_call_output",
    call_id,
    output,
  });
  const { messages } = translateRequest({}, [
    { role: "user", content: "Go" },
    { role: "assistant", content: "One" },
    { role: "assistant", content: "Two" },
    call("a", "1"),
    call("b", "2"),
    { role: "user", content: "Wait" },
    result("2", "second"),
    result("1", "first"),
    call("a", "1"),
    result("1", "again"),
  ]);
  const said = messages.map((message) =>
    message.role === "tool"
      ? message.results.map(({ toolCallId, text }) => `${toolCallId}=${text}`)
      : message.role === "system"
      ? message.text
      : message.content.map((piece) => "text" in piece ? piece.text : piece.type)
  );
  assert.deepEqual(said, [
    ["Go"],
    ["One", "\n\nTwo", "tool-call", "tool-call"],
    ["1=first", "2=second"],
    ["Wait"],
    ["tool-call"],
    ["1=again"],
  ]);
});

Deno.test("tools of a namespace keep their names apart, however long", () => {
  const long = "n".repeat(60);
  const namespace = (name: string, tool: string) => ({
    type: "namespace",
    name,
    description: "All of them",
    tools: [{ type: "function", name: tool, description: "One" }],
  });
  const { definitions, tools } = translateRequest({
    tools: [namespace(long, "one"), namespace(long, "two"), namespace("odd name", "x")],
  }, [{ role: "user", content: "x" }]);
  const names = definitions.map(({ name }) => name);
  assert.equal(new Set(names).size, 3);
  for (const name of names) {
    assert.match(name, /^[\w-]{1,64}$/);
    assert.equal(tools.known.get(name)?.kind, "function");
  }
  assert.equal(definitions[0]?.description, "All of them\n\nOne");
});

Deno.test("a choice of tools: one, some, or by their kind", () => {
  const tools = [
    { type: "function", name: "a" },
    {
      type: "custom",
      name: "b",
      description: "B",
      format: { type: "grammar", syntax: "lark", definition: "start: x" },
    },
    { type: "local_shell" },
    { type: "web_search" },
  ];
  const choose = (tool_choice: JsonObject | string) => {
    const { toolChoice, definitions } = translateRequest({ tools, tool_choice }, [
      { role: "user", content: "x" },
    ]);
    return [toolChoice, definitions.map(({ name }) => name)];
  };
  const all = ["a", "b", "local_shell"];
  assert.deepEqual(choose("auto"), [undefined, all]);
  assert.deepEqual(choose("required"), ["required", all]);
  assert.deepEqual(choose({ type: "function", name: "a" }), [{ name: "a" }, all]);
  assert.deepEqual(choose({ type: "custom", name: "b" }), [{ name: "b" }, all]);
  assert.deepEqual(choose({ type: "local_shell" }), [{ name: "local_shell" }, all]);
  assert.deepEqual(
    choose({ type: "allowed_tools", mode: "auto", tools: [{ type: "function", name: "a" }] }),
    [undefined, ["a"]],
  );
  assert.deepEqual(
    choose({ type: "allowed_tools", mode: "required", tools: [{ type: "custom", name: "b" }] }),
    ["required", ["b"]],
  );
  const { definitions } = translateRequest({ tools }, [{ role: "user", content: "x" }]);
  assert.match(definitions[1]?.description ?? "", /^B\n\n.*lark grammar:\nstart: x$/);
});
