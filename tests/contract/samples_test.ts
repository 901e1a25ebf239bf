import assert from "node:assert/strict";
import { isJsonObject, type JsonObject } from "../../src/core/json.ts";
import { QUIRKS } from "../../src/providers/quirks.ts";

const folder = new URL("../fixtures/samples/", import.meta.url);

/** The tools without the mark that stands for those that were cut off when the samples were taken. */
function wholeTools({ tools }: JsonObject): JsonObject {
  if (!Array.isArray(tools)) return {};
  return { tools: tools.filter((tool) => isJsonObject(tool) && "function" in tool) };
}

Deno.test("every chat request of a real client can be said in every dialect", async () => {
  let count = 0;
  for await (const { name } of Deno.readDir(folder)) {
    const text = await Deno.readTextFile(new URL(name, folder));
    for (const line of text.trim().split("\n")) {
      const { body }: { body: JsonObject } = JSON.parse(line);
      if (!Array.isArray(body["messages"]) || typeof body["model"] !== "string") continue;
      for (const { dialect } of Object.values(QUIRKS)) {
        if (dialect === null) continue;
        count++;
        const native = dialect.encodeRequest({ ...body, ...wholeTools(body) });
        assert.ok(isJsonObject(JSON.parse(JSON.stringify(native.body))));
      }
    }
  }
  assert.ok(count > 50, String(count));
});
