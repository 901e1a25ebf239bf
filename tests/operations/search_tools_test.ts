import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import type { Tool } from "../../src/core/tool.ts";
import { createToolSearch, wordsOf } from "../../src/operations/search_tools.ts";
import { makeTool, textResult } from "../inference/loop_rig.ts";
import { readToolCorpus } from "./tool_corpus.ts";

const tool = (name: string, rest: Partial<Tool> = {}) =>
  makeTool(name, () => textResult(""), { description: "", ...rest });

/** Every usable tool of the lists of real servers. */
const corpus = readToolCorpus().filter(({ id }) => id === undefined).map(
  ({ server, name, description, inputSchema }) =>
    tool(`${server}__${name}`, { description, inputSchema: (inputSchema ?? {}) as JsonObject }),
);

Deno.test("words are read from any way of writing names, and from any language", () => {
  assert.deepEqual(wordsOf("createIssue"), ["create", "issue"]);
  assert.deepEqual(wordsOf("github__create_issue"), ["github", "create", "issue"]);
  assert.deepEqual(wordsOf("parseHTMLPage2"), ["parse", "html", "page", "2"]);
  assert.deepEqual(wordsOf("Größe ＡＢＣ été"), ["größe", "abc", "été"]);
  assert.deepEqual(wordsOf("查找文件 now"), ["查找", "找文", "文件", "now"]);
  assert.deepEqual(wordsOf("файлы, مجلد"), ["файлы", "مجلد"]);
  assert.deepEqual(wordsOf("…!  "), []);
});

Deno.test("the tools of eleven real servers are found by what is to be done", () => {
  const search = createToolSearch(corpus);
  assert.ok(corpus.length > 300);
  const wanted: [string, string][] = [
    ["open a new pull request", "github-mcp-server__create_pull_request"],
    ["merge the pull request", "github-mcp-server__merge_pull_request"],
    ["draw a pie chart of the shares", "antv-chart__generate_pie_chart"],
    ["crawl a website", "firecrawl__firecrawl_crawl"],
    ["list the files of a directory", "server-filesystem__list_directory"],
    ["documentation of a library", "context7__query-docs"],
    ["add observations to the memory graph", "server-memory__add_observations"],
  ];
  for (const [text, name] of wanted) {
    const found = search(text, 5).map((one) => one.name);
    assert.ok(found.includes(name), `${text}: ${found.join()}`);
  }
});

Deno.test("what is found does not depend on the order of the tools, and is the same each time", () => {
  const there = createToolSearch(corpus);
  const back = createToolSearch(corpus.toReversed());
  for (const text of ["issue", "search code in repositories", "file", "chart data title"]) {
    const names = there(text, 20).map(({ name }) => name);
    assert.deepEqual(back(text, 20).map(({ name }) => name), names);
    assert.deepEqual(there(text, 20).map(({ name }) => name), names);
  }
});

Deno.test("a name counts more than a title, a title more than a description, and that more than a parameter", () => {
  const search = createToolSearch([
    tool("a.parameter", { inputSchema: { type: "object", properties: { invoice: {} } } }),
    tool("b.description", { description: "Reads an invoice" }),
    tool("c.titled", { title: "Invoice" }),
    tool("d.invoice"),
    tool("e.other", { description: "Reads a letter" }),
  ]);
  assert.deepEqual(search("invoice", 9).map(({ name }) => name), [
    "d.invoice",
    "c.titled",
    "b.description",
    "a.parameter",
  ]);
  assert.deepEqual(search("invoice", 2).length, 2);
});

Deno.test("other endings of a word are found too, in whichever language; what has nothing of it is not", () => {
  const search = createToolSearch([
    tool("a.one", { description: "Lists issues" }),
    tool("b.two", { description: "Löscht Rechnungen" }),
    tool("c.three", { description: "удаляет файлы" }),
    tool("d.four", { description: "查找文件" }),
  ]);
  const names = (text: string) => search(text, 9).map(({ name }) => name);
  assert.deepEqual(names("issue"), ["a.one"]);
  assert.deepEqual(names("Rechnung"), ["b.two"]);
  assert.deepEqual(names("файл"), ["c.three"]);
  assert.deepEqual(names("文件在哪里"), ["d.four"]);
  assert.deepEqual(names("weather"), []);
  assert.deepEqual(names("!!"), []);
  assert.deepEqual(createToolSearch([])("issue", 3), []);
});

Deno.test("a text of any length is searched for at a bounded price", () => {
  const search = createToolSearch(corpus);
  const words = Array.from({ length: 200_000 }, (_, index) => `word${index}`).join(" ");
  assert.deepEqual(search(`${words} issue`, 3).map(({ name }) => name).length, 3);
});
