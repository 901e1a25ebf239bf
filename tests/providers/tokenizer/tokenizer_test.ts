import assert from "node:assert/strict";
import fc from "fast-check";
import { countTokens } from "gpt-tokenizer/encoding/o200k_base";
import { countInPieces, piecesOf } from "../../../src/providers/tokenizer/count_pieces.ts";
import { createTokenizers } from "../../../src/providers/tokenizer/create_tokenizers.ts";
import { estimateTextTokens } from "../../../src/providers/tokenizer/estimate_tokens.ts";
import { encodingOf } from "../../../src/providers/tokenizer/tiktoken.ts";
import { property } from "../../support/property.ts";

const find = createTokenizers();
const word = fc.oneof(
  fc.string({ unit: "binary" }),
  fc.string({ unit: "grapheme" }),
  fc.stringMatching(/^[a-z]{1,12} ?$/),
  fc.constantFrom("\n", "  ", "    ", "<|endoftext|>", "😀", "中文", "1234567", "--------"),
  fc.tuple(fc.constantFrom("a", " ", "é", "😀", "."), fc.integer({ min: 1, max: 6000 }))
    .map(([unit, times]) => unit.repeat(times)),
);
const text = fc.array(word, { maxLength: 60 }).map((words) => words.join(""));

property(
  "pieces are the text, short, with whole characters and without long runs",
  text,
  (text) => {
    const pieces = [...piecesOf(text)];
    assert.equal(pieces.join(""), text);
    for (const piece of pieces) {
      assert.ok(piece.length > 0 && piece.length <= 4096 + 160, `${piece.length}`);
      assert.doesNotMatch(piece, /([a-z])\1{200}|\.{200}| {200}/);
    }
    if (text.isWellFormed()) assert.ok(pieces.every((piece) => piece.isWellFormed()));
  },
);

property(
  "a count in pieces is the whole count, or a token more for each cut",
  text,
  async (text) => {
    const whole = countTokens(text.toWellFormed().slice(0, 9000), {
      disallowedSpecial: new Set(),
    });
    const cut = text.toWellFormed().slice(0, 9000);
    const counted = await find("tiktoken:o200k_base").count(cut);
    const cuts = [...piecesOf(cut)].length;
    assert.ok(counted >= whole - cuts && counted <= whole + 3 * cuts, `${counted} for ${whole}`);
  },
  { runs: 60 },
);

Deno.test("prose is counted exactly, and a name of a special token is text", async () => {
  const prose = "The quick brown fox jumps over the lazy dog, twice. ".repeat(300);
  assert.equal(await find("tiktoken:gpt-4o").count(prose), countTokens(prose));
  assert.ok(await find("tiktoken:cl100k_base").count("<|endoftext|>") > 1);
  assert.equal(await find("tiktoken:gpt-5-mini").count(""), 0);
});

Deno.test("others get their turn while a long text is counted, and no piece is costly", async () => {
  let turns = 0;
  let longest = 0;
  const count = (piece: string) => {
    longest = Math.max(longest, piece.length);
    return 1;
  };
  const turn = () => {
    turns++;
    return Promise.resolve();
  };
  await countInPieces("some words of a text ".repeat(50_000), { count, turn });
  assert.ok(turns > 50 && longest <= 4096 + 160, `${turns} turns, ${longest}`);
  longest = 0;
  await countInPieces("a".repeat(1_000_000), { count, turn });
  assert.ok(longest <= 160, "the square of a run's length");
});

Deno.test("a run of one letter is counted in time, a text beyond all bounds is estimated", async () => {
  const tokens = await find("tiktoken:o200k_base").count("a".repeat(200_000));
  assert.ok(tokens >= 20_000 && tokens <= 30_000, `${tokens}`);
  const loads: string[] = [];
  const other = createTokenizers({
    load: (encoding) => {
      loads.push(encoding);
      return Promise.resolve(() => 1);
    },
  })("tiktoken:o200k_base");
  const long = "ab ".repeat(400_000);
  assert.equal(other.count(long), estimateTextTokens(long));
  assert.deepEqual(loads, [], "nothing is loaded for it");
  await other.count("a text that is long enough to be known again");
  const again = other.count("a text that is long enough to be known again");
  assert.equal(again, 1, "known counts are there at once");
  assert.deepEqual(loads, ["o200k_base"]);
});

Deno.test("estimates stay near the count, and above it for what has no public tokens", async () => {
  const prose = await Deno.readTextFile(new URL("../../../docs/events.md", import.meta.url));
  const code = await Deno.readTextFile(new URL("./tokenizer_test.ts", import.meta.url));
  for (const text of [prose, code, JSON.stringify({ prose, n: [1, 2, 3] })]) {
    const counted = countTokens(text, { disallowedSpecial: new Set() });
    const share = find("heuristic").estimate(text) / counted;
    assert.ok(share > 0.9 && share < 2, `${share}`);
    assert.ok(find("claude").estimate(text) >= 1.2 * counted);
    assert.equal(find("claude").estimate(text), find("anthropic").count(text));
    assert.equal(find("gemini").estimate(text), find("google").count(text));
    assert.ok(find("gemini").estimate(text) >= find("heuristic").estimate(text));
  }
});

Deno.test("names lead to encodings; what nobody knows is of the newest one", () => {
  for (const name of ["o200k_base", "cl100k_base", "p50k_base", "r50k_base"]) {
    assert.equal(encodingOf(name), name);
  }
  for (const name of ["gpt-4o", "gpt-4o-mini", "gpt-4.1", "gpt-5-mini", "o3", "gpt-9", "x"]) {
    assert.equal(encodingOf(name), "o200k_base", name);
  }
  for (const name of ["gpt-4", "gpt-4-0613", "gpt-4-turbo", "gpt-3.5-turbo"]) {
    assert.equal(encodingOf(name), "cl100k_base", name);
  }
  assert.equal(encodingOf("text-davinci-003"), "p50k_base");
  assert.equal(encodingOf("davinci"), "r50k_base");
});
