import { BoundedMap } from "../../core/bounded_map.ts";
import { nextTurn } from "../../core/next_turn.ts";
import type { Tokenizer } from "../../core/tokenizer.ts";
import { countInPieces, MOST_COUNTED_CHARACTERS } from "./count_pieces.ts";
import { estimateTextTokens } from "./estimate_tokens.ts";
import { type CountTokens, type Encoding, encodingOf, loadEncoding } from "./tiktoken.ts";

/** What estimates of models whose tokens are not public are multiplied by; see `docs/agents.md`. */
const FACTORS = { heuristic: 1, gemini: 1.05, anthropic: 1.35 } as const;
const ESTIMATED: Readonly<Record<string, keyof typeof FACTORS>> = {
  anthropic: "anthropic",
  claude: "anthropic",
  gemini: "gemini",
  google: "gemini",
  heuristic: "heuristic",
};
/** Counts that are remembered, over all runs: a conversation is the same but for its end each time. */
const MOST_KNOWN = 50_000;
/** Shorter texts are counted faster than found. */
const SHORTEST_KNOWN = 32;

/** What tokenizers are made with. */
export interface TokenizerOptions {
  load?: (encoding: Encoding) => Promise<CountTokens>;
  /** Lets others run for a moment. */
  turn?: () => Promise<void>;
}

/** Gives the tokenizer of a name: `tiktoken:` and an encoding or a model, `anthropic`, `claude`, `gemini`, `google`, `heuristic`. */
export type FindTokenizer = (name: string) => Tokenizer;

/** Makes the finder; each encoding is loaded once, when the first text is to be counted with it. */
export function createTokenizers(options: TokenizerOptions = {}): FindTokenizer {
  const { load = loadEncoding, turn = nextTurn } = options;
  const known = new Map<string, Tokenizer>();
  const create = (name: string): Tokenizer => {
    const estimated = ESTIMATED[name];
    if (estimated !== undefined || !name.startsWith("tiktoken:")) {
      const factor = FACTORS[estimated ?? "heuristic"];
      const estimate = (text: string) => estimateTextTokens(text, factor);
      return { name, estimate, count: estimate };
    }
    const encoding = encodingOf(name.slice("tiktoken:".length));
    return counting(name, { load: () => load(encoding), turn });
  };
  return (name) => {
    const before = known.get(name) ?? create(name);
    known.set(name, before);
    return before;
  };
}

function counting(
  name: string,
  { load, turn }: { load: () => Promise<CountTokens>; turn: () => Promise<void> },
): Tokenizer {
  const counts = new BoundedMap<string, number>(MOST_KNOWN);
  let loaded: Promise<CountTokens> | null = null;
  const estimate = (text: string) => estimateTextTokens(text);
  const countNow = async (text: string): Promise<number> => {
    const count = await (loaded ??= load());
    return await countInPieces(text, { count, turn });
  };
  return {
    name,
    estimate,
    count(text) {
      if (text === "") return 0;
      if (text.length > MOST_COUNTED_CHARACTERS) return estimate(text);
      if (text.length < SHORTEST_KNOWN) return countNow(text);
      const key = keyOf(text);
      const before = counts.get(key);
      if (before !== undefined) return before;
      return countNow(text).then((tokens) => {
        counts.set(key, tokens);
        return tokens;
      });
    },
  };
}

/** Two hashes and the length: the text itself would be kept alive. */
function keyOf(text: string): string {
  let a = 0x811c9dc5;
  let b = 0x9747b28c;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    a = Math.imul(a ^ code, 0x01000193);
    b = Math.imul(b ^ code, 0x5bd1e995) ^ (b >>> 13);
  }
  return `${text.length}:${a >>> 0}:${b >>> 0}`;
}
